"""Raw texts in, keyphrases with scores and spans out, measured; beside it, if wanted, YAKE on the same texts."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.clock import clock, exhird, run_python, say
from benchmarks.documents import Shape, make_documents

from onmt_exhird.errors import ExhirdError

WORDS, PHRASES = 3, 10  # YAKE: at most so many words, so many phrases


def read_texts(args: Namespace) -> list[str]:
    """The texts to work on: those of a file of records, else invented ones."""
    count = args.documents or 500
    if args.texts is None:
        shape = Shape(args.vocab, args.source, args.target)
        made = make_documents(shape, args.seed)
        return [next(made).source_line.replace("<sep>", ".").replace("<digit>", "12") for _ in range(count)]
    from onmt_exhird.documents import FileLines, Names, kind_of, read

    found = (item.document for item in read(FileLines(args.texts), kind_of(args.texts), Names()))
    sound = ("\n".join(one) if isinstance(one, tuple) else one for one in found if one)
    texts = list(islice(sound, count))
    if not texts:
        raise ExhirdError(f"{args.texts} has no texts: give another file with --texts")
    return texts


def invented_model(texts: Sequence[str], args: Namespace, folder: Path) -> Path:
    """A model of the paper's sizes that has learned nothing, but writes as many tokens as a trained one."""
    import torch

    from onmt_exhird.generator.folder import write_folder
    from onmt_exhird.generator.trained import Options, Trained
    from onmt_exhird.nn.model import Architecture, SpecialIds
    from onmt_exhird.stream import ABSENT, BOS, DIGIT, END, EOS, PAD, PRESENT, SEPARATOR, UNK
    from onmt_exhird.text import tokenize

    specials = [UNK, PAD, BOS, EOS, PRESENT, ABSENT, END, DIGIT, SEPARATOR]
    words = dict.fromkeys(specials)
    for text in texts:
        words.update(dict.fromkeys(tokenize(text)))
    tokens = list(words)[: args.vocab]
    tokens += [f"word{number}" for number in range(args.vocab - len(tokens))]
    architecture = Architecture("exhird", len(tokens), 100, 300, encoder_layers=2)
    torch.manual_seed(args.seed)
    model = architecture.build(SpecialIds(*map(specials.index, (UNK, PAD, BOS, EOS, END))))
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.1, 0.1)
    model.generator.bias.data[specials.index(END)] = torch.tensor(0.05 * len(tokens)).log()
    model.generator.bias.data[specials.index(EOS)] = -50.0  # the number of phrases ends a document
    aliases = architecture.aliases()
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in aliases}
    trained = Trained("invented", architecture, tokens, tensors, Options(max_phrases=6))
    write_folder(trained, folder / "model", "float16")
    return folder / "model"


def yake(texts: Sequence[str]) -> Callable[[], Any]:
    """What extracts keyphrases from the texts with YAKE, which is no dependency."""
    try:
        from yake import KeywordExtractor
    except ImportError:
        raise ExhirdError("--against yake needs YAKE: pip install yake") from None
    extractor = KeywordExtractor(lan="en", n=WORDS, top=PHRASES)
    return lambda: [extractor.extract_keywords(text) for text in texts]


def measure_cold(text: str, model: Path, repeat: int) -> dict[str, Any]:
    """A cold ``exhird generate`` of one text, beside importing torch alone."""
    say("cold starts")
    Path("one.txt").write_text(text.replace("\n", " ") + "\n")
    cold = min(clock(lambda: exhird("generate", "one.txt", "--model", str(model))).cpu for _ in range(repeat))
    torch_alone = min(clock(lambda: run_python("import torch")).cpu for _ in range(repeat))
    return {
        "cold_cpu_seconds": round(cold, 3),
        "import_torch_cpu_seconds": round(torch_alone, 3),
        "cold_to_import_torch": round(cold / torch_alone, 2),
    }


def bench_generate(args: Namespace) -> dict[str, Any]:
    """`KeyphraseGenerator.generate` over raw texts, and a cold ``exhird generate`` of one of them."""
    import torch

    torch.set_num_threads(args.threads)
    texts = read_texts(args)
    random.Random(args.seed).shuffle(texts)
    model = args.model or invented_model(texts, args, Path())
    cold = measure_cold(texts[0], model, args.repeat)

    from onmt_exhird import KeyphraseGenerator

    generator = KeyphraseGenerator.from_pretrained(model)
    say("warming up")
    list(generator.generate(texts[:64], batch_size=args.batch or 64))
    phrases = 0

    def work() -> None:
        nonlocal phrases
        phrases = sum(map(len, generator.generate(texts, batch_size=args.batch or 64, beam_size=args.beam)))

    measured = args.clock.repeat(work, len(texts))
    other: dict[str, Any] = {}
    if args.against:
        say("YAKE, the same texts")
        span = clock(yake(texts))
        other = {
            "yake_docs_per_cpu_second": round(len(texts) / span.cpu, 3),
            "ratio_to_yake": round(span.cpu / measured.median.cpu, 2),
        }
    return measured.report(None) | other | {"phrases_per_document": round(phrases / len(texts), 2)} | cold
