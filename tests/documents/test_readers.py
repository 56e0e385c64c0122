"""Reading documents: lines, JSON, tables, whole files."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from onmt_exhird.documents import FileLines, Item, Names, PipeLines, kind_of, read
from onmt_exhird.documents import lines as lines_module
from onmt_exhird.documents.folders import list_files
from onmt_exhird.errors import ExhirdError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, data: bytes | str) -> Path:
        content = data.encode() if isinstance(data, str) else data
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def items(path: Path, kind: str = "", **names: str) -> list[Item]:
    return list(read(FileLines(path), kind or kind_of(path), Names(**names)))


def documents(path: Path, **names: str) -> list[Any]:
    return [item.document for item in items(path, **names)]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_every_line_is_a_document_blank_or_not(write: Write, ending: str) -> None:
    path = write(f"a.txt{ending}", "\ufeffOne two\r\n\n three\u2028x\x0b \nlast")
    assert documents(path) == ["One two", "", " three\u2028x\x0b ", "last"]
    assert items(path)[1].place == f"{path}, line 2"


def test_no_lines_are_no_documents(write: Write) -> None:
    assert items(write("a.txt", "")) == []


def test_a_line_that_is_no_utf8_is_named_and_the_others_are_read(write: Write) -> None:
    path = write("a.txt", b"good\nba\xffd\nalso\n")
    first, bad, last = items(path)
    assert (first.document, bad.document, last.document) == ("good", None, "also")
    assert bad.place == f"{path}, line 2" and bad.fault == "not UTF-8: byte 0xff at 3"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.bib", "a.ris"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_told_and_not_taken_for_lines_or_for_no_entries(write: Write, name: str, encoding: str) -> None:
    text = "\ufeff@misc{a, title={b}}\nTY  - JOUR\nTI  - b\nER  - \n"
    (found,) = items(write(name, text.encode(encoding)))
    assert found.fault == "the text is UTF-16; save it as UTF-8; no more is read from this file"


def test_utf16_is_told_in_a_pipe_too() -> None:
    reading, writing = os.pipe()
    os.write(writing, "one\ntwo\n".encode("utf-16"))
    os.close(writing)
    (found,) = read(PipeLines(reading, "pipe"), "text", Names())
    os.close(reading)
    assert "save it as UTF-8" in found.fault


def test_a_line_without_end_is_not_read_into_memory(write: Write, monkeypatch: Any) -> None:
    monkeypatch.setattr(lines_module, "MAX_RECORD", 100)
    (found,) = items(write("a.txt", "x" * 1000))
    assert "more than 100 bytes" in found.fault
    reading, writing = os.pipe()
    os.write(writing, b"short\n" + b"x" * 1000)
    first, last = read(PipeLines(reading, "pipe"), "text", Names())
    os.close(writing)
    os.close(reading)
    assert first.document == "short" and "more than 100 bytes" in last.fault


def test_broken_gzip_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"".join(os.urandom(30).hex().encode() + b"\n" for _ in range(9000)))[:-4000])
    *good, last = items(path)
    assert len(good) > 100 and not any(item.fault for item in good)
    assert "the gzip data is broken" in last.fault


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json"])
def test_records_have_a_text_and_perhaps_title_and_id(write: Write, name: str) -> None:
    records = [
        {"id": "x7", "title": "Graphs", "abstract": "We cut.", "year": 3},
        {"text": "No title."},
        {"title": None, "abstract": "Null title."},
    ]
    path = write(name, "".join(json.dumps(record) + "\n" for record in records))
    found = items(path)
    assert [item.document for item in found] == [("Graphs", "We cut."), "No title.", "Null title."]
    assert [item.id for item in found] == ["x7", None, None]
    assert found[0].record == records[0]


@pytest.mark.parametrize("name", ["A.TXT.GZ", "A.JSONL.GZ", "A.JSON.GZ", "A.CSV.GZ"])
def test_endings_may_be_capitals(tmp_path: Path, name: str) -> None:
    texts = {"TXT": "b", "JSONL": '{"text": "b"}', "JSON": '[{"text": "b"}]', "CSV": "text\nb"}
    path = tmp_path / name
    path.write_bytes(gzip.compress(texts[name.split(".")[1]].encode()))
    assert documents(path) == ["b"]


def test_files_of_a_folder_may_have_endings_in_capitals(tmp_path: Path) -> None:
    for name in ("B.TXT", "a.txt", "c.md"):
        (tmp_path / name).touch()
    assert [path.name for path in list_files(tmp_path)] == ["B.TXT", "a.txt"]


def test_the_first_key_that_holds_something_is_the_text(write: Write) -> None:
    lines = ['{"abstract": null, "text": "b"}', '{"abstract": "", "text": "b"}', '{"abstract": "a", "text": "b"}']
    assert documents(write("a.jsonl", "\n".join(lines))) == ["b", "b", "a"]


def test_a_json_list_is_read_as_well(write: Write) -> None:
    assert documents(write("a.json", '[\n{"text": "One"},\n {"text":\n"Two"}]')) == ["One", "Two"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "not an object with keys but a list"),
        (
            b'{"body": "x", "id": 4}',
            "no key 'abstract' or 'text'; there is 'body', 'id'; name the keys with --text-key",
        ),
        (b'{"text": 3}', "'text' is not a string but a number"),
        (b'{"text": "\xff"}', "not UTF-8"),
    ],
)
def test_a_bad_record_says_what_is_wrong_and_the_next_is_read(write: Write, line: bytes, fault: str) -> None:
    path = write("a.jsonl", line + b'\n\n{"text": "good"}\n')
    bad, good = items(path)
    assert fault in bad.fault and bad.place == f"{path}, line 1"
    assert bad.id == (4 if b'"id"' in line else None)
    assert good.document == "good" and good.place.endswith("line 3")


def test_keys_can_be_named_and_then_must_be_there(write: Write) -> None:
    path = write("a.jsonl", '{"t": "T", "b": "B", "n": 5}\n{"b": "B"}\n')
    first, second = items(path, title="t", text="b", id="n")
    assert (first.document, first.id) == (("T", "B"), 5)
    assert "no key 't'" in second.fault
    (found,) = items(write("b.jsonl", '{"text": "B"}\n'), id="n")
    assert "no key 'n'" in found.fault


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", '\ufeffID,Title,Abstract\r\n7,"A, B","two\r\nlines"\r\n\r\n8,,x\r\n'),
        ("a.tsv", 'id\ttitle\tabstract\n7\tA, B\t"two\r\nlines"\n8\t\tx\n'),
        ("a.csv.gz", 'id;title;abstract\n7;A, B;"two\r\nlines"\n8;;x\n'),
    ],
)
def test_tables_are_read_by_the_names_of_their_columns(write: Write, name: str, text: str) -> None:
    found = items(write(name, text))
    assert [item.document for item in found] == [("A, B", "two\r\nlines"), "x"]
    assert [item.id for item in found] == ["7", "8"]


def test_columns_can_be_named(write: Write) -> None:
    path = write("a.csv", "n,head,Body\n1,T,B\n")
    (found,) = items(path, title="head", text="body", id="n")
    assert (found.document, found.id, found.record) == (("T", "B"), "1", {"n": "1", "head": "T", "Body": "B"})


@pytest.mark.parametrize(
    ("header", "names", "sentence"),
    [
        ("Title,Body", {}, "no column 'abstract' or 'text'; the columns are 'Title', 'Body'; .* --text-key"),
        ("text", {"title": "head"}, "no column 'head'; the columns are 'text'; .* --title-key"),
        ("", {}, "line 1: the header is missing; the first line must name the columns"),
        ("\ntext\n", {}, "line 1: the header is missing"),
        (b"text,\xff", {}, "line 1: the header is not UTF-8"),
    ],
)
def test_a_missing_column_lists_those_there_are(write: Write, header: Any, names: Any, sentence: str) -> None:
    with pytest.raises(ExhirdError, match=sentence):
        items(write("a.csv", header), **names)


def test_bad_rows_are_told_and_the_others_read(write: Write) -> None:
    path = write("a.csv", b'id,text\n1,good\n2,\xff\n3,a,b\n4\n5,"x"y\n6,fine\n7,"open\n')
    found = items(path)
    assert [(item.id, item.document) for item in found if not item.fault] == [("1", "good"), ("6", "fine")]
    faults = {item.place.rpartition(" ")[2]: item.fault for item in found if item.fault}
    assert faults["3"] == "not UTF-8: byte 0xff at 3 of line 3"
    assert (
        faults["4"] == "the row and the header differ in length: 3 and 2 cells"
        and faults["5"] == "the row and the header differ in length: 1 and 2 cells"
    )
    assert "no row of a table" in faults["6"] and "no row of a table" in faults["8"]


def test_long_cells_are_read(write: Write) -> None:
    assert documents(write("a.csv", "text\n" + "word " * 100_000 + "\n")) == ["word " * 100_000]


def test_a_document_can_be_a_file(write: Write) -> None:
    (found,) = items(write("doc.txt.gz", "\ufeffTitle\n\nText\n"), "file")
    assert (found.id, found.document) == ("doc.txt.gz", "Title\n\nText\n")
    (bad,) = items(write("bad.txt", b"a\nb\n\xe9"), "file")
    assert bad.place.endswith("bad.txt, line 3") and bad.fault == "not UTF-8: byte 0xe9 at 1" and bad.id == "bad.txt"


def test_readers_read_no_further_than_asked(write: Write) -> None:
    path = write("a.txt", b"x\n" * 200_000)
    file = FileLines(path)
    assert [item.document for item in islice(read(file, "text", Names()), 2)] == ["x", "x"]
    assert pickle.loads(pickle.dumps(file)).path == path
    assert all(pickle.loads(pickle.dumps(item)) == item for item in islice(read(file, "text", Names()), 2))


def test_what_arrives_through_a_pipe_is_there_at_once_and_ready_says_whether_more_is() -> None:
    reading, writing = os.pipe()
    pipe = PipeLines(reading, "pipe")
    found = read(pipe, "text", Names())
    os.write(writing, b"one\ntwo\nth")
    assert next(found).document == "one" and pipe.ready
    assert next(found).document == "two" and not pipe.ready
    threading.Timer(0.05, lambda: (os.write(writing, b"ree\nfour"), os.close(writing))).start()
    assert next(found).document == "three" and not pipe.ready
    assert next(found).document == "four" and pipe.ready
    assert next(found, None) is None
    os.close(reading)


def test_a_pipe_gives_the_lines_of_a_file_however_it_is_cut(write: Write) -> None:
    text = "a\nb\r\n\n" + "long " * 50_000 + "\nlast"
    reading, writing = os.pipe()
    threading.Thread(target=lambda: (os.write(writing, text.encode()), os.close(writing))).start()
    assert list(PipeLines(reading, "pipe")) == list(FileLines(write("a.txt", text)))
    os.close(reading)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExhirdError, match="cannot be read"):
        items(tmp_path)
