"""The recipes' scripts: once with the real commands, on Russian and French documents; else with stand-ins for them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.files import RECIPES

SCRIPTS = sorted(RECIPES.glob("*/run.sh"))
TRAINING = ["custom", "kp20k", "science"]
BENCHMARKS = ["inspec", "krapivin", "semeval"]

# Does what each command does for the recipes, and writes down that it was called.
STAND_IN = """\
#!{python} -S
import json, os, sys, time, zipfile
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
after = dict(zip(arguments, arguments[1:]))
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps([name, *arguments]) + "\\n")
if os.environ.get("FAIL") in (name, arguments[0]):
    print("something is wrong", file=sys.stderr)
    sys.exit(3)
if name == "onmt_build_vocab":
    open("vocab.txt", "w").write("a\\t3\\nb\\t2\\nc\\t1\\n")
elif name == "onmt_train":
    first, last = (30, 30) if "-train_from" in after else (10, 20)
    stamp = time.strftime("[%Y-%m-%d %H:%M:%S,000 INFO]")
    print(stamp, "Start training loop", file=sys.stderr)
    for step in range(first, last + 1, 10):
        print(stamp, f"Validation at step {{step}}: perplexity {{step}}", file=sys.stderr)
        with zipfile.ZipFile(f"{{after['-save_model']}}_step_{{step}}.pt", "w") as file:
            file.writestr("weights", "")
        print(stamp, "Saving checkpoint", flush=True, file=sys.stderr)
        if os.environ.get("HANG"):
            time.sleep(60)
elif name == "onmt_translate":
    open(after["-output"], "w").write("a\\n")
elif arguments[0] == "prepare":
    os.makedirs(after["--output"], exist_ok=True)
    for side in "src", "tgt":
        open(f"{{after['--output']}}/{{after['--split']}}.{{side}}", "w").write("a\\n")
    print("kept         1 documents")
else:
    print("{{}}" if "json" in arguments else "Scores")
"""


class Workplace:
    """A folder with raw records, stand-ins for the commands, and what was called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "calls"
        commands = folder / "bin"
        commands.mkdir()
        for name in ("exhird", "onmt_build_vocab", "onmt_train", "onmt_translate"):
            (commands / name).write_text(STAND_IN.format(python=sys.executable))
            (commands / name).chmod(0o755)
        for name in ("a", "b", "c"):
            (folder / f"{name}.jsonl").write_text("{}\n")
        path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = os.environ | {"PATH": path, "CALLS": str(self.log)}

    def start(self, recipe: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(RECIPES / recipe / "run.sh"), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, recipe: str, *arguments: object, code: int = 0, **environment: str) -> tuple[str, str]:
        process = self.start(recipe, *arguments, **environment)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, out + err
        return out, err

    def custom(self, *arguments: object, code: int = 0, **environment: str) -> tuple[str, str]:
        files = "--train a.jsonl --valid b.jsonl --test c.jsonl --output out".split()
        return self.run("custom", *files, *arguments, code=code, **environment)

    def calls(self) -> list[list[str]]:
        """What was called since the last time."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def verbs(self) -> list[str]:
        return [call[1] if call[0] == "exhird" else call[0] for call in self.calls()]


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


ALL = ["prepare"] * 3 + ["onmt_build_vocab", "prepare", "onmt_train"]
EVERYTHING = [*ALL, *["onmt_translate", "evaluate"] * 2, "evaluate"]


@pytest.mark.parametrize("script", [*SCRIPTS, *RECIPES.glob("*.sh")], ids=lambda path: str(path.relative_to(RECIPES)))
def test_scripts_are_sound(script: Path) -> None:
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, "-x", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("recipe", [*TRAINING, *BENCHMARKS])
def test_help_names_the_options_and_the_files(recipe: str, work: Workplace) -> None:
    out, _ = work.run(recipe, "--help")
    for word in ("--model", "--windows", "--dry-run", "--stage", ".jsonl", ".gz", "Exit code"):
        assert word in out


@pytest.mark.parametrize("recipe", [*TRAINING, *BENCHMARKS])
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--modle exhird-h", "unknown option '--modle'"),
        ("--model exhird", "model 'exhird' is none of: exhird-h, "),
        ("--seeds 3,x", "--seeds takes whole numbers with commas between them, not '3,x'"),
        ("--windows 1,-1", "--windows takes whole numbers and 'all'"),
        ("--stage training", "stage 'training' is none of: prepare, vocab, train"),
        ("--model", "--model needs a value"),
    ],
)
def test_a_mistake_in_the_call_is_named(recipe: str, arguments: str, reason: str, work: Workplace) -> None:
    assert reason in work.run(recipe, *arguments.split(), code=2)[1]
    assert work.calls() == []


def test_without_kp20k_the_files_their_format_and_their_source_are_named(work: Workplace) -> None:
    (work.folder / "kp20k").mkdir()
    (work.folder / "kp20k" / "valid.jsonl.gz").touch()
    _, err = work.run("kp20k", "--data", ".", code=2)
    for word in ("./kp20k_training.json", "./kp20k/test.json", ".jsonl", "title, abstract and keyword", "https://"):
        assert word in err
    assert "valid" not in err and work.calls() == []


@pytest.mark.parametrize("recipe", BENCHMARKS)
def test_without_a_benchmark_its_files_their_format_and_their_source_are_named(recipe: str, work: Workplace) -> None:
    _, err = work.run(recipe, "--data", ".", "--run", "out", code=2)
    for word in (f"./{recipe}_testing.json", f"./{recipe}/test.json", "title, abstract and keywords", "https://"):
        assert word in err


def test_a_file_that_is_not_there_is_named_before_anything_runs(work: Workplace) -> None:
    (work.folder / "c.jsonl").unlink()
    assert "there is no file c.jsonl" in work.custom(code=2)[1]
    assert "--train, --valid and --test are needed" in work.run("custom", "--train", "a.jsonl", code=2)[1]
    assert work.calls() == []


def test_a_dry_run_shows_the_commands_and_does_nothing(work: Workplace) -> None:
    out, _ = work.custom("--dry-run", "--minutes", "5", "--", "-batch_size", "7")
    shown = [
        next(word for word in line.split() if word.startswith(("exhird", "onmt", "awk"))) for line in out.splitlines()
    ]
    assert [word for word in shown if word != "awk"] == [
        "exhird" if v in ("prepare", "evaluate") else v for v in EVERYTHING
    ]
    assert "-batch_size 7 -train_minutes 5" in out
    assert work.calls() == [] and not (work.folder / "out").exists()


def test_everything_is_done_once(work: Workplace) -> None:
    work.custom()
    assert work.verbs() == EVERYTHING
    folder = work.folder / "out" / "exhird-h-3435"
    assert {"test.K0.json", "test.K1.json", "test.K1.pred", "run.json", "train.log"} <= {
        p.name for p in folder.iterdir()
    }
    out, _ = work.custom()
    assert work.verbs() == ["evaluate"]  # the table
    assert out.count("done before") == 11


def test_the_checkpoint_of_least_perplexity_is_translated_with_each_window(work: Workplace) -> None:
    work.custom("--windows", "0,2,all")
    searches = [call for call in work.calls() if call[0] == "onmt_translate"]
    assert all(call[call.index("-model") + 1].endswith("exhird-h-3435/model_step_10.pt") for call in searches)
    windows = [call[call.index("-exclusive_window") + 1] if "-exclusive_search" in call else "0" for call in searches]
    assert windows == ["0", "2", "all"]


def test_what_changed_is_done_again_and_what_depends_on_it(work: Workplace) -> None:
    work.custom()
    work.calls()
    (work.folder / "c.jsonl").write_text("{} \n")
    work.custom()
    assert work.verbs() == ["prepare", "prepare", "prepare", "evaluate"]  # test data; training data lacks its titles
    (work.folder / "out" / "exhird-h-3435" / "test.K1.pred").unlink()
    work.custom()
    assert work.verbs() == ["onmt_translate", "evaluate"]


def test_a_training_of_other_options_is_neither_overwritten_nor_taken_for_this_one(work: Workplace) -> None:
    work.custom()
    work.calls()
    _, err = work.custom("--", "-batch_size", "7", code=2)
    assert "was trained with other options" in err and "-batch_size 7" in err
    assert work.calls() == []


def test_a_moved_folder_is_still_done(work: Workplace) -> None:
    work.custom()
    (work.folder / "out").rename(work.folder / "moved")
    work.calls()
    work.custom("--output", "moved")
    assert work.verbs() == ["evaluate"]


def test_a_failing_command_ends_the_recipe_with_its_log(work: Workplace) -> None:
    _, err = work.custom(code=1, FAIL="onmt_train")
    assert "| something is wrong" in err and "exit code 3" in err
    assert f"The whole log: {work.folder}/out/exhird-h-3435/train.log" in err
    assert work.verbs() == ALL
    work.custom()
    assert work.verbs() == ["onmt_train", *EVERYTHING[len(ALL) :]]


@pytest.mark.parametrize("verb", ["prepare", "onmt_build_vocab", "onmt_translate", "evaluate"])
def test_no_failure_goes_unnoticed(verb: str, work: Workplace) -> None:
    _, err = work.custom(code=1, FAIL=verb)
    assert "something is wrong" in err
    assert work.verbs()[-1] == verb
    work.custom()


def test_a_killed_training_leaves_no_process_and_resumes_from_its_checkpoint(work: Workplace) -> None:
    process = work.start("custom", *"--train a.jsonl --valid b.jsonl --test c.jsonl --output out".split(), HANG="1")
    log = work.folder / "out" / "exhird-h-3435" / "train.log"
    while not (log.exists() and "Saving checkpoint" in log.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=50)  # the training would hold the pipe for a minute
    assert process.returncode == 143 and "interrupted; the same command goes on from here" in err
    assert work.verbs() == ALL
    out, _ = work.custom()
    assert "going on from model_step_10.pt" in out
    training = next(call for call in work.calls() if call[0] == "onmt_train")
    assert training[-2:] == ["-train_from", "../exhird-h-3435/model_step_10.pt"]


def test_stages_can_be_run_alone(work: Workplace) -> None:
    assert "which an earlier stage makes" in work.custom("--stage", "vocab", code=2)[1]
    work.custom("--stage", "prepare,vocab")
    assert work.verbs() == ALL[:-1]
    assert "has not been trained" in work.custom("--stage", "translate", code=2)[1]


def test_every_seed_is_trained_and_they_are_scored_together(work: Workplace) -> None:
    work.custom("--seeds", "3,5", "--model", "exhird-s")
    calls = work.calls()
    trained = [call[call.index("-seed") + 1] for call in calls if call[0] == "onmt_train"]
    assert trained == ["3", "5"] and all("exhird-s.yaml" in " ".join(c) for c in calls if c[0] == "onmt_train")
    table = calls[-1]
    assert [Path(f).relative_to(work.folder / "out").as_posix() for f in table[table.index("--seeds") + 1 :]] == [
        "exhird-s-3/test.K0.pred",
        "exhird-s-5/test.K0.pred",
    ]


def test_science_trains_with_its_own_configuration(work: Workplace) -> None:
    work.run("science", *"--train a.jsonl b.jsonl --valid b.jsonl --test c.jsonl --output out".split())
    calls = work.calls()
    (trained,) = (call for call in calls if call[0] == "onmt_train")
    assert trained[trained.index("-config") + 1] == str(RECIPES / "science" / "exhird.yaml")
    assert trained[trained.index("-src_vocab_size") + 1] == "30007"
    _, err = work.run("science", "--model", "catseqd", code=2)
    assert "is none of: exhird-h, catseq" in err


def test_kp20k_leaves_the_titles_of_all_test_sets_out(work: Workplace) -> None:
    for name in ("kp20k_training.json", "kp20k/valid.jsonl.gz", "kp20k_testing.json.gz", "inspec_word/test.jsonl.gz"):
        (work.folder / name).parent.mkdir(exist_ok=True)
        (work.folder / name).touch()
    work.run("kp20k", "--data", ".", "--output", "out", "--seeds", "34")
    calls = work.calls()
    excluded = [call[call.index("--exclude-titles") + 1 :] for call in calls if "--exclude-titles" in call]
    assert excluded == [["./kp20k/valid.jsonl.gz", "./kp20k_testing.json.gz", "./inspec_word/test.jsonl.gz"]] * 2
    assert calls[-1][-2:] == ["--paper", "kp20k"]


@pytest.mark.parametrize(("recipe", "window"), [("inspec", "4"), ("krapivin", "1"), ("semeval", "1")])
def test_benchmarks_test_every_model_with_the_paper_s_window(recipe: str, window: str, work: Workplace) -> None:
    for model in ("exhird-h", "exhird-s"):
        work.custom("--model", model, "--stage", "prepare,vocab,train")
    (work.folder / f"{recipe}_testing.json").touch()
    work.calls()
    work.run(recipe, "--run", "out", "--data", ".")
    scorings = [call for call in work.calls() if call[1] == "evaluate"]
    assert all(("--gold-stemmed" in call) == (recipe == "semeval") for call in scorings)
    scored = [Path(call[call.index("--pred") + 1]) for call in scorings if "json" in call]
    assert [f"{path.parent.name}/{path.name}" for path in scored] == [
        f"exhird-h-3435/{recipe}.K0.pred",
        f"exhird-h-3435/{recipe}.K{window}.pred",
        f"exhird-s-3435/{recipe}.K0.pred",
    ]
    work.run(recipe, "--run", "out", "--data", ".", "--model", "catseq", code=2)


def write_records(path: Path, count: int, rng: random.Random) -> None:
    russian = ["нейронная сеть", "глубокое обучение", "быстрый поиск", "ёмкая память"]
    french = ["réseau profond", "mémoire vive", "requête rapide", "école d'été"]
    records: list[dict[str, Any]] = []
    for number in range(count):
        terms = rng.sample(french if number % 2 else russian, 2)
        records.append({"title": f"{terms[0]} {path.stem} {number}", "abstract": f"{terms[1]}.", "keywords": terms})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_corpus_of_other_languages_from_raw_records_to_scores_in_two_sittings(tmp_path: Path) -> None:
    """First a training of a moment, then the rest of it: real commands, really resumed."""
    rng = random.Random(3)
    for name, count in (("train", 60), ("valid", 5), ("test", 7)):
        write_records(tmp_path / f"{name}.jsonl", count, rng)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    files = "--train train.jsonl --valid valid.jsonl --test test.jsonl --vocab-size 40 --windows 1 --output out"
    sizes = "-word_vec_size 12 -hidden_size 14 -enc_layers 1 -train_steps 20 -valid_steps 10 -save_checkpoint_steps 10"

    def run(*options: str) -> str:
        done = subprocess.run(
            [str(RECIPES / "custom" / "run.sh"), *files.split(), *options, "--", *sizes.split()],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("--minutes", "0.0001", "--stage", "prepare,vocab,train")
    folder = tmp_path / "out" / "exhird-h-3435"
    assert [path.name for path in folder.glob("*.pt")] == ["model_step_1.pt"]
    assert "going on from model_step_1.pt" in run()
    words = {line.split("\t")[0] for line in (tmp_path / "out" / "vocab.txt").read_text().splitlines()}
    assert {"нейронная", "ёмкая", "reseau", "ecole", "<a_start>"} <= words  # though no keyphrase is absent
    described = json.loads((folder / "run.json").read_text())
    assert (described["steps_trained"], described["training_documents"]) == (20, 60)
    scores = json.loads((folder / "test.K1.json").read_text())
    assert scores["documents"] == 7 and [system["name"] for system in scores["systems"]] == ["test.K1.pred"]
