"""``exhird generate`` as a command, with a generator that needs no model."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_generator import FakeGenerator

import onmt_exhird.generator
from onmt_exhird.cli import main
from onmt_exhird.cli.answers import Selection
from onmt_exhird.documents import FileLines, Names
from onmt_exhird.generator.results import Keyphrase, Keyphrases

LINES = "Planar graphs\n\nWe colour 3 planar graphs.\n"
ANSWERS = "planar ; graphs ; absent thing\n\ncolour ; planar ; graphs ; absent thing\n"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[FakeGenerator]:
    """The generators that the command makes, in a folder of its own."""
    generators: list[FakeGenerator] = []

    class Noted(FakeGenerator):
        def __init__(self) -> None:
            super().__init__()
            generators.append(self)

    monkeypatch.setattr(onmt_exhird.generator, "KeyphraseGenerator", Noted, raising=False)
    monkeypatch.chdir(tmp_path)
    return generators


def generate(*arguments: str) -> int:
    return main(["generate", *arguments])


def test_a_line_for_each_line(made: Any, capfdbinary: Any) -> None:
    Path("a.txt").write_text(LINES)
    assert generate("a.txt") == 0
    assert capfdbinary.readouterr() == (ANSWERS.encode(), b"")


def test_an_object_for_each_record_with_its_id(made: Any, capfdbinary: Any) -> None:
    records = [{"id": "x", "text": "Planar graphs", "year": 7}, {"title": "Trees", "text": "Planar"}, {"text": ""}]
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert generate("a.jsonl") == 0
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == ["x", 2, 3]
    for text, answer in zip(["Planar graphs", "Trees\nPlanar", ""], answers, strict=True):
        assert answer == {"id": answer["id"]} | FakeGenerator().answer(text).to_dict()
    assert generate("a.jsonl", "--keep") == 0
    kept = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert kept == [{"id": a["id"]} | r | a for r, a in zip(records, answers, strict=True)]
    Path("a.jsonl").write_text('{"text": "Planar", "error": "an old one", "truncated": "no"}\n')
    assert generate("a.jsonl", "--keep") == 0
    assert (
        json.loads(capfdbinary.readouterr().out)
        == {"id": 1, "text": "Planar"} | FakeGenerator().answer("Planar").to_dict()
    )


def test_numbers_run_on_over_files_and_formats_can_be_mixed(made: Any, capfdbinary: Any) -> None:
    Path("a.txt").write_text("Planar\nGraphs\n")
    Path("b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "Trees"}\n'))
    assert generate("a.txt", "b.jsonl.gz", "--format", "jsonl") == 0
    assert [json.loads(line)["id"] for line in capfdbinary.readouterr().out.splitlines()] == [1, 2, 3]
    assert generate("a.txt", "b.jsonl.gz") == 2
    assert b"several kinds" in capfdbinary.readouterr().err


def test_a_table_for_a_table(made: Any, capfdbinary: Any) -> None:
    Path("a.tsv").write_text("id\tTitle\tAbstract\tyear\nx\tPlanar\tgraphs, trees\t1\ny\t\t\t2\n")
    assert generate("a.tsv") == 0
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    assert rows[0] == {
        "id": "x",
        "keyphrases": "planar ; graphs ; trees ; absent thing",
        "scores": "0.6000 ; 0.6000 ; 0.5000 ; 0.2500",
        "present": "yes ; yes ; yes ; no",
        "truncated": "no",
        "error": "",
    }
    assert (rows[1]["id"], rows[1]["keyphrases"]) == ("y", "")
    assert generate("a.tsv", "--keep", "--top", "1") == 0
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    assert (rows[0]["Abstract"], rows[0]["year"], rows[0]["keyphrases"]) == ("graphs, trees", "1", "planar")
    Path("b.jsonl").write_text('{"text": "a", "by": ["É. A.", "B"], "year": 7, "place": null}\n')
    assert generate("b.jsonl", "--format", "csv", "--keep") == 0
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    assert (rows[0]["by"], rows[0]["year"], rows[0]["place"]) == ('["É. A.", "B"]', "7", "")
    Path("b.jsonl").write_text('{"text": "a", "x": 1}\n{"text": "b", "y": 1}\n')
    assert generate("b.jsonl", "--format", "csv", "--keep") == 2
    assert b"b.jsonl, line 2: the first record has no 'y'" in capfdbinary.readouterr().err


BIB = b"""\xef\xbb\xbf% mine
@a{k, abstract = {Planar graphs},
}
@b{l, abstract = {Trees}, keywords = {old}}
end""".replace(b"\n", b"\r\n")


def test_references_are_filled_in_place(made: Any, capfdbinary: Any) -> None:
    Path("a.bib").write_bytes(BIB)
    assert generate("a.bib", "--output", "a.bib", "--present-only") == 0
    filled = BIB.replace(b"graphs},", b"graphs}, keywords = {planar, graphs},")
    assert Path("a.bib").read_bytes() == filled
    assert made[0].calls == [(1, {})]  # the other entry costs nothing
    assert generate("a.bib") == 0  # nothing is left to fill
    assert capfdbinary.readouterr() == (filled, b"")
    assert generate("a.bib", "--replace", "--absent-only") == 0
    assert capfdbinary.readouterr().out == filled.replace(b"planar, graphs", b"absent thing").replace(
        b"old", b"absent thing"
    )
    assert generate("a.bib", "--format", "jsonl") == 0
    assert [json.loads(line)["id"] for line in capfdbinary.readouterr().out.splitlines()] == ["k", "l"]


def test_ris_too_and_compressed(made: Any) -> None:
    Path("a.ris.gz").write_bytes(gzip.compress(b"TY  - A\nAB  - Planar\nER  - \n\n"))
    for name in ("b.ris.gz", "B.RIS.GZ"):
        assert generate("a.ris.gz", "--output", name, "--top", "1") == 0
        assert gzip.decompress(Path(name).read_bytes()) == b"TY  - A\nAB  - Planar\nKW  - planar\nER  - \n\n"


def test_a_document_per_file(made: Any, capfdbinary: Any) -> None:
    Path("docs").mkdir()
    for name, text in (("b.txt", "Planar\ngraphs\n"), ("a.txt", "Trees"), ("c.md", "no")):
        Path("docs", name).write_text(text)
    assert generate("docs", "--per-file") == 0
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [(one["id"], one["keyphrases"][0]["text"]) for one in answers] == [("a.txt", "trees"), ("b.txt", "planar")]
    assert generate("docs") == 2
    assert b"docs: a folder; --per-file" in capfdbinary.readouterr().err


def phrases(*scores: float) -> Keyphrases:
    return Keyphrases(tuple(Keyphrase(f"p{n}", None, n % 2 == 0, s, ()) for n, s in enumerate(scores)), "")


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(), "p0 p1 p2 p3"),
        (Selection(top=2), "p1 p3"),
        (Selection(top=9), "p0 p1 p2 p3"),
        (Selection(min_score=0.3), "p1 p2 p3"),
        (Selection(present=False), "p1 p3"),
        (Selection(absent=False, top=1), "p2"),
    ],
)
def test_which_phrases_are_shown(selection: Selection, left: str) -> None:
    assert selection(phrases(0.1, 0.5, 0.3, 0.5)).texts == left.split()


def test_the_first_of_equals_is_the_better() -> None:
    assert Selection(top=1)(phrases(0.5, 0.5)).texts == ["p0"]


def test_highlights_are_the_spans_and_the_text_cannot_command_the_terminal(made: Any, capfdbinary: Any) -> None:
    Path("a.txt").write_text("On planar\x1b[2J GRAPHS, planar\n")
    assert generate("a.txt", "--highlight") == 0
    shown = capfdbinary.readouterr().out.decode()
    on, off = "\x1b[1;33m", "\x1b[0m"
    assert shown == f"On {on}planar{off} [2J {on}GRAPHS{off}, {on}planar{off}\nabsent: absent thing\n\n"


def test_only_options_that_are_given_reach_the_generator(made: Any, capfdbinary: Any) -> None:
    Path("a.txt").write_text("Planar\n" * 5)
    assert generate("a.txt", "--window", "all", "--max-phrases", "7", "--beam-size", "3", "--batch-size", "2") == 0
    assert generate("a.txt", "--window", "0") == generate("a.txt", "--window", "9" * 30) == 0
    assert made[0].calls == [(n, {"window": "all", "max_phrases": 7, "beam_size": 3}) for n in (2, 2, 1)]
    assert made[1].calls == [(5, {"window": 0})]
    assert made[2].calls == [(5, {"window": "all"})]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.txt"], "none.txt: no such file"),
        (["a.txt", "--model", "missing"], "missing: no model folder"),
        (["a.txt", "--replace"], "--replace is about the keywords of .bib"),
        (["a.txt", "--keep"], "--keep is about records"),
        (["a.txt", "--highlight", "--format", "csv"], "leave one of them out"),
        (["a.csv"], "a.csv: there is no column 'abstract' or 'text'; the columns are 'title', 'body'"),
        (["a.jsonl"], "a.jsonl, line 2: no key 'abstract' or 'text'; there is 'title'"),
        (["bad.txt"], "bad.txt, line 3: not UTF-8: byte 0xe9 at 4"),
        (["a.txt", "bad.txt.gz"], "bad.txt.gz: the gzip data is broken"),
        (["-", "--per-file"], "name them"),
        (["a.txt", "--per-file", "--input-format", "csv"], "leave out --input-format"),
        (["empty", "--per-file"], "empty: the folder has no .txt"),
        (["a.txt", "--output", "empty"], "empty is a folder"),
        (["a.txt", "--device", "xyz"], "--device xyz cannot be used: Expected one of cpu, cuda"),
    ],
)
def test_mistakes_are_a_sentence_before_any_work(made: Any, capfd: Any, arguments: list[str], sentence: str) -> None:
    Path("a.txt").write_text("Planar\n")
    Path("a.csv").write_text("title,body\nx,y\n")
    Path("a.jsonl").write_text('{"text": "Planar"}\n{"title": "x"}\n')
    Path("bad.txt").write_bytes(b"Planar\ngraphs\ncaf\xe9\n")
    Path("bad.txt.gz").write_bytes(b"no gzip")
    Path("empty").mkdir()
    assert generate(*arguments) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("exhird generate: error: ") and sentence in err
    assert err.count("\n") == 1
    assert not any(generator.calls for generator in made)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--top", "0"),
        ("--min-score", "2"),
        ("--min-score", "x"),
        ("--window", "-1"),
        ("--window", "some"),
        ("--format", "xml"),
    ],
)
def test_wrong_values_are_refused(made: Any, capfd: Any, option: str, value: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        generate("a.txt", f"{option}={value}")
    assert exit_.value.code == 2 and value in capfd.readouterr().err


@pytest.mark.parametrize("format_", ["text", "jsonl", "csv"])
def test_with_keep_going_a_bad_record_is_answered_and_nothing_is_lost(made: Any, capfd: Any, format_: str) -> None:
    Path("a.txt").write_bytes(b"Planar\n\xff\nGraphs\n")
    assert generate("a.txt", "--keep-going", "--format", format_, "--present-only") == 3
    out, err = capfd.readouterr()
    fault = "a.txt, line 2: not UTF-8: byte 0xff at 1"
    assert err == f"exhird generate: {fault}\nexhird generate: 1 of 3 records failed\n"
    if format_ == "text":
        assert out == "planar\n\ngraphs\n"
    elif format_ == "jsonl":
        first, bad, last = map(json.loads, out.splitlines())
        assert bad == {"id": 2, "error": fault} and (first["id"], last["id"]) == (1, 3)
    else:
        assert [row["error"] for row in csv.DictReader(io.StringIO(out))] == ["", fault, ""]


def test_a_bad_entry_is_left_as_it_is(made: Any, capfdbinary: Any) -> None:
    text = b"@a{k, abstract = {Planar}}\n@b{l, abstract = {M\xfcll}}\n"
    Path("a.bib").write_bytes(text)
    assert generate("a.bib", "--keep-going", "--top", "1") == 3
    assert capfdbinary.readouterr().out == text.replace(b"Planar}", b"Planar}, keywords = {planar}")


def test_text_of_every_kind_has_an_answer(made: Any, capfdbinary: Any) -> None:
    records = [
        {"text": text, "id": text[:3]}
        for text in ("", "one", "word " * 5000, "a\x00b\x1b", "\ud800 planar", "深度学习方法")
    ]
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert generate("a.jsonl") == 0
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == [record["id"] for record in records]
    assert generate("a.jsonl", "--highlight") == generate("a.jsonl", "--format", "csv") == 0


def test_output_appears_only_when_all_is_done(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.txt").write_text("Planar\n" * 3)
    Path("out.txt").write_text("old")

    def interrupted(self: Any, text: str) -> Keyphrases:
        assert Path("out.txt").read_text() == "old"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FakeGenerator, "answer", interrupted)
        assert generate("a.txt", "--output", "out.txt") == 130
    assert Path("out.txt").read_text() == "old"
    assert generate("a.txt", "--output", "out.txt", "--top", "1") == 0
    assert Path("out.txt").read_text() == "planar\n" * 3
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "out.txt"]


def test_a_device_is_written_to_as_it_is(made: Any) -> None:
    Path("a.txt").write_text("Planar\n")
    assert generate("a.txt", "--output", "/dev/null") == 0
    assert not Path("/dev/null").is_file()


def test_what_has_arrived_goes_into_one_batch() -> None:
    from onmt_exhird.cli.inputs import Input, in_batches
    from onmt_exhird.documents import PipeLines

    reading, writing = os.pipe()
    os.write(writing, b"planar\n" * 100)
    os.close(writing)
    sizes = [len(batch) for batch in in_batches([Input(PipeLines(reading, "pipe"), "text")], Names(), 64)]
    os.close(reading)
    assert sizes == [64, 36]


def test_files_are_read_ahead_in_long_batches(tmp_path: Path) -> None:
    from onmt_exhird.cli.inputs import AHEAD, Input, in_batches

    path = tmp_path / "a.txt"
    path.write_text("x\n" * 50)
    sizes = [len(batch) for batch in in_batches([Input(FileLines(path), "text")], Names(), 2)]
    assert sizes == [2 * AHEAD, 50 - 2 * AHEAD]


def test_long_documents_are_not_read_ahead_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onmt_exhird.cli import inputs

    monkeypatch.setattr(inputs, "LETTERS", 100)
    path = tmp_path / "a.jsonl"
    path.write_text((json.dumps({"title": "x" * 5, "text": "y" * 45}) + "\n") * 5)
    sizes = [len(batch) for batch in inputs.in_batches([inputs.Input(FileLines(path), "jsonl")], Names(), 64)]
    assert sizes == [2, 2, 1]
