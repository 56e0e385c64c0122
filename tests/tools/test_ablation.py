"""The ablation: three rows from two models, with what the evaluator says; nothing is done twice, mistakes are said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from helpers.files import load_tool
from helpers.stock import translate
from helpers.workshop import BASE, RECURRENT

from onmt_exhird.evaluation import System, evaluate

Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("ablation")


@pytest.fixture
def configs(tmp_path: Path) -> list[str]:
    """Tiny models: ExHiRD's, and catSeq's on its base."""
    (tmp_path / "exhird.yaml").write_text(BASE + RECURRENT + "decoder_type: exhird\n")
    (tmp_path / "catseq.yaml").write_text("base: exhird.yaml\ndecoder_type: rnn\nreuse_copy_attn: true\n")
    return ["--config", str(tmp_path / "exhird.yaml"), "--sequential-config", str(tmp_path / "catseq.yaml")]


def rows_of(text: str) -> dict[str, list[str]]:
    """A text table's cells by the name of the row."""
    cut = {
        name: line for line in text.splitlines() for name in ("ExHiRD-h", "w/o HRD", "w/o ES") if f"  {name} " in line
    }
    return {name: line.replace(name, "").split() for name, line in cut.items()}


def test_rows_are_the_evaluation_of_what_onmt_translate_writes(
    tool: ModuleType, workshop: Path, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"exhird": made("exhird"), "catseq": made("rnn")}
    arguments = ["--data", str(workshop), "--output", str(tmp_path / "out"), "--window", "all"]
    assert tool.main([*arguments, "--exhird", str(models["exhird"]), "--sequential", str(models["catseq"])]) == 0
    shown = capsys.readouterr().out
    greedy, search = ["-beam_size", 1], ["-exclusive_search", "-exclusive_window", "all"]
    predictions = {
        "ExHiRD-h": translate(workshop, models["exhird"], "test.src", *greedy, *search),
        "w/o HRD": translate(workshop, models["catseq"], "test.src", *greedy, *search),
        "w/o ES": translate(workshop, models["exhird"], "test.src", *greedy),
    }
    sources, gold = ((workshop / f"test.{side}").read_text().splitlines() for side in ("src", "tgt"))
    expected = evaluate(sources, gold, predictions)
    keys = ("present/F1@M", "present/F1@5", "num_present", "absent/F1@M", "absent/F1@5", "num_absent", "dup_ratio")
    assert rows_of(shown) == {
        system.name: [f"{system[key]:.{2 if 'num' in key else 4}f}" for key in keys] for system in expected.systems
    }
    assert shown.splitlines()[-1] == expected.signature
    record = json.loads((tmp_path / "out" / "test.json").read_text())
    assert record["systems"] == json.loads(json.dumps(expected.to_dict()["systems"]))


def test_models_are_trained_decoded_and_not_done_twice(
    tool: ModuleType, workshop: Path, configs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    arguments = ["--data", str(workshop), "--output", str(output), *configs, "--seeds", "3", "5", "--steps", "4"]
    extra = ["--", "-valid_steps", "2", "-save_checkpoint_steps", "2", "-report_every", "1"]
    assert tool.main([*arguments, *extra]) == 0
    first = capsys.readouterr()
    assert all("_" in cell for cells in rows_of(first.out).values() for cell in cells)  # means with deviations
    folders = {"exhird-3", "exhird-5", "catseq-3", "catseq-5", "vocabulary", "predictions", "test.json"}
    assert {path.name for path in output.iterdir()} == folders
    assert "Step 3/4" in first.err and "Validation at step 2" in first.err

    assert tool.main([*arguments, "--format", "markdown", "--paper", *extra]) == 0
    second = capsys.readouterr()
    assert second.err.count("done before") == 4 + 4 and "Step" not in second.err  # the vocabulary is asked for by each
    assert second.err.count("already decoded") == 6
    assert "| paper: w/o ES | 0.330 | 0.278 | 3.51 |" in second.out

    assert tool.main([*arguments, "--", "-learning_rate", "0.5"]) == 2
    assert "was made from other data or settings: remove it, or give another folder" in capsys.readouterr().err


def test_an_interrupted_training_goes_on_from_its_last_checkpoint(
    tool: ModuleType, workshop: Path, configs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--data", str(workshop), "--output", str(tmp_path / "out"), *configs, "--steps", "4"]
    run, commands = tool.run, []

    def interrupted(command: str, options: list, log: Path) -> None:
        commands.append((command, [str(option) for option in options]))
        if command == "train":
            (tmp_path / "out" / "exhird-3435" / "model_step_2.pt").write_bytes(b"")
            raise KeyboardInterrupt
        run(command, options, log)

    monkeypatch.setattr(tool, "run", interrupted)
    monkeypatch.setattr(tool, "checkpoints", lambda folder: dict(enumerate(folder.glob("*.pt"))))
    assert tool.main(arguments) == 130
    assert tool.main(arguments) == 130
    assert [command for command, _ in commands] == ["build_vocab", "train", "train"]
    assert "-train_from" not in commands[1][1]
    assert commands[2][1][-2:] == ["-train_from", str(tmp_path / "out" / "exhird-3435" / "model_step_2.pt")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--test", "none"], "none.src is missing; make it with 'exhird prepare"),
        (["--window", "0"], "--window 0 is no exclusive search"),
        (["--window", "x"], "give a number of phrases"),
        (["--exhird", "no.pt"], "no.pt is no file; give a checkpoint of onmt_train for exhird"),
        (["--sequential-config", "no.yaml"], "no.yaml is no file; give a configuration of onmt_train for catseq"),
    ],
)
def test_mistakes_are_named_before_any_work(
    tool: ModuleType,
    arguments: list[str],
    reason: str,
    workshop: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tool.main(["--data", str(workshop), "--output", str(tmp_path / "out"), *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


def test_a_command_that_fails_shows_the_end_of_its_log(
    tool: ModuleType, workshop: Path, configs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(workshop), "--output", str(tmp_path / "out"), *configs, "--", "-leaning_rate", "1"]
    assert tool.main(arguments) == 2
    shown = capsys.readouterr().err
    assert "onmt_train failed with exit code 2" in shown and "did you mean 'learning_rate'?" in shown


def test_every_format_has_the_three_rows(tool: ModuleType) -> None:
    lines = [["<p_start> graph ;"], ["<p_start> tree ;"]]
    systems = [System(name, [[line[0] for line in lines]]) for name, _, _ in tool.ROWS]
    evaluation = evaluate(["a graph", "a tree"], ["graph", "tree"], systems)
    table = tool.make_table(evaluation, "Ablation", with_paper=False)
    assert [row[0] for row in table.rows] == ["ExHiRD-h", "w/o HRD", "w/o ES"] and table.rules == {1}
