"""A training that was interrupted and goes on is to the bit the one that was not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.checkpoints import differences
from helpers.stock import run_stock, train_here

from onmt_exhird.bridge import resume
from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.errors import ExhirdError

# Of the clock, or of what was asked for: these may differ.
HARD = (
    "-dropout 0.2 -bucket_size 300 -report_every 7 -valid_steps 10 -save_checkpoint_steps 100 -plateau_decay 0.5 "
    "-early_stopping 9 -early_stopping_criteria ppl -learning_rate 0.03"
).split()


def lines(log: str) -> list[str]:
    """What a log says of steps, validations and patience, without what the clock and the last step have to do with."""
    messages = [line.partition("] ")[2] for line in log.splitlines()]
    kept = [message for message in messages if re.match("Step|Valid|Train |Decr|Stall|Model is|Updated", message)]
    return [re.sub(r"(Step \d+)/\d+|\S+ docs/s.*", r"\1", message) for message in kept]


@pytest.fixture
def shop(workshop: Path) -> Path:
    """Two corpora, the one with twice the weight of the other, in files of their own names."""
    for side in ("src", "tgt"):
        rows = (workshop / f"train.{side}").read_text().splitlines(keepends=True)
        (workshop / f"small.{side}").write_text("".join(rows[:200]))
        (workshop / f"large.{side}").write_text("".join(rows[200:900]))
    corpora = (
        "  large: {path_src: large.src, path_tgt: large.tgt, weight: 2}\n"
        "  small: {path_src: small.src, path_tgt: small.tgt, weight: 1}\n"
    )
    for name in ("exhird", "catseqd", "transformer"):
        text = (workshop / f"{name}.yaml").read_text()
        (workshop / f"{name}-two.yaml").write_text(re.sub(r"  train: .*\n", corpora, text))
    return workshop


def check_exact(folder: Path, steps: int, interrupted: list[int], config: str, *options: object) -> str:
    """Train at once and in pieces; returns the log of the pieces."""
    for path in [*folder.glob("whole*"), *folder.glob("pieces*")]:
        path.unlink()
    arguments = ["-config", config, *HARD, *options]
    train_here(folder, *arguments, "-save_model", "whole", "-train_steps", steps, "-log_file", "whole.log")
    log = ""
    before: list[object] = []
    for step in [*interrupted, steps]:
        (folder / "pieces.log").unlink(missing_ok=True)
        train_here(
            folder, *arguments, "-save_model", "pieces", "-train_steps", step, "-log_file", "pieces.log", *before
        )
        before = ["-train_from", f"pieces_step_{step}.pt"]
        log += (folder / "pieces.log").read_text()
    unbroken, resumed = (load_harmless(folder / f"{name}_step_{steps}.pt", "cpu") for name in ("whole", "pieces"))
    assert differences(unbroken, resumed) == []
    assert len(lines(log)) > 20 and lines(log) == lines((folder / "whole.log").read_text())
    return log


@pytest.mark.parametrize("model", ["exhird", "catseqd", "transformer"])
def test_resume_is_exact_with_weighted_corpora_dropout_decay_and_patience(shop: Path, model: str) -> None:
    """Interrupted between two reports, between two buckets, in the second pass, right after a validation."""
    log = check_exact(shop, 72, [11, 31, 50], f"{model}-two.yaml")
    assert "Going on after step 50 exactly where pieces_step_50.pt was saved" in log


def test_resume_is_exact_with_accumulated_gradients_averages_and_growing_buckets(shop: Path) -> None:
    options = "-accum_count 2 -average_decay 0.01 -average_every 3 -bucket_size_init 60 -bucket_size_increment 70"
    check_exact(
        shop,
        40,
        [13, 14],
        "exhird.yaml",
        *options.split(),
        "-dropout",
        0.1,
        0.3,
        "-dropout_steps",
        0,
        9,
        "-attention_dropout",
        0,
        0,
    )


def test_resume_is_exact_when_other_processes_read(shop: Path) -> None:
    """They have batches ahead that the trainer has not seen; whose turn it is differs at each interruption."""
    options = "-config exhird-two.yaml -num_workers 2 -valid_steps 1000 -report_every 4 -bucket_size 100 -dropout 0.2"
    arguments = [*options.split(), "-save_checkpoint_steps", "7"]
    run_stock("onmt_train", *arguments, "-save_model", "whole", "-train_steps", 21, cwd=shop)
    run_stock("onmt_train", *arguments, "-save_model", "pieces", "-train_steps", 7, cwd=shop)
    run_stock(
        "onmt_train",
        *arguments,
        "-save_model",
        "pieces",
        "-train_steps",
        21,
        "-train_from",
        "pieces_step_7.pt",
        cwd=shop,
    )
    assert not differences(*(load_harmless(shop / f"{name}_step_21.pt", "cpu") for name in ("whole", "pieces")))


def test_without_the_state_the_runs_differ(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    """So the tests above can fail; and a checkpoint of before loads, with a sentence."""
    arguments = ["-config", "exhird-two.yaml", *HARD, "-save_model", "old"]
    train_here(shop, *arguments, "-train_steps", 40)
    train_here(shop, *arguments, "-train_steps", 20)
    checkpoint = load_harmless(shop / "old_step_20.pt", "cpu")
    del checkpoint[resume.KEY]
    torch.save(checkpoint, shop / "old_step_20.pt")
    unbroken = load_harmless(shop / "old_step_40.pt", "cpu")
    with caplog.at_level("WARNING"):
        train_here(shop, *arguments, "-train_steps", 40, "-train_from", "old_step_20.pt")
    assert "does not say how far its data were read" in caplog.text
    assert differences(unbroken["model"], load_harmless(shop / "old_step_40.pt", "cpu")["model"])


@pytest.fixture(scope="session")
def begun(workshop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training of 20 steps."""
    folder = tmp_path_factory.mktemp("begun")
    for path in workshop.glob("*"):
        if path.suffix in {".src", ".tgt", ".txt", ".yaml"}:
            shutil.copy(path, folder)
    train_here(folder, "-config", "exhird.yaml", "-save_model", "m", "-train_steps", 20, "-valid_steps", 10)
    return folder


GO_ON = ["-config", "exhird.yaml", "-save_model", "m", "-train_steps", "24", "-train_from", "m_step_20.pt"]


@pytest.mark.parametrize("name", ["train.tgt", "valid.src", "vocab.txt"])
def test_other_data_or_another_vocabulary_are_refused_unless_told_otherwise(begun: Path, name: str) -> None:
    before = (begun / name).read_bytes()
    rows = before.splitlines(keepends=True)
    (begun / name).write_bytes(b"".join(reversed(rows)))
    named = {"train.tgt": "data/train", "valid.src": "data/valid", "vocab.txt": "the vocabulary"}[name]
    try:
        with pytest.raises(ExhirdError, match=f"was trained with other data: {named}.*-reset_optim all"):
            train_here(begun, *GO_ON)
        train_here(begun, *GO_ON, "-reset_optim", "keep_states", "-save_model", "new")
    finally:
        (begun / name).write_bytes(before)
    assert (begun / "new_step_24.pt").exists()


def test_a_training_begun_with_other_rates_goes_on_with_them(begun: Path) -> None:
    """To the bit: interrupted, it would else have those of the checkpoint it was begun with."""
    other = ["-config", "exhird.yaml", "-learning_rate", 0.004, "-start_decay_steps", 20, "-decay_steps", 2]
    anew = [*other, "-learning_rate_decay", 0.5, "-train_from", "m_step_20.pt", "-reset_optim", "keep_states"]
    train_here(begun, *anew, "-train_steps", 30, "-save_model", "unbroken")
    train_here(begun, *anew, "-train_steps", 25, "-save_model", "broken")
    going_on = [*other, "-train_steps", 30, "-train_from", "broken_step_25.pt"]
    train_here(begun, *going_on, "-save_model", "broken")
    unbroken, resumed = (load_harmless(begun / f"{name}_step_30.pt", "cpu") for name in ("unbroken", "broken"))
    assert differences(unbroken, resumed) == []
    assert resumed["opt"].learning_rate == 0.004


def test_another_order_of_the_data_is_named(begun: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        train_here(begun, *GO_ON, "-batch_size", 10, "-seed", 8, "-save_model", "other")
    assert "the data begin anew" in caplog.text and "-seed, -batch_size" in caplog.text


def test_a_training_that_is_over_is_left_alone(begun: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = (begun / "m_step_20.pt").read_bytes()
    with caplog.at_level("INFO"):
        train_here(begun, *GO_ON, "-train_steps", 20)
    assert "trained 20 steps, of -train_steps 20: nothing is left to train" in caplog.text
    assert (begun / "m_step_20.pt").read_bytes() == before and not (begun / "m_step_21.pt").exists()


def test_the_same_seed_gives_the_same_checkpoint_and_another_another(begun: Path) -> None:
    found = []
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        train_here(begun, "-config", "catseqd.yaml", *HARD, "-seed", seed, "-train_steps", 15, "-save_model", name)
        found.append(load_harmless(begun / f"{name}_step_15.pt", "cpu"))
    assert differences(found[0], found[1]) == []
    assert differences(found[0]["model"], found[2]["model"])


def test_the_seed_and_every_setting_are_in_the_log_and_in_the_checkpoint(begun: Path, caplog: Any) -> None:
    with caplog.at_level("INFO"):
        train_here(begun, "-config", "exhird.yaml", "-seed", -1, "-train_steps", 3, "-save_model", "unseeded")
    settings = load_harmless(begun / "unseeded_step_3.pt", "cpu")[resume.KEY]["settings"]
    assert settings["seed"] > 0 and f'"seed": {settings["seed"]}' in caplog.text
    assert settings["exclusive_loss_window"] == 2 and '"exclusive_loss_window": 2' in caplog.text


@pytest.mark.parametrize(("tolerance", "left", "stopped"), [(3, 1, False), (2, 0, True), (5, 3, False)])
def test_patience_goes_on_with_more_or_less_if_told_so(tolerance: int, left: int, stopped: bool) -> None:
    from onmt.utils.earlystopping import EarlyStopping, PPLScorer

    def stats(perplexity: float) -> Any:
        return type("Stats", (), {"ppl": lambda self: perplexity})()

    first = EarlyStopping(3, [PPLScorer()])
    for step, perplexity in enumerate((5.0, 6.0, 7.0)):
        first(stats(perplexity), step)
    again = EarlyStopping(tolerance, [PPLScorer()])
    resume._set_patience(again, resume._patience(first))
    assert (again.current_tolerance, again.has_stopped()) == (left, stopped)
    assert again.early_stopping_scorers[0].best_score == 5.0
