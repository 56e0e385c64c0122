"""From a checkpoint to predictions, with the stock commands."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.files import write_lines
from helpers.stock import run_stock, translate
from helpers.workshop import MODELS
from onmt.bin import translate as command
from onmt.model_builder import load_test_model

from onmt_exhird import stream
from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.errors import ExhirdError

Made = Callable[[str], Path]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("search", [["-beam_size", 1], ["-beam_size", 4]], ids=["greedy", "beam"])
def test_the_batch_never_changes_a_result(name: str, search: list, workshop: Path, made: Made) -> None:
    model = made(name)
    one, seven, all_of_them = (
        translate(workshop, model, "test.src", "-batch_size", size, *search) for size in (1, 7, 64)
    )
    assert one == seven == all_of_them
    assert len({len(line.split()) for line in one}) > 1  # documents did finish at different steps


@pytest.mark.parametrize("name", MODELS)
def test_unknown_words_come_out_as_themselves(name: str, workshop: Path, made: Made, tmp_path: Path) -> None:
    """A model that always copies, and may write no word twice, writes all words of its document."""
    checkpoint = load_harmless(made(name))
    checkpoint["generator"]["gate_bias"].fill_(30.0)
    torch.save(checkpoint, tmp_path / "copies.pt")
    phrases = ["-min_phrases", 20, "-max_phrases", 20, "-max_phrase_words", 1]
    search = ["-beam_size", 1, "-exclusive_search", "-exclusive_window", "all"]
    lines = translate(workshop, tmp_path / "copies.pt", "test.src", *search, *phrases)
    vocabulary = set(checkpoint["vocab"]["tgt"])
    unknown = set()
    for line, source in zip(lines, (workshop / "test.src").read_text().splitlines(), strict=True):
        words = set(source.split())
        written = [phrase.words[0] for phrase in stream.parse(line)]
        assert set(written[: len(words)]) == words
        unknown |= words - vocabulary
    assert len(unknown) >= 10


def test_there_is_a_line_out_for_each_line_in(workshop: Path, made: Made) -> None:
    source = (workshop / "test.src").read_text().splitlines()
    mixed = ["", source[0], "   ", "qqq www eee", source[1], ""]
    write_lines(workshop / "mixed.src", mixed)
    lines = translate(workshop, made("rnn"), "mixed.src", "-beam_size", 1, "-batch_size", 2)
    alone = translate(workshop, made("rnn"), "test.src", "-beam_size", 1)[:2]
    assert len(lines) == 6
    assert [lines[0], lines[2], lines[5]] == ["", "", ""]
    assert [lines[1], lines[4]] == alone
    assert stream.parse(lines[3])


def test_an_empty_source_file_gives_an_empty_output(workshop: Path, made: Made) -> None:
    write_lines(workshop / "empty.src", [])
    assert translate(workshop, made("rnn"), "empty.src") == []


def test_source_and_target_of_unequal_length_are_refused(workshop: Path, made: Made) -> None:
    write_lines(workshop / "two.tgt", ["<p_start> a ;"] * 2)
    with pytest.raises(ExhirdError, match=r"test\.src has 23 lines and .*two\.tgt has 2"):
        translate(workshop, made("exhird"), "test.src", "-tgt", workshop / "two.tgt")
    assert not (workshop / "out.pred").read_text()


def test_a_pipe_is_read_once(workshop: Path, made: Made) -> None:
    model, (first, *_) = made("exhird"), (workshop / "test.src").read_text().splitlines()
    os.mkfifo(workshop / "pipe")
    writer = threading.Thread(target=lambda: (workshop / "pipe").write_text(f"{first}\n"))
    writer.start()
    lines = translate(workshop, model, "pipe", "-beam_size", 1)
    writer.join()
    assert lines == translate(workshop, model, "test.src", "-beam_size", 1)[:1]


def test_raw_text_is_normalised_by_the_transform(workshop: Path, made: Made) -> None:
    source = (workshop / "test.src").read_text().splitlines()[:5]
    write_lines(workshop / "raw.src", [line.upper().replace(" about ", " ABOUT [7] ") for line in source])
    raw = translate(workshop, made("rnn"), "raw.src", "-transforms", "keyphrase", "-beam_size", 1)
    assert raw == translate(workshop, made("rnn"), "test.src", "-beam_size", 1)[:5]


@pytest.mark.parametrize("name", MODELS)
def test_gold_scores_do_not_depend_on_the_batch(
    name: str, workshop: Path, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    totals = []
    for size in (1, 7):
        with caplog.at_level("INFO"):
            translate(workshop, made(name), "test.src", "-tgt", workshop / "test.tgt", "-batch_size", size)
        totals.append(float(re.findall(r"GOLD SCORE: (-[\d.]+)", caplog.text)[-1]))
    assert totals[0] == pytest.approx(totals[1], abs=2e-4)  # four digits are written


@pytest.mark.parametrize(
    "options",
    [
        ["-beam_size", 5, "-n_best", 5],
        ["-random_sampling_topk", 5, "-beam_size", 1, "-seed", 3],
        ["-random_sampling_topp", 0.9, "-beam_size", 3, "-n_best", 2, "-seed", 3],
    ],
    ids=["n-best", "top-k", "nucleus"],
)
@pytest.mark.parametrize("name", ["exhird", "rnn", "transformer"])
def test_every_search_writes_streams_without_repeated_first_words(
    name: str, options: list, workshop: Path, made: Made
) -> None:
    lines = translate(workshop, made(name), "test.src", *options, "-exclusive_search", "-exclusive_window", "all")
    n_best = options[options.index("-n_best") + 1] if "-n_best" in options else 1
    assert len(lines) == 23 * n_best
    for line in lines:
        first_words = [phrase.words[0] for phrase in stream.parse(line)]
        assert len(first_words) == len(set(first_words)) >= 1


def test_limits_hold(workshop: Path, made: Made) -> None:
    limits = ["-min_phrases", 3, "-max_phrases", 4, "-max_phrase_words", 1]
    for line in translate(workshop, made("exhird"), "test.src", "-beam_size", 1, *limits):
        phrases = stream.parse(line)
        assert 3 <= len(phrases) <= 4 and all(len(phrase.words) == 1 for phrase in phrases)


def test_window_zero_is_no_exclusion(workshop: Path, made: Made) -> None:
    plain = translate(workshop, made("exhird"), "test.src", "-beam_size", 1)
    zero = translate(workshop, made("exhird"), "test.src", "-beam_size", 1, "-exclusive_search", "-exclusive_window", 0)
    assert plain == zero


@pytest.mark.parametrize("name", ["exhird", "tied"])
def test_safetensors_load_again(name: str, workshop: Path, made: Made) -> None:
    run_stock(
        "onmt_train", "-config", f"{name}.yaml", "-save_format", "safetensors", "-save_model", "safe",
        "-train_steps", 3, "-train_from", made(name).name, "-reset_optim", "all", cwd=workshop,
    )  # fmt: skip
    lines = translate(workshop, workshop / "safe_step_3.pt", "test.src", "-beam_size", 1)
    assert len(lines) == 23 and all(stream.parse(line) for line in lines)


def test_a_tied_output_layer_stays_one_with_the_embedding_when_it_is_trained_saved_and_loaded(
    workshop: Path, made: Made
) -> None:
    saved = load_harmless(made("tied"))
    ours, theirs = saved["generator"]["weight"], saved["model"]["decoder.embeddings.make_embedding.emb_luts.0.weight"]
    assert torch.equal(ours, theirs) and ours.shape == (48, 24)  # upstream fills up to a multiple of 8
    assert saved["generator"]["projection"].shape == (24, 40)
    opt = command._get_parser().parse_args(["-model", str(made("tied")), "-src", "test.src"])
    _, model, _ = load_test_model(opt, model_path=made("tied"))
    embeddings = [side.embeddings.word_lut.weight for side in (model.encoder, model.decoder)]
    assert {weight.data_ptr() for weight in embeddings} == {model.generator.weight.data_ptr()}
    assert torch.equal(model.generator.projection, saved["generator"]["projection"])


def test_data_workers_have_the_plug_in(workshop: Path) -> None:
    run_stock(
        "onmt_train", "-config", "exhird.yaml", "-num_workers", 2, "-train_steps", 4, "-valid_steps", 4,
        "-save_model", "workers", "-transforms", "keyphrase", cwd=workshop,
    )  # fmt: skip
    assert (workshop / "workers_step_4.pt").exists()


def test_training_reports_the_exclusive_loss_and_f1(workshop: Path) -> None:
    done = run_stock(
        "onmt_train", "-config", "exhird.yaml", "-train_steps", 20, "-valid_steps", 10, "-report_every", 10,
        "-valid_metrics", "KEYPHRASE_F1", "-save_model", "report", "-tensorboard", "-tensorboard_log_dir", "tb",
        cwd=workshop,
    )  # fmt: skip
    log = done.stdout + done.stderr
    assert re.search(r"Step 10/.*exclusive: \d", log)
    assert re.search(r"validation KEYPHRASE_F1: \d", log)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = next((workshop / "tb").iterdir())
    events = EventAccumulator(str(folder))
    events.Reload()
    assert {"progress/exclusive", "valid/ppl", "valid/KEYPHRASE_F1"} <= set(events.Tags()["scalars"])


def test_loading_a_checkpoint_runs_no_code_from_it(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple:
            return os.system, (f"touch {tmp_path / 'harm'}",)

    torch.save({"model": {}, "opt": Harmful()}, tmp_path / "bad.pt")
    with pytest.raises(Exception, match=r"system|[Uu]nsupported|weights_only"):
        load_harmless(tmp_path / "bad.pt")
    write_lines(tmp_path / "a.src", ["a"])
    done = run_stock("onmt_translate", "-model", "bad.pt", "-src", "a.src", "-output", "o", cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert not (tmp_path / "harm").exists()


def test_the_server_copies_and_excludes(workshop: Path, made: Made) -> None:
    from onmt.translate import TranslationServer

    model = made("exhird")
    config = {
        "models_root": str(model.parent),
        "models": [
            {
                "id": 1,
                "model": model.name,
                "timeout": -1,
                "load": True,
                "opt": {"beam_size": 1, "exclusive_search": True},
            }
        ],
    }
    (workshop / "server.json").write_text(json.dumps(config))
    server = TranslationServer()
    server.start(str(workshop / "server.json"))
    source = (workshop / "test.src").read_text().splitlines()[:3]
    answers, *_ = server.run([{"id": 1, "src": line} for line in source])
    expected = translate(workshop, model, "test.src", "-beam_size", 1, "-exclusive_search")[:3]
    assert answers == expected


def test_beam_scores_are_written(workshop: Path, made: Made) -> None:
    for line in translate(workshop, made("exhird"), "test.src", "-beam_size", 3, "-with_score"):
        prediction, score = line.split("\t")
        assert stream.parse(prediction) and float(score) < 0


def test_blanks_of_any_kind_are_no_words(workshop: Path, made: Made) -> None:
    write_lines(workshop / "wide.src", ["a  note   about\u3000deep \u2028 graph  \x1c with proofs"])
    (line,) = translate(workshop, made("rnn"), "wide.src", "-min_phrases", 8, "-beam_size", 1)
    assert len(stream.parse(line)) >= 8


def test_half_precision_decodes(workshop: Path, made: Made) -> None:
    lines = translate(workshop, made("exhird"), "test.src", "-beam_size", 3, "-precision", "fp16")
    assert len(lines) == 23 and all(stream.parse(line) for line in lines)
