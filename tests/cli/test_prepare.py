"""``exhird prepare`` from the command line."""

from __future__ import annotations

import functools
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onmt_exhird.cli import main, prepare
from onmt_exhird.cli.parallel import IN_FLIGHT, ordered_map
from onmt_exhird.cli.prepare import is_test
from onmt_exhird.cli.whole_files import whole_files
from onmt_exhird.errors import ExhirdError

GOOD = {"title": "Graphs", "abstract": "We cut 3 trees.", "keywords": ["roots", "tree"]}
SRC, TGT = "graphs <sep> we cut <digit> trees .\n", "<p_start> tree ; <a_start> roots ;\n"
LONG = {**GOOD, "abstract": "We cut trees. " * 100}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*records: object, name: str = "in.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in records), encoding="utf-8")
        return path

    return write


def run(path: Path | Iterable[Path], *options: str, split: str = "train") -> int:
    inputs = [path] if isinstance(path, Path) else list(path)
    output = inputs[0].parent / "out"
    jobs = [] if "--jobs" in options else ["--jobs", "1"]
    return main(["prepare", "--input", *map(str, inputs), "--output", str(output), "--split", split, *jobs, *options])


def written(path: Path, split: str = "train") -> tuple[str, str]:
    src, tgt = (path.parent / "out" / f"{split}.{side}" for side in ("src", "tgt"))
    return src.read_text(), tgt.read_text()


def files(path: Path) -> list[str]:
    output = path.parent / "out"
    return sorted(p.name for p in output.iterdir()) if output.exists() else []


def test_records_become_aligned_source_and_target_lines(write: Any, capsys: Any) -> None:
    path = write(GOOD, {"title": "", "text": "A net", "keyword": "net;nets"})
    assert run(path) == 0
    assert written(path) == (f"{SRC}a net\n", f"{TGT}<p_start> net ;\n")
    assert files(path) == ["train.src", "train.tgt"]
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.split("\n")[:5] == [
        "read         2 records",
        "kept         2 documents, limit: 400 source and 80 target tokens",
        "dropped      0 documents",
        "present      1.00 keyphrases per document",
        "absent       0.50 keyphrases per document",
    ]
    assert "1 duplicate after stemming" in captured.out


def test_several_files_of_several_kinds_are_read_in_order(write: Any, tmp_path: Path) -> None:
    first = write({**GOOD, "title": "One"})
    second = write(json.dumps([{**GOOD, "title": "Two"}]), name="b.json")
    third = tmp_path / "c.jsonl.gz"
    third.write_bytes(gzip.compress(json.dumps({**GOOD, "title": "Three"}).encode()))
    assert run([first, second, third], "--no-shuffle") == 0
    assert [line.split()[0] for line in written(first)[0].splitlines()] == ["one", "two", "three"]


def numbered(write: Any, count: int, name: str, first: int = 0) -> Path:
    records = [{**GOOD, "title": f"n{first + number}"} for number in range(count)]
    return write("".join(json.dumps(record) + "\n" for record in records), name=name)


def titles(path: Path, split: str = "train") -> list[str]:
    return [line.split()[0] for line in written(path, split)[0].splitlines()]


def test_a_training_split_is_mixed_over_all_inputs_and_the_same_for_the_same_seed(write: Any) -> None:
    paths = [numbered(write, 60, "a.jsonl"), numbered(write, 60, "b.jsonl", first=60)]
    assert run(paths, "--jobs", "2") == 0
    mixed = titles(paths[0])
    assert sorted(mixed, key=lambda title: int(title[1:])) == [f"n{number}" for number in range(120)]
    assert 20 < sum(int(title[1:]) < 60 for title in mixed[:60]) < 40  # both inputs in each half
    assert run(paths, "--jobs", "1") == 0 and titles(paths[0]) == mixed
    assert run(paths, "--shuffle", "3435") == 0 and titles(paths[0]) == mixed
    assert run(paths, "--shuffle", "1") == 0 and titles(paths[0]) != mixed


def test_sources_and_targets_stay_together(write: Any) -> None:
    records = [{"title": f"n{number}", "abstract": "text .", "keywords": [f"n{number}"]} for number in range(50)]
    path = write("".join(json.dumps(record) + "\n" for record in records))
    assert run(path) == 0
    sources, targets = (text.splitlines() for text in written(path))
    assert [f"<p_start> {source.split()[0]} ;" for source in sources] == targets


def test_other_splits_keep_their_order_unless_told(write: Any) -> None:
    path = numbered(write, 30, "a.jsonl")
    in_order = [f"n{number}" for number in range(30)]
    for split in ("valid", "my_test"):
        assert run(path, split=split) == 0 and titles(path, split) == in_order
    assert run(path, "--shuffle", "3", split="valid") == 0 and titles(path, "valid") != in_order
    assert run(path, "--no-shuffle") == 0 and titles(path) == in_order


def test_the_names_of_the_keys_can_be_chosen(write: Any) -> None:
    path = write({"T": "Graphs", "B": "We cut 3 trees.", "K": "roots; tree"})
    assert run(path, "--title-key", "T", "--text-key", "B", "--keywords-key", "K") == 0
    assert written(path) == (SRC, TGT)


BAD = {
    "not JSON": '{"title": "a", ',
    "missing key": {"title": "a"},
    "empty document": {**GOOD, "title": "", "abstract": ""},
    "no keyphrases": {**GOOD, "keywords": []},
    "not a record": "7",
}


def test_bad_records_are_reported_with_their_line_counted_and_left_out(write: Any, capsys: Any) -> None:
    path = write(GOOD, *BAD.values(), GOOD)
    assert run(path) == 0
    assert written(path) == (SRC * 2, TGT * 2)
    out, err = capsys.readouterr()
    assert [line.partition(": ")[2].partition(":")[0] for line in err.splitlines()] == [
        f"{path}, line {number}" for number in range(2, 7)
    ]
    assert "read         7 records" in out and "dropped      5 documents" in out
    assert all(f"1 {kind}" in out for kind in BAD)


def test_bytes_that_are_not_utf8_are_reported(write: Any, capsys: Any) -> None:
    path = write(GOOD, GOOD)
    path.write_bytes(path.read_bytes().replace(b"Graphs", b"Gr\xe4phs", 1))
    assert run(path) == 0
    assert written(path) == (SRC, TGT)
    assert f"{path}, line 1: not UTF-8: byte 0xe4" in capsys.readouterr().err


@pytest.mark.parametrize("kind", BAD)
def test_strict_stops_at_the_first_bad_record_and_writes_nothing(write: Any, capsys: Any, kind: str) -> None:
    path = write(GOOD, BAD[kind], GOOD)
    assert run(path, "--strict") == 2
    assert files(path) == []
    out, err = capsys.readouterr()
    assert err.startswith(f"exhird prepare: error: {path}, line 2: ") and err.count("\n") == 1 and out == ""


def test_complaints_are_shown_up_to_a_number_and_then_counted(write: Any, capsys: Any) -> None:
    path = write(GOOD, *["{"] * 27)
    assert run(path) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21 and lines[-1].endswith("and 7 more complaints like these")


def test_a_file_that_breaks_off_is_reported_and_the_next_is_read(write: Any, tmp_path: Path, capsys: Any) -> None:
    broken = tmp_path / "a.jsonl.gz"
    broken.write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-12])
    good = write(GOOD)
    assert run([broken, good]) == 0
    assert written(good) == (SRC, TGT)
    out, err = capsys.readouterr()
    assert f"{broken}, line 1: the gzip data is broken" in err and "no more is read from this file" in err
    assert "broken       1 files not read to their end" in out


def test_keeping_nothing_is_an_error_that_leaves_older_files_alone(write: Any, capsys: Any) -> None:
    path = write(GOOD)
    assert run(path) == 0
    assert run(write("{")) == 2
    assert written(path) == (SRC, TGT) and files(path) == ["train.src", "train.tgt"]
    assert "no document was kept" in capsys.readouterr().err


def test_too_long_documents_are_dropped_without_complaint(write: Any, capsys: Any) -> None:
    path = write(LONG, GOOD, {**GOOD, "keywords": [f"tree x{number}" for number in range(21)]})
    assert run(path) == 0
    assert written(path) == (SRC, TGT)
    out, err = capsys.readouterr()
    assert "2 too long" in out and err == ""


def test_a_test_split_is_never_filtered(write: Any, capsys: Any) -> None:
    path = write(LONG, GOOD)
    assert run(path, split="my_test") == 0
    assert len(written(path, "my_test")[0].splitlines()) == 2
    assert "kept         2 documents, limit: none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "kept"), [(("--max-source", "0"), 2), (("--max-source", "6"), 0), (("--max-target", "5"), 0)]
)
def test_limits_can_be_changed(write: Any, options: tuple[str, str], kept: int) -> None:
    path = write(LONG, GOOD)
    assert run(path, *options) == (0 if kept else 2)
    assert not kept or len(written(path)[0].splitlines()) == kept


@pytest.mark.parametrize("option", ["--max-source", "--max-target", "--vocab"])
def test_asking_to_filter_a_test_split_is_an_error(write: Any, capsys: Any, option: str) -> None:
    assert run(write(GOOD), option, "5", split="test") == 2
    assert "test data is never filtered" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "expected"), [("test", True), ("Test2", True), ("inspec-test", True), ("train", False), ("contest", False)]
)
def test_a_test_split_is_known_by_a_word_of_its_name(name: str, expected: bool) -> None:
    assert is_test(name) is expected


def test_a_vocabulary_removes_absent_keyphrases_that_are_unknown(write: Any, tmp_path: Path, capsys: Any) -> None:
    vocabulary = tmp_path / "vocab"
    vocabulary.write_text("trees\t3\nleaves\t1\n")
    path = write({**GOOD, "keywords": ["roots", "tree", "leaves"]}, {**GOOD, "keywords": ["roots"]})
    assert run(path, "--vocab", str(vocabulary)) == 0
    assert written(path)[1] == "<p_start> tree ; <a_start> leaves ;\n"
    out, err = capsys.readouterr()
    assert "1 only unknown keyphrases" in out and "2 absent and unknown" in out and err == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [("gone.jsonl", "no such file"), ("in.csv", "unknown file ending; records are read from .json,")],
)
def test_an_input_that_cannot_be_one_is_an_error_before_anything_is_made(
    write: Any, tmp_path: Path, capsys: Any, name: str, reason: str
) -> None:
    good = write(GOOD)
    (tmp_path / "in.csv").write_text("")
    assert run([good, tmp_path / name]) == 2
    assert f"{name}: {reason}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("split", ["", "a/b", "..", "-x"])
def test_the_name_of_a_split_is_no_path(write: Any, capsys: Any, split: str) -> None:
    assert main(["prepare", "--input", str(write(GOOD)), "--output", "out", f"--split={split}"]) == 2
    assert "cannot be the name of a split" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_an_error(write: Any, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "out").write_text("a file")
    assert run(write(GOOD)) == 2
    assert f"cannot write into the folder {tmp_path / 'out'}: File exists" in capsys.readouterr().err


def test_a_folder_in_the_place_of_an_output_file_is_an_error(write: Any, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "out" / "train.tgt").mkdir(parents=True)
    path = write(GOOD)
    assert run(path) == 2
    assert "train.tgt is a folder" in capsys.readouterr().err
    assert files(path) == ["train.tgt"]


@pytest.mark.parametrize("option", ["--max-source", "--jobs"])
def test_a_number_that_is_none_is_refused(write: Any, capsys: Any, option: str) -> None:
    with pytest.raises(SystemExit) as caught:
        run(write(GOOD), option, "1.5")
    assert caught.value.code == 2
    assert "'1.5' is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), ValueError()])
def test_files_appear_whole_or_not_at_all(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.src"
    path.write_text("old")
    with (
        pytest.raises((ExhirdError, KeyboardInterrupt, ValueError)),
        whole_files([path, tmp_path / "a.tgt"]) as (src, _),
    ):
        src.write("new")
        raise error
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.src", "old")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_an_error_that_leaves_nothing_behind(tmp_path: Path) -> None:
    with (
        pytest.raises(ExhirdError, match="No space left"),
        open("/dev/full", "wb") as full,
        whole_files([tmp_path / "a.src", tmp_path / "a.tgt"]) as (src, tgt),
    ):
        os.dup2(full.fileno(), tgt.fileno())
        src.write("new")
        tgt.write("new")
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_processes_changes_nothing(write: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(prepare, "CHUNK", 3)
    path = write(*({**GOOD, "title": "abcdefgh"[number % 8] * (number + 1)} for number in range(40)), "{", GOOD)
    results = []
    for jobs in ("1", "2", "3"):
        assert run(path, "--jobs", jobs) == 0
        results.append(written(path))
    assert results[0] == results[1] == results[2] and len(results[0][0].splitlines()) == 41


def multiply(setup: int, item: int) -> int:
    return setup * item


def die(setup: int, item: int) -> None:
    os._exit(3)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order_and_little_is_read_ahead(jobs: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1, 101):
            taken.append(item)
            yield item

    for number, product in enumerate(ordered_map(multiply, 7, items(), jobs), start=1):
        assert product == 7 * number
        assert len(taken) - number < jobs * IN_FLIGHT


def test_a_worker_that_is_killed_is_an_error_and_not_a_wait_for_ever() -> None:
    with pytest.raises(ExhirdError, match="worker process was killed"):
        list(ordered_map(die, 0, range(50), 2))


def test_an_interrupted_run_leaves_nothing_behind(write: Any, tmp_path: Path) -> None:
    path = write(*[GOOD] * 1000)
    code = "import sys; from onmt_exhird.cli import main; sys.exit(main(sys.argv[1:]))"
    inputs = [str(path)] * 3000
    command = [
        sys.executable,
        "-c",
        code,
        "prepare",
        "--output",
        str(tmp_path / "out"),
        "--split",
        "train",
        "--input",
        *inputs,
    ]
    # A shell's background job ignores Ctrl-C, and so would what it starts.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed)
    while not files(path):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err == "exhird prepare: interrupted\n"
    assert files(path) == []


def test_documents_with_the_title_of_a_test_document_are_dropped_and_counted(write: Any, capsys: Any) -> None:
    """The test document is tokenised, without hyphens and with <digit>; that of the training data is raw."""
    raw = {**GOOD, "title": "On-line Graphs for IEEE 802.6"}
    test = write({"title": "on line graphs for ieee <digit> . <digit> ."}, {"title": ""}, name="test.jsonl")
    path = write(raw, GOOD, {**GOOD, "title": ""})
    assert run(path, "--exclude-titles", str(test)) == 0
    assert written(path)[0].splitlines() == [SRC.strip(), "we cut <digit> trees ."]
    assert "1 title excluded" in capsys.readouterr().out


def test_titles_to_exclude_come_from_several_files_under_the_key_that_is_given(write: Any) -> None:
    tests = [write({"name": name}, name=f"{name}.jsonl") for name in ("Trees", "Graphs")]
    path = write(*({"name": name, "text": "We cut", "keywords": "cut"} for name in ("Graphs", "Trees", "Roots")))
    assert run(path, "--title-key", "name", "--exclude-titles", *map(str, tests)) == 0
    assert written(path)[0] == "roots <sep> we cut\n"


@pytest.mark.parametrize(("record", "reason"), [("{", "line 1: not valid JSON"), ({"id": 3}, "line 1: no key 'title'")])
def test_a_bad_record_among_the_titles_is_an_error_since_it_may_hide_one(
    record: Any, reason: str, write: Any, capsys: Any
) -> None:
    titles = write(record, name="test.jsonl")
    path = write(GOOD)
    assert run(path, "--exclude-titles", str(titles)) == 2
    assert reason in capsys.readouterr().err and files(path) == []


def test_no_title_is_excluded_from_test_data(write: Any, capsys: Any) -> None:
    path = write(GOOD)
    assert run(path, "--exclude-titles", str(path), split="test") == 2
    assert "test data is never filtered" in capsys.readouterr().err


def test_prepared_records_stay_as_they_are(write: Any) -> None:
    path = write(
        {"title": "graphs <digit>", "abstract": "we cut <digit> trees . a ( b )", "keywords": ["tree", "root"]}
    )
    assert run(path) == 0
    assert written(path)[0] == "graphs <digit> <sep> we cut <digit> trees . a ( b )\n"


def test_words_of_other_scripts_go_through(write: Any) -> None:
    path = write(
        {"title": "Сети", "abstract": "Нейронная сеть учится.", "keywords": ["нейронная сеть", "обучение"]},
        {"title": "Réseaux", "abstract": "Un réseau de neurones.", "keywords": ["réseau de neurones"]},
    )
    assert run(path) == 0
    assert written(path) == (
        "сети <sep> нейронная сеть учится .\nreseaux <sep> un reseau de neurones .\n",
        "<p_start> нейронная сеть ; <a_start> обучение ;\n<p_start> reseau de neurones ;\n",
    )
