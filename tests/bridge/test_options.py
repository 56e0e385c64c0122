"""A mistake in an option or a data file stops the stock commands with a sentence that names the remedy."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.files import write_lines
from helpers.stock import run_stock
from onmt.bin import build_vocab, train, translate
from onmt.utils.parse import ArgumentParser

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.data_checks import (
    check_corpus,
    check_keys,
    check_same_length,
    check_streams,
    check_utf8,
    count_lines,
)
from onmt_exhird.errors import ExhirdError

COMMANDS = {"train": train, "build_vocab": build_vocab, "translate": translate}
NEEDED = {
    "train": ["-data", "{}", "-src_vocab", "v", "-save_model", "m"],
    "build_vocab": ["-data", "{}", "-src_vocab", "v", "-save_data", "d"],
    "translate": ["-model", "m", "-src", "s"],
}
WORK = {"train": "train", "build_vocab": "build_vocab_main", "translate": "translate"}  # what follows the parsing
OURS = {"train": ["-decoder_type", "exhird"], "build_vocab": ["-transforms", "keyphrase"], "translate": []}
Run = Callable[..., tuple[Namespace | None, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command up to its work: the options it would work with, None if it stops with exit code 2, and what it says."""

    def run(command: str, *arguments: str) -> tuple[Namespace | None, str]:
        seen: list[Namespace] = []
        monkeypatch.setattr(COMMANDS[command], WORK[command], seen.append)
        monkeypatch.setattr("sys.argv", [f"onmt_{command}", *NEEDED[command], *arguments])
        try:
            COMMANDS[command].main()
        except SystemExit as stop:
            assert stop.code == 2
        return (seen[0] if seen else None), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("command", "wrong", "right"),
    [
        ("train", "exclusive_loss_windw", "exclusive_loss_window"),
        ("train", "lerning_rate", "learning_rate"),
        ("build_vocab", "n_sampel", "n_sample"),
        ("translate", "exclusive_serch", "exclusive_search"),
        ("translate", "beam_siez", "beam_size"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(command: str, wrong: str, right: str, run: Run) -> None:
    opt, said = run(command, f"-{wrong}", "3", *OURS[command])
    assert opt is None and f"error: unknown option '{wrong}'; did you mean '{right}'?" in said


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_misspelt_yaml_key_is_answered_with_the_nearest(command: str, run: Run, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("transfroms: [keyphrase]\n")
    opt, said = run(command, "-config", str(config), *OURS[command])
    assert opt is None and f"unknown option 'transfroms' in {config}; did you mean 'transforms'?" in said


@pytest.mark.parametrize(
    "ours",
    [
        "decoder_type: catseqd",
        "exclusive_loss_window: 0",
        "transforms: [keyphrase]",
        "valid_metrics: [KEYPHRASE_F1]",
        "base: empty.yaml",
        "plateau_deccay: 0.5",
    ],
)
@pytest.mark.parametrize("command", ["train", "build_vocab"])
def test_a_run_that_uses_the_plug_in_is_strict(command: str, ours: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("{}\n")
    (tmp_path / "c.yaml").write_text(f"{ours}\n")
    arguments = ["-config", str(tmp_path / "c.yaml"), "-dump_fields"]
    opt, said = run(command, *arguments)
    assert opt is None and "error: " in said and "unknown option 'dump_fields'" in said


def test_so_is_one_with_a_corpus_for_our_transform(run: Run) -> None:
    data = "{train: {path_src: a, path_tgt: b, transforms: [keyphrase]}}"
    opt, said = run("train", "-data", data, "-dump_fields")
    assert opt is None and "error: unknown option 'dump_fields'" in said


def test_so_is_one_that_goes_on_with_such_a_model(run: Run, tmp_path: Path) -> None:
    for decoder, strict in (("exhird", True), ("rnn", False)):
        torch.save({"opt": Namespace(decoder_type=decoder), "vocab": {"tgt": ["<unk>"]}}, tmp_path / "m.pt")
        opt, said = run("train", "-train_from", str(tmp_path / "m.pt"), "-dump_fields")
        assert (opt is None) == strict and "unknown option 'dump_fields'" in said


@pytest.mark.parametrize("command", ["train", "build_vocab"])
def test_in_any_other_run_what_upstream_ignored_is_still_ignored_with_one_line(
    command: str, run: Run, tmp_path: Path
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("lerning_rate: 3\n")
    opt, said = run(command, "-config", str(config), "-dump_fields", "-src_vocab_sise", "7")
    assert opt is not None and said.count("\n") == 1
    assert said.startswith("warning: unknown option ") and "did you mean 'src_vocab_size'?" in said
    assert f"'lerning_rate' in {config}; did you mean 'learning_rate'?" in said


@pytest.mark.parametrize("more", [[], ["-decoder_type", "exhird"]], ids=["upstream's", "ours"])
def test_a_stray_value_gets_a_warning_and_an_abbreviation_is_taken(more: list[str], run: Run) -> None:
    opt, said = run("train", "-tensorboard", "true", "-warmup_st", "7", *more)
    assert opt is not None and opt.tensorboard and opt.warmup_steps == 7
    assert said == "warning: ignored, since it belongs to no option: true\n"


def test_abbreviations_of_upstreams_options_stay_unambiguous_beside_ours(run: Run) -> None:
    opt, said = run("translate", "-out", "o", "-min", "3", "-exclusive_w", "all")
    assert opt is not None and not said
    assert (opt.output, opt.min_length, opt.exclusive_window) == ("o", 3, None)
    assert "ambiguous option: -exclu" in run("translate", "-exclu", "3")[1]


@pytest.mark.parametrize("command", ["train", "build_vocab"])
def test_from_python_a_parser_does_what_upstreams_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*NEEDED[command], "stray", "-exclusive_loss_windw", "3", *OURS[command]]
    _, unknown = COMMANDS[command]._get_parser().parse_known_args(arguments)
    assert unknown == ["stray", "-exclusive_loss_windw", "3"]
    assert capsys.readouterr().err == ""


def test_a_training_configuration_serves_build_vocab_too(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("exclusive_loss_window: 4\nsave_model: run/model\nlearning_rate: 0.1\n")
    opt, said = run("build_vocab", "-config", str(config))
    assert opt is not None and not said


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("exclusive_window", "-1", "-exclusive_window: '-1' is no window"),
        ("exclusive_window", "many", "give a number of phrases"),
        ("min_phrases", "-2", "-2 is less than 0"),
        ("max_phrases", "0", "0 is less than 1"),
        ("max_phrase_words", "x", "invalid int value: 'x'"),
    ],
)
def test_search_options_are_checked(option: str, value: str, reason: str, run: Run) -> None:
    assert reason in run("translate", f"-{option}={value}")[1]


@pytest.mark.parametrize("value", ["0", "1.5"])
def test_a_decay_is_a_fraction(value: str, run: Run) -> None:
    assert "is not above 0 and at most 1" in run("train", "-plateau_decay", value)[1]


def test_defaults_are_those_of_the_contract() -> None:
    opt = translate._get_parser().parse_args(NEEDED["translate"])
    assert (opt.exclusive_search, opt.exclusive_window) == (False, 1)
    assert (opt.min_phrases, opt.max_phrases, opt.max_phrase_words) == (1, 20, 5)
    opt = train._get_parser().parse_args(NEEDED["train"])
    assert (opt.exclusive_loss_window, opt.exclusive_loss_weight) == (0, 1.0)
    assert (opt.plateau_decay, opt.plateau_min_lr) == (1.0, 1e-5)


def test_an_unknown_decoder_names_the_known_ones() -> None:
    opt = SimpleNamespace(decoder_type="exhrid", encoder_type="brnn", model_task="seq2seq")
    with pytest.raises(ExhirdError, match=r"unknown decoder_type 'exhrid'.*exhird.*transformer.*did you mean 'exhird'"):
        ArgumentParser.validate_model_opts(opt)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-enc_hid_size 6 -dec_hid_size 8", "-enc_hid_size is 6 and -dec_hid_size is 8, but the decoder starts"),
        ("-src_word_vec_size 6 -tgt_word_vec_size 8 -share_embeddings", "-src_word_vec_size is 6"),
        ("-word_vec_size 6 -hidden_size 8 -share_decoder_embeddings", "makes them one with the output"),
        ("-encoder_type transformer -word_vec_size 6 -hidden_size 8", "a Transformer encoder adds to its embeddings"),
        ("-encoder_type brnn -hidden_size 7", "-enc_hid_size is 7, but -encoder_type brnn halves it"),
        ("-decoder_type rnn -hidden_size 8 -enc_layers 1 -dec_layers 2", "-dec_layers is 2 and -enc_layers is 1"),
    ],
)
def test_sizes_that_do_not_fit_are_named_by_their_options(options: str, reason: str) -> None:
    opt = train._get_parser().parse_args([*NEEDED["train"], "-decoder_type", "exhird", *options.split()])
    ArgumentParser.update_model_opts(opt)
    with pytest.raises(ExhirdError, match=reason):
        ArgumentParser.validate_model_opts(opt)


def test_files_of_unequal_length_are_named_with_both_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src, tgt = write_lines(tmp_path / "a.src", ["x"] * 3), write_lines(tmp_path / "a.tgt", ["y"] * 5)
    with pytest.raises(ExhirdError, match=r"a\.src has 3 lines and .*a\.tgt has 5"):
        check_same_length(str(src), str(tgt), refuse=True)
    assert check_same_length(str(src), str(tgt), refuse=False) == 3
    assert "a.tgt has 5" in capsys.readouterr().err


def test_targets_that_are_streams_are_taken_for_a_run_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src, tgt = write_lines(tmp_path / "a.src", ["x"] * 3), write_lines(tmp_path / "a.tgt", ["<p_start> y ;"])
    corpus = {"path_src": str(src), "path_tgt": str(tgt)}
    with pytest.raises(ExhirdError, match=r"a\.src has 3 lines and .*a\.tgt has 1"):
        check_corpus(corpus, needs_streams=False, refuse=False)
    write_lines(tgt, ["y"])
    check_corpus(corpus, needs_streams=False, refuse=False)
    assert "warning: " in capsys.readouterr().err


def test_what_is_no_text_is_named_with_its_line(tmp_path: Path) -> None:
    src = tmp_path / "a.src"
    src.write_bytes("h\u00e9\n".encode() + b"caf\xe9\n")
    with pytest.raises(ExhirdError, match=r"a\.src, line 2 is not UTF-8: "):
        check_utf8(str(src))
    write_lines(tmp_path / "m.pt", [])
    done = run_stock("onmt_translate", "-model", "m.pt", "-src", "a.src", "-output", "o", cwd=tmp_path, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error: a.src, line 2 is not UTF-8: " in done.stderr


def test_a_last_line_without_a_break_counts(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a\n\nb")
    assert count_lines(str(path)) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("neural network ;", "token 1 is 'neural'"),
        ("<p_start> graph ; tree", "token 4 is 'tree'"),
        ("<p_start> graph ; <a_start> tree", "is not closed"),
    ],
)
def test_a_target_that_is_no_stream_is_named_with_its_line(line: str, reason: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.tgt", ["<p_start> ok ;", line])
    with pytest.raises(ExhirdError, match=rf"a\.tgt, line 2: .*{reason}"):
        check_streams(str(path))


def test_a_line_that_is_no_utf8_stops_a_search_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "a.src").write_bytes(b"graph\ncaf\xe9 tree\n")
    done = run_stock("onmt_translate", "-model", "none.pt", "-src", "a.src", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "error: a.src, line 2 is not UTF-8: byte 0xe9 at 4; convert the file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_key_of_a_corpus_is_answered_with_the_nearest() -> None:
    with pytest.raises(ExhirdError, match=r"unknown key 'path_scr' in data/train; did you mean 'path_src'\?"):
        check_keys("train", {"path_scr": "x"}, refuse=True)


def test_training_stops_before_any_work(workshop: Path) -> None:
    write_lines(workshop / "short.tgt", ["<p_start> graph ;"])
    config = (workshop / "rnn.yaml").read_text().replace("valid.tgt", "short.tgt")
    (workshop / "short.yaml").write_text(config)
    done = run_stock("onmt_train", "-config", "short.yaml", cwd=workshop, check=False)
    assert done.returncode == 1
    assert "error: valid.src has 30 lines and short.tgt has 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_vocabulary_without_structure_tokens_is_named(workshop: Path) -> None:
    write_lines(workshop / "bare.txt", ["a\t5", "note\t5", ";\t3"])
    done = run_stock("onmt_train", "-config", "exhird.yaml", "-src_vocab", "bare.txt", cwd=workshop, check=False)
    assert (
        "-decoder_type exhird needs a model that writes keyphrases, but the target vocabulary lacks <p_start>"
        in done.stderr
    )


def test_a_missing_file_is_named() -> None:
    with pytest.raises(OSError):  # as upstream has it
        ArgumentParser._validate_file("no/such.src", info="train/path_src")
    with pytest.raises(ExhirdError, match=r"there is no file no/such\.src \(train/path_src\)"):
        ArgumentParser._validate_file("no/such.src", info="train/path_src")


def test_an_unknown_transform_names_the_known_ones() -> None:
    with pytest.raises(ExhirdError, match=r"unknown transform 'keyphrse'.*sentencepiece.*did you mean 'keyphrase'"):
        ArgumentParser._validate_transforms_opts(SimpleNamespace(_all_transform={"keyphrse"}))


def test_what_is_no_checkpoint_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(ExhirdError, match=r"cannot read the checkpoint .*none\.pt: No such file"):
        load_harmless(tmp_path / "none.pt")
    write_lines(tmp_path / "text.pt", ["this is text"])
    with pytest.raises(ExhirdError, match=r"text\.pt is no checkpoint"):
        load_harmless(tmp_path / "text.pt")


def test_an_empty_training_file_is_named(tmp_path: Path) -> None:
    src, tgt = (str(write_lines(tmp_path / name, [])) for name in ("empty.src", "empty.tgt"))
    with pytest.raises(ExhirdError, match=r"empty\.src has no lines"):
        check_corpus({"path_src": src, "path_tgt": tgt}, needs_streams=False, refuse=True)


def test_a_window_beyond_all_streams_is_all() -> None:
    arguments = [*NEEDED["translate"], "-exclusive_window", "99999999999999999999"]
    assert translate._get_parser().parse_args(arguments).exclusive_window is None
