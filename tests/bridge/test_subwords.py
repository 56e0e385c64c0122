"""From invented German-like and Chinese-like records to words, through every command on the way."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from helpers.files import load_tool
from helpers.stock import run_stock, train_here, translate
from helpers.workshop import DATA

from onmt_exhird import KeyphraseGenerator, stream
from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.subwords import MARK
from onmt_exhird.text import stem_words
from onmt_exhird.textmodel import TextModel, beside

CONFIG = f"""{DATA}vocab_size_multiple: 1
transforms: [keyphrase, keyphrase_drop]
keyphrase_drop_documents: 0.1
keyphrase_text: text.json
encoder_type: brnn
rnn_type: GRU
enc_layers: 1
dec_layers: 1
decoder_type: exhird
exclusive_loss_window: 2
hidden_size: 48
word_vec_size: 32
copy_attn: true
dropout: [0.0]
attention_dropout: [0.0]
param_init: 0.1
optim: adam
learning_rate: 0.01
max_grad_norm: 1.0
batch_size: 20
bucket_size: 500
num_workers: 0
train_steps: 60
valid_steps: 60
valid_metrics: [KEYPHRASE_F1]
save_checkpoint_steps: 60
seed: 7
overwrite: true
save_model: tiny
"""
TOKENIZERS = {"de": "sentencepiece", "zh": "pyonmttok"}
SIZES = {"train": 500, "valid": 20, "test": 25}


def write_records(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=TOKENIZERS)
def trained(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A language, and a folder with its data and a model trained on it."""
    language = request.param
    folder = tmp_path_factory.mktemp(language)
    for split, size in SIZES.items():
        records = load_tool("make_corpus").make_split(1, split, size, language)
        options = ["--subwords", "250", "--tokenizer", TOKENIZERS[language]] if split == "train" else []
        path = write_records(folder / f"{split}.jsonl", records)
        arguments = ["--input", str(path), "--output", str(folder), "--split", split, "--language", language]
        assert main(["prepare", *arguments, "--jobs", "1", *options]) == 0
    (folder / "tiny.yaml").write_text(CONFIG)
    run_stock("onmt_build_vocab", "-config", "tiny.yaml", "-n_sample", "-1", cwd=folder)
    train_here(folder, "-config", "tiny.yaml", "-log_file", "train.log")
    return language, folder


MODEL = "tiny_step_60.pt"
GREEDY = ("-beam_size", 1, "-exclusive_search")


def raw_lines(folder: Path) -> list[str]:
    records = [json.loads(line) for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    return [f"{record['title']} <sep> {record['abstract']}" for record in records]


def test_raw_text_goes_into_onmt_translate_and_words_come_out(trained: tuple[str, Path]) -> None:
    _, folder = trained
    (folder / "raw.src").write_text("".join(f"{line}\n" for line in raw_lines(folder)), encoding="utf-8")
    written = translate(folder, folder / MODEL, "raw.src", *GREEDY, "-min_phrases", 2)
    assert written == translate(folder, folder / MODEL, "test.src", *GREEDY, "-min_phrases", 2)
    words = {word for line in written for phrase in stream.parse(line) for word in phrase.words}
    assert not any(MARK in word for word in words)
    assert any(len(beside(folder / "test.src").cut([word])) > 1 for word in words)
    assert "KEYPHRASE_F1" in (folder / "train.log").read_text()


def test_the_log_has_the_choices_and_not_the_bytes_of_the_model(trained: tuple[str, Path]) -> None:
    language, folder = trained
    log = (folder / "train.log").read_text()
    assert f'"language": "{language}"' in log and '"sha256"' in log
    assert max(map(len, log.splitlines())) < 20_000


@pytest.mark.parametrize("options", [("-exclusive_window", "all"), ("-exclude_phrases",), ("-beam_size", 3)])
def test_exclusion_is_of_words(trained: tuple[str, Path], options: tuple[object, ...]) -> None:
    language, folder = trained
    rules = beside(folder / "test.src").rules
    base = GREEDY if "-beam_size" not in options else ("-exclusive_search",)
    for line in translate(folder, folder / MODEL, "test.src", *base, *options, "-min_phrases", 4):
        phrases = stream.parse(line)
        assert len(phrases) >= 4 and all(len(phrase.words) <= 5 for phrase in phrases)
        if "all" in options and language == "de":
            firsts = [phrase.words[0] for phrase in phrases]
            assert len(set(firsts)) == len(firsts)
        if "-exclude_phrases" in options:
            keys = [stem_words(phrase.words, rules) for phrase in phrases]
            assert len(set(keys)) == len(keys)


@pytest.fixture(scope="module")
def exported(trained: tuple[str, Path]) -> Path:
    _, folder = trained
    assert main(["export", str(folder / MODEL), str(folder / "model")]) == 0
    return folder / "model"


def is_plain(key: tuple[str, ...]) -> bool:
    """Whether the generator shows a phrase as it was written: no number, nothing but signs, nothing said twice."""
    return re.fullmatch(r"(.*\d.*|.*<.*|\W+|(.+)\2+)", "".join(key)) is None


def test_the_exported_folder_generates_what_onmt_translate_writes(trained: tuple[str, Path], exported: Path) -> None:
    language, folder = trained
    generator = KeyphraseGenerator.from_pretrained(exported)
    assert generator.config["text"]["language"] == language
    assert (exported / "subwords.model").read_bytes() == beside(folder / "test.src").subwords.model
    rules = beside(folder / "test.src").rules
    written = translate(folder, folder / MODEL, "test.src", *GREEDY, "-max_length", 2000)
    lines = raw_lines(folder)
    for line, text, result in zip(written, lines, generator(lines), strict=True):
        expected = dict.fromkeys(stem_words(phrase.words, rules) for phrase in stream.parse(line))
        found = [stem_words(phrase.text.split(), rules) for phrase in result]
        assert list(filter(is_plain, expected)) == list(filter(is_plain, found))
        for phrase in result:
            assert (phrase.surface is not None) == phrase.present == bool(phrase.spans)
            for start, end in phrase.spans:
                place = stem_words(text[start:end].split(), rules)
                assert "".join(place) == "".join(stem_words(phrase.text.split(), rules))


def test_a_folder_generates_the_same_again_and_the_checkpoint_too(trained: tuple[str, Path], exported: Path) -> None:
    _, folder = trained
    lines = raw_lines(folder)[:5]
    first = KeyphraseGenerator.from_pretrained(exported)
    first.save_pretrained(folder / "again")
    assert sorted(path.name for path in exported.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "subwords.model", "vocab.txt"
    ]  # fmt: skip
    for path in exported.iterdir():
        assert (folder / "again" / path.name).read_bytes() == path.read_bytes()
    assert KeyphraseGenerator.from_pretrained(folder / MODEL)(lines) == first(lines)


def test_attention_is_over_words(trained: tuple[str, Path], exported: Path) -> None:
    _, folder = trained
    result = KeyphraseGenerator.from_pretrained(exported)(raw_lines(folder)[0], attention=True)
    assert len(result) and result.tokens is not None
    for phrase in result:
        assert phrase.attention is not None
        for word in phrase.attention.words:
            assert len(word.weights) == len(result.tokens)
            assert sum(word.weights) == pytest.approx(1, abs=1e-3)
            assert MARK not in word.word and 0 <= word.copied <= 1


def test_the_evaluator_knows_the_language_of_the_data(trained: tuple[str, Path], capsys: Any) -> None:
    language, folder = trained
    (folder / "out.txt").write_text("\n".join(translate(folder, folder / MODEL, "test.src", *GREEDY)) + "\n")
    files = ["--src", folder / "test.src", "--gold", folder / "test.tgt", "--pred", folder / "out.txt"]
    assert main(["evaluate", *map(str, files), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    wanted = {"de": "stem:snowball-german", "zh": "stem:characters"}[language]
    assert wanted in result["signature"].split("|") and f"lang:{language}" in result["signature"]
    assert main(["evaluate", *map(str, files), "--format", "json", "--language", "en"]) == 0
    assert "stem:porter" in json.loads(capsys.readouterr().out)["signature"]


def test_raw_records_are_scored_as_prepared_ones_are(trained: tuple[str, Path], exported: Path, capsys: Any) -> None:
    _, folder = trained
    output = folder / "generated.jsonl"
    assert main(["generate", str(folder / "test.jsonl"), "--model", str(exported), "--output", str(output)]) == 0
    scores = []
    for gold in ("test.tgt", "test.jsonl"):
        files = ["--src", folder / "test.src", "--gold", folder / gold, "--pred", output]
        assert main(["evaluate", *map(str, files), "--format", "json"]) == 0
        scores.append(json.loads(capsys.readouterr().out)["systems"][0]["present"])
    assert scores[0] == scores[1]


def test_the_server_has_raw_text_in_and_words_out_too(trained: tuple[str, Path], tmp_path: Path) -> None:
    import torch
    from onmt.bin import translate as command
    from onmt.inputters.text_utils import textbatch_to_tensor
    from onmt.translate.translator import build_translator

    _, folder = trained
    arguments = ["-model", folder / MODEL, "-src", "none", "-output", tmp_path / "out", *GREEDY]
    opt = command._get_parser().parse_args(list(map(str, arguments)))
    command.ArgumentParser.validate_translate_opts(opt)
    translator = build_translator(opt, report_score=False)
    lines = raw_lines(folder)[:3]
    examples = [{"src": {"src": line}, "tgt": None} for line in lines]
    _, found = translator._translate(textbatch_to_tensor(translator.vocabs, examples, torch.device("cpu")))
    assert [best[0] for best in found] == translate(folder, folder / MODEL, "test.src", *GREEDY)[:3]


# --- what does not fit ------------------------------------------------------------------------------------------


@pytest.fixture
def other_text(tmp_path: Path) -> Path:
    path = tmp_path / "other.json"
    path.write_text(TextModel().to_json())
    return path


def test_a_text_model_that_is_not_the_models_is_said(trained: tuple[str, Path], other_text: Path) -> None:
    _, folder = trained
    options = ("-transforms", "keyphrase", "-keyphrase_text", other_text)
    with pytest.raises(ExhirdError, match="not what the model was trained with, which it knows: leave it out"):
        translate(folder, folder / MODEL, "test.src", *GREEDY, *options)
    with pytest.raises(ExhirdError, match="than the checkpoint was trained with"):
        train_here(folder, "-config", "tiny.yaml", "-train_from", MODEL, "-keyphrase_text", other_text)


def test_a_vocabulary_of_words_does_not_fit_a_subword_model(trained: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = trained
    words = [*stream.STRUCTURE, *sorted(set((folder / "train.src").read_text().split()))]
    (tmp_path / "words.txt").write_text("".join(f"{word}\t5\n" for word in words))
    with pytest.raises(ExhirdError, match="the subword model does not fit the vocabulary"):
        train_here(folder, "-config", "tiny.yaml", "-src_vocab", tmp_path / "words.txt", "-save_model", tmp_path / "m")


def test_a_vocabulary_of_pieces_needs_the_subword_model(trained: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = trained
    with pytest.raises(ExhirdError, match=r"is of pieces of words, .* add -keyphrase_text"):
        train_here(folder, "-config", "tiny.yaml", "-keyphrase_text", "", "-save_model", tmp_path / "m")


def test_an_option_without_its_transform_is_said(trained: tuple[str, Path]) -> None:
    _, folder = trained
    with pytest.raises(ExhirdError, match="which data/train lacks: add -transforms keyphrase"):
        train_here(folder, "-config", "tiny.yaml", "-transforms", "filtertoolong")


def test_an_altered_subword_model_is_noticed(trained: tuple[str, Path], exported: Path, tmp_path: Path) -> None:
    KeyphraseGenerator.from_pretrained(exported).save_pretrained(tmp_path / "copy")
    (tmp_path / "copy" / "subwords.model").write_bytes(b"something else")
    with pytest.raises(ExhirdError, match=r"subwords\.model is not what config\.json says"):
        KeyphraseGenerator.from_pretrained(tmp_path / "copy")


def test_hidden_phrases_are_hidden_as_words(trained: tuple[str, Path]) -> None:
    from onmt_exhird.bridge.transform import KeyphraseDropTransform

    _, folder = trained
    text = beside(folder / "train.src")
    opts = Namespace(keyphrase_drop_documents=1.0, keyphrase_drop_phrases=1.0, keyphrase_text=text.to_json(), seed=1)
    src, tgt = ((folder / f"train.{side}").read_text().splitlines()[0].split() for side in ("src", "tgt"))
    example = {"src": text.cut(src), "tgt": text.cut(tgt)}
    hidden = KeyphraseDropTransform(opts).apply(example, is_train=True)
    assert "<mask>" in hidden["src"]
    phrases = stream.parse(" ".join(text.join(hidden["tgt"])))
    assert {phrase.tag for phrase in phrases} == {stream.ABSENT}
    assert sorted(phrase.words for phrase in phrases) == sorted(p.words for p in stream.parse(" ".join(tgt)))
