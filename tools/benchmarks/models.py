"""Training and decoding, measured: OpenNMT-py's own machinery from a recipe, beside `reference_model.py`."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.clock import Parts, Span, Tokens, clock, exhird_flop, run_python, say
from benchmarks.documents import Shape, write_corpus
from benchmarks.reference_model import Ids, ReferenceModel, ReferenceTraining

from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import ABSENT, BOS, END, EOS, PAD, PRESENT, UNK

# A model that has learned nothing would end no phrase. So `;` is made as likely as a frequent word of a source, which
# gives phrases of 2.1 words, as KP20k has, and the number of phrases is fixed: about 27 tokens, 19 to 43. Beams, whose
# scores are means over a hypothesis' tokens, put phrases off for longer.
END_SHARE = 0.05
END_SHARE_OF_BEAMS = 0.065
PHRASES = 6
PHRASE_WORDS = 5
WINDOW = 1


def find_ids(vocab: Any) -> Ids:
    return Ids(*map(vocab.lookup_token, (UNK, PAD, BOS, EOS, PRESENT, ABSENT, END)))


def is_exhird(opt: Namespace) -> bool:
    """Whether this is the model that the reference and the count of operations are of."""
    return opt.decoder_type == "exhird" and opt.encoder_type == "brnn" and opt.rnn_type == "GRU"


class Training:
    """What ``onmt_train`` builds from a recipe and the data of the current folder, up to its training loop."""

    def __init__(self, config: Path, options: Sequence[str]) -> None:
        from onmt import train_single
        from onmt.bin.train import _get_parser
        from onmt.constants import CorpusTask
        from onmt.trainer import build_trainer
        from onmt.utils.parse import ArgumentParser

        opt = _get_parser().parse_args(["-config", str(config), *options])
        ArgumentParser.validate_train_opts(opt)
        ArgumentParser.update_model_opts(opt)
        ArgumentParser.validate_model_opts(opt)
        train_single.configure_process(opt, -1)
        _, self.vocabs, transforms = train_single._init_train(opt)
        self.opt: Namespace = opt
        self.model = train_single.build_model(opt, opt, self.vocabs, None, -1)
        self.optim = train_single.Optimizer.from_opt(self.model, opt, checkpoint=None)
        self.trainer = build_trainer(opt, -1, self.model, self.vocabs, self.optim)
        self.batches: Iterator[Any] = iter(
            train_single.build_dynamic_dataset_iter(
                opt, transforms, self.vocabs, task=CorpusTask.TRAIN, copy=opt.copy_attn, device_id=-1
            )
        )

    def steps(self, batches: Sequence[Any]) -> None:
        """Training steps, one for each batch, by OpenNMT-py's own loop."""
        last = self.optim.training_step + len(batches) - 1
        self.trainer.train(iter(batches), last, valid_steps=last + 1)

    def time_parts(self) -> Parts:
        parts = Parts()
        parts.wrap(self.model.encoder, "forward", "encoder")
        parts.wrap(self.model.decoder, "forward", "decoder")
        parts.wrap(self.trainer.train_loss, "forward", "output layer and loss")
        parts.wrap(self.optim, "backward", "backward")
        parts.wrap(self.optim, "step", "optimizer")
        return parts

    def save(self, end_share: float) -> None:
        """A checkpoint in the current folder, with that probability of a phrase's end where nothing is copied."""
        import torch
        from onmt.models import build_model_saver

        vocab = self.vocabs["tgt"]
        if hasattr(self.model.generator, "bias"):
            with torch.no_grad():
                self.model.generator.bias[vocab.lookup_token(END)] = math.log(end_share * len(vocab))
        build_model_saver(self.opt, self.opt, self.model, self.vocabs, self.optim, -1).save(1)


def write_checkpoint(end_share: str, config: str, *options: str) -> None:
    """An untrained model of a recipe, as a checkpoint in the current folder."""
    Training(Path(config), options).save(float(end_share))


def count_batches(batches: Sequence[dict[str, Any]], ids: Ids) -> Tokens:
    """The real tokens of training batches."""
    total = Tokens()
    for batch in batches:
        inputs, predicted = batch["tgt"][:, :-1, 0], batch["tgt"][:, 1:, 0] != ids.pad  # (batch, tgt_len)
        begun = (((inputs == ids.bos) | (inputs == ids.end)) & predicted).sum(1)  # (batch)
        for source, target, phrases in zip(batch["srclen"], predicted.sum(1), begun, strict=True):
            total.add(int(source), int(target), int(phrases))
    return total


def corpus_options(args: Namespace, documents: int) -> list[str]:
    """Write the corpus; the options of ``onmt_train`` that fit it."""
    shape = Shape(args.vocab, args.source, args.target)
    say(f"writing {documents:,} documents of about {shape.source} source and {shape.target} target tokens")
    write_corpus(Path(), shape, args.seed, documents)
    options = ["-src_vocab_size", args.vocab, "-tgt_vocab_size", args.vocab, "-bucket_size", documents]
    return [str(option) for option in [*options, "-seed", args.seed]]


def bench_train(args: Namespace) -> dict[str, Any]:
    """Steps of ``onmt_train`` over the same batches again and again, with what making them costs."""
    documents = args.documents or 20_000  # as many as the recipe's bucket
    options = corpus_options(args, documents)
    batch_size = args.batch or 10
    if documents < batch_size * 2:
        raise ExhirdError(f"--documents {documents} is less than two batches of {batch_size}: give more")
    training = Training(args.config, [*options, "-batch_size", str(batch_size), *args.options])
    opt, vocab = training.opt, training.vocabs["tgt"]

    # A bucket is read, looked up and sorted at once: that belongs to all of its documents.
    say("filling a bucket and drawing batches")
    drawn: list[Any] = []
    filling = clock(lambda: drawn.append(next(training.batches)))
    drawing = clock(lambda: drawn.extend(islice(training.batches, min(args.steps, documents // batch_size - 1))))
    batches = drawn[1:]
    tokens = count_batches([batch for batch, _ in batches], find_ids(vocab))
    making = filling.times(tokens.documents / documents).plus(drawing)

    say("warming up")
    training.steps(batches[: max(3, len(batches) // 4)])
    parts = training.time_parts()
    measured = args.clock.repeat(lambda: training.steps(batches), tokens.documents, making)

    reference = None
    if is_exhird(opt):
        measured.flop = 3 * exhird_flop(tokens, opt.tgt_word_vec_size, opt.dec_hid_size, len(vocab), opt.enc_layers)
        if not args.no_reference:
            reference = compare_training(training, batches[: max(2, len(batches) // 4)])
    milliseconds = {name: 1000 * seconds / args.repeat for name, seconds in parts.seconds.items()}
    milliseconds["batches"] = 1000 * making.cpu
    return measured.report(reference) | {
        "batch": opt.batch_size,
        "steps": len(batches),
        "source_tokens": tokens.mean_source,
        "target_tokens": tokens.mean_target,
        "batch_making_share": round(making.cpu / measured.median.cpu, 4),
        "parts": {name: round(value / tokens.documents, 2) for name, value in milliseconds.items()},
    }


def compare_training(training: Training, batches: Sequence[Any]) -> float:
    """How many times the plain implementation's CPU seconds per step are ours, over the same batches."""
    say("the plain implementation, the same batches")
    ours = clock(lambda: training.steps(batches))
    model = ReferenceModel.like(training.model.state_dict(), find_ids(training.vocabs["tgt"]))
    reference = ReferenceTraining(model, training.opt.learning_rate, training.opt.max_grad_norm)
    reference.step(batches[0][0])
    theirs = clock(lambda: [reference.step(batch) for batch, _ in batches])
    return theirs.cpu / ours.cpu


def prepare_search(config: Path, train_options: Sequence[str], options: Sequence[str]) -> Namespace:
    """Write an untrained model; options of ``onmt_translate`` for it and ``train.src`` of the current folder."""
    from onmt.bin.translate import _get_parser

    limits = ["-min_phrases", PHRASES, "-max_phrases", PHRASES, "-max_phrase_words", PHRASE_WORDS]
    search = ["-exclusive_search", "-exclusive_window", WINDOW]
    files = ["-model", "model_step_1.pt", "-src", "train.src", "-output", "train.pred"]
    opt = _get_parser().parse_args([*map(str, [*files, *limits, *search]), *options])
    end_share = END_SHARE if opt.beam_size == 1 else END_SHARE_OF_BEAMS
    # In another process: what it needs to be built is not what it needs to be used.
    code = "import sys; from benchmarks import models; models.write_checkpoint(*sys.argv[1:])"
    run_python(code, str(end_share), str(config), *train_options, "-save_model", "model")
    return opt


class Decoding:
    """What ``onmt_translate`` does with the options that `prepare_search` gives."""

    def __init__(self, opt: Namespace) -> None:
        from onmt.inference_engine import InferenceEnginePY
        from onmt.utils.parse import ArgumentParser

        ArgumentParser.validate_translate_opts(opt)
        ArgumentParser._get_all_transform_translate(opt)
        ArgumentParser._validate_transforms_opts(opt)
        ArgumentParser.validate_translate_opts_dynamic(opt)
        self.engine = InferenceEnginePY(opt)
        self.vocab = self.engine.vocabs["tgt"]
        self.streams: list[str] = []

    def run(self) -> None:
        """Decode the whole file."""
        _, predictions = self.engine.infer_file()
        self.streams = [best[0] for best in predictions]


def bench_decode(args: Namespace) -> dict[str, Any]:
    """``onmt_translate`` over the same file again and again; the model is loaded once."""
    documents = args.documents or 512
    batch_size = args.batch or 512
    options = ["-beam_size", str(args.beam), "-batch_size", str(batch_size), *args.options]
    search = prepare_search(args.config, corpus_options(args, documents), options)
    decoding = Decoding(search)
    say("warming up")
    decoding.run()
    sources = Path("train.src").read_text().splitlines()
    measured = args.clock.repeat(decoding.run, documents)

    from onmt.models.model_saver import load_checkpoint

    tokens = count_streams(sources, decoding.streams, args.beam)
    checkpoint = load_checkpoint(search.models[0])
    opt, reference, extra = checkpoint["opt"], None, {}
    if is_exhird(opt):
        sizes = opt.tgt_word_vec_size, opt.dec_hid_size, len(decoding.vocab)
        measured.flop = exhird_flop(tokens, *sizes, opt.enc_layers)
        if not args.no_reference:
            weights = checkpoint["model"] | {f"generator.{name}": w for name, w in checkpoint["generator"].items()}
            theirs, streams = decode_plainly(weights, decoding.vocab, sources)
            reference = theirs.cpu / measured.median.cpu
            same = sum(map(str.__eq__, streams, decoding.streams)) / documents
            extra = {"same_as_reference": round(same, 4)} if args.beam == 1 else {}
    return measured.report(reference) | {
        "batch": batch_size,
        "beam": args.beam,
        "source_tokens": tokens.mean_source,
        "target_tokens": round(tokens.mean_target / args.beam, 1),
        **extra,
    }


def count_streams(sources: Sequence[str], streams: Sequence[str], beam: int) -> Tokens:
    """What was read and written; the hypotheses of a beam count as long as the best, and share their encoding."""
    tokens = Tokens()
    for source, stream in zip(sources, streams, strict=True):
        target = stream.split()
        tokens.add(len(source.split()), beam * (len(target) + 1), beam * (target.count(END) + 1))
    return tokens


def decode_plainly(weights: Mapping[str, Any], vocab: Any, sources: Sequence[str]) -> tuple[Span, list[str]]:
    """The plain implementation's greedy search with the same limits, a document at a time."""
    say("the plain implementation, the same documents")
    ids = find_ids(vocab)
    model = ReferenceModel.like(weights, ids)
    streams = []

    def run() -> None:
        for line in sources:
            copied: dict[str, int] = {}
            plain, extended = [], []
            for token in line.split():
                plain.append(vocab.lookup_token(token))
                is_word = plain[-1] == ids.unk
                extended.append(copied.setdefault(token, len(vocab) + len(copied)) if is_word else plain[-1])
            chosen = model.greedy(plain, extended, len(copied), PHRASES, PHRASE_WORDS, WINDOW)
            words = list(copied)
            tokens = [vocab.lookup_index(i) if i < len(vocab) else words[i - len(vocab)] for i in chosen]
            streams.append(" ".join(tokens))

    return clock(run), streams
