"""A mistake in an option or a data file stops the stock commands with a sentence that names the remedy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import run_stock, write_lines
from onmt.bin import build_vocab, train, translate
from onmt.utils.parse import ArgumentParser

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.data_checks import check_corpus, check_keys, check_same_length, check_streams, count_lines
from onmt_exhird.errors import ExhirdError

PARSERS = {"train": train._get_parser, "build_vocab": build_vocab._get_parser, "translate": translate._get_parser}
NEEDED = {
    "train": ["-data", "{}", "-src_vocab", "v", "-save_model", "m"],
    "build_vocab": ["-data", "{}", "-src_vocab", "v", "-save_data", "d"],
    "translate": ["-model", "m", "-src", "s"],
}


def complaint(command: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        PARSERS[command]().parse_known_args(NEEDED[command] + arguments)
    assert stop.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "wrong", "right"),
    [
        ("train", "exclusive_loss_windw", "exclusive_loss_window"),
        ("train", "learning_rat", "learning_rate"),
        ("build_vocab", "n_sampel", "n_sample"),
        ("translate", "exclusive_serch", "exclusive_search"),
        ("translate", "beam_siez", "beam_size"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(
    command: str, wrong: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"unknown option '{wrong}'; did you mean '{right}'?" in complaint(command, [f"-{wrong}", "3"], capsys)


@pytest.mark.parametrize("command", list(PARSERS))
def test_a_misspelt_yaml_key_is_answered_with_the_nearest(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("transfroms: [keyphrase]\n")
    message = complaint(command, ["-config", str(config)], capsys)
    assert f"unknown option 'transfroms' in {config}; did you mean 'transforms'?" in message


def test_a_training_configuration_serves_build_vocab_too(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("exclusive_loss_window: 4\nsave_model: run/model\nlearning_rate: 0.1\n")
    build_vocab._get_parser().parse_known_args([*NEEDED["build_vocab"], "-config", str(config)])


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("exclusive_window", "-1", "-exclusive_window is -1"),
        ("exclusive_window", "many", "give a number of phrases"),
        ("min_phrases", "-2", "-2 is less than 0"),
        ("max_phrases", "0", "0 is less than 1"),
        ("max_phrase_words", "x", "invalid int value: 'x'"),
    ],
)
def test_search_options_are_checked(option: str, value: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reason in complaint("translate", [f"-{option}={value}"], capsys)


@pytest.mark.parametrize("value", ["0", "1.5"])
def test_a_decay_is_a_fraction(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not above 0 and at most 1" in complaint("train", ["-plateau_decay", value], capsys)


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


def test_files_of_unequal_length_are_named_with_both_counts(tmp_path: Path) -> None:
    src, tgt = write_lines(tmp_path / "a.src", ["x"] * 3), write_lines(tmp_path / "a.tgt", ["y"] * 5)
    with pytest.raises(ExhirdError, match=r"a\.src has 3 lines and .*a\.tgt has 5"):
        check_same_length(str(src), str(tgt))


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


def test_a_misspelt_key_of_a_corpus_is_answered_with_the_nearest() -> None:
    with pytest.raises(ExhirdError, match=r"unknown key 'path_scr' in data/train; did you mean 'path_src'\?"):
        check_keys("train", {"path_scr": "x"})


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
    empty = str(write_lines(tmp_path / "empty.src", []))
    with pytest.raises(ExhirdError, match=r"empty\.src has no lines"):
        check_corpus({"path_src": empty, "path_tgt": empty}, needs_streams=False)


def test_a_window_beyond_all_streams_is_all() -> None:
    arguments = [*NEEDED["translate"], "-exclusive_window", "99999999999999999999"]
    assert translate._get_parser().parse_args(arguments).exclusive_window is None
