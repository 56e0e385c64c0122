"""A model folder: the same bytes each time, smaller in fewer bits, and clear words for what is wrong with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from helpers.files import TESTS
from helpers.generator_models import make, texts

from onmt_exhird import KeyphraseGenerator
from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.folder import compress, expand

FORMAT_1 = TESTS / "folders" / "format-1"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("tied", [False, True])
def test_the_same_model_gives_the_same_bytes_and_comes_back(tied: bool, precision: str, tmp_path: Path) -> None:
    generator = KeyphraseGenerator(make(tied=tied))
    for name in ("one", "two"):
        generator.save_pretrained(tmp_path / name, precision)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    again = KeyphraseGenerator.from_pretrained(tmp_path / "one")
    again.save_pretrained(tmp_path / "three", precision)
    assert contents(tmp_path / "three") == contents(tmp_path / "one")
    if precision == "float32":
        assert [result.texts for result in again(texts(9))] == [result.texts for result in generator(texts(9))]


def test_fewer_bits_take_less_room_and_are_near() -> None:
    torch.manual_seed(3)
    tensors = {"generator.weight": torch.randn(500, 30), "encoder.weight_ih_l0": torch.randn(7, 5)}
    sizes = {}
    for precision in ("float32", "float16", "int8"):
        small = compress(tensors, precision)
        sizes[precision] = sum(tensor.numel() * tensor.element_size() for tensor in small.values())
        for name, tensor in expand(small).items():
            assert (tensor - tensors[name]).abs().max() <= {"float32": 0, "float16": 2e-3, "int8": 2e-2}[precision]
    assert sizes["float16"] * 2 == sizes["float32"] and sizes["int8"] < 0.32 * sizes["float32"]


def test_a_folder_of_format_1_loads_for_ever() -> None:
    generator = KeyphraseGenerator.from_pretrained(FORMAT_1)
    assert generator.name == "made-exhird" and generator.options.window == 1
    assert generator("fast graphs and a quiet tree").texts == generator(["fast graphs and a quiet tree"])[0].texts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(FORMAT_1, tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def cut(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-5])


def flip(folder: Path, name: str) -> None:
    path = folder / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


BROKEN = {
    "config.json is missing": (lambda folder: (folder / "config.json").unlink(), "is no model folder"),
    "config.json is cut": (lambda folder: cut(folder, "config.json"), "is damaged"),
    "config.json is of something else": (
        lambda folder: (folder / "config.json").write_text('{"model_type": "bert"}'),
        "describes something else",
    ),
    "weights are cut": (lambda folder: cut(folder, "model.safetensors"), "bytes"),
    "weights are altered": (lambda folder: flip(folder, "model.safetensors"), "another content"),
    "vocabulary is altered": (lambda folder: flip(folder, "vocab.txt"), "another content"),
    "weights are missing": (lambda folder: (folder / "model.safetensors").unlink(), "No such file"),
    "another format": (lambda folder: edit(folder, format=5), "has format 5, and this version"),
    "other text rules": (lambda folder: edit(folder, text_rules=7), "has text rules 7"),
    "sizes that do not fit": (
        lambda folder: edit(folder, architecture={"decoder": "exhird", "vocab_size": 45, "embedding_size": 8,
                                                  "hidden_size": 10, "encoder_layers": 2}),
        "do not fit its sizes",
    ),
    "an unknown decoder": (
        lambda folder: edit(folder, architecture={"decoder": "t5", "vocab_size": 45, "embedding_size": 7,
                                                  "hidden_size": 10, "encoder_layers": 2}),
        "unknown decoder 't5'",
    ),
    "an unknown key": (lambda folder: edit(folder, architecture={"colour": 1}), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_wrong_with_a_folder_is_said_in_a_sentence(what: str, folder: Path) -> None:
    breaks, message = BROKEN[what]
    breaks(folder)
    with pytest.raises(ExhirdError, match=message):
        KeyphraseGenerator.from_pretrained(folder)


def test_an_unknown_name_lists_what_is_installed() -> None:
    with pytest.raises(ExhirdError, match=r"no model 'sciense'.*installed model"):
        KeyphraseGenerator.from_pretrained("sciense")


def test_a_file_that_is_no_checkpoint_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(ExhirdError, match="no checkpoint"):
        KeyphraseGenerator.from_pretrained(path)
    torch.save({"weights": [1, 2]}, path)
    with pytest.raises(ExhirdError, match="no checkpoint of onmt_train"):
        KeyphraseGenerator.from_pretrained(path)


def test_the_card_marks_what_is_not_known(folder: Path) -> None:
    card = (folder / "README.md").read_text()
    assert "45 words" in card and card.count("*Not given.*") == 5


def test_export_takes_a_folder_too_and_a_card_of_ones_own(folder: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "card.md").write_text("# Mine\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "notes.txt").write_text("Mine\n")
    arguments = ["export", str(folder), str(tmp_path / "new"), "--card", str(tmp_path / "card.md"), "--name", "mine"]
    assert main([*arguments, "--window", "all", "--beam-size", "2", "--max-phrases", "7", "--max-source", "50"]) == 0
    names = ["README.md", "config.json", "model.safetensors", "vocab.txt"]
    written = [line.removeprefix("written      ").partition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert written == [str(tmp_path / "new" / name) for name in names]  # and not what stood there before
    generator = KeyphraseGenerator.from_pretrained(tmp_path / "new")
    assert (generator.name, generator.card) == ("mine", "# Mine\n")
    options = generator.options
    assert (options.window, options.beam_size, options.max_phrases) == (None, 2, 7)
    assert generator.config["max_source"] == 50


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--window", "some"], "argument --window: 'some' is no window; give a number of phrases, 0 for off, or 'all'"),
        (["--beam-size", "0"], "argument --beam-size: '0' is not a whole number from 1 on"),
        (["--max-source", "0"], "argument --max-source: '0' is not a whole number from 1 on"),
        (["--card", "none.md"], "none.md cannot be read: No such file or directory; name another file with --card"),
    ],
)
def test_what_export_cannot_do_is_told_with_its_option(
    folder: Path, tmp_path: Path, options: list[str], sentence: str, capsys
) -> None:
    try:
        code = main(["export", str(folder), str(tmp_path / "new"), *options])
    except SystemExit as stop:
        code = stop.code
    assert code == 2 and sentence in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_export_of_nothing_is_refused(tmp_path: Path) -> None:
    assert main(["export", str(tmp_path / "nothing.pt"), str(tmp_path / "x")]) == 2
