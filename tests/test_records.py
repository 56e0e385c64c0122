"""Reading raw records out of files of every kind, sound and broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onmt_exhird import records
from onmt_exhird.corpus import Unusable
from onmt_exhird.errors import ExhirdError
from onmt_exhird.records import Keys, RawRecord, Record, check_input, parse_record, read_records

RECORDS = [{"title": "Ünï {[,", "n": 1}, {"title": "b]},{", "n": [2, {}]}, {"title": "c\n\u2028", "n": None}]
JSON_LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)


def write(path: Path, data: str | bytes) -> Path:
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def values(path: Path) -> list[Any]:
    return [json.loads(record.json) for record in read_records(path)]


def last(path: Path) -> RawRecord:
    return list(read_records(path))[-1]


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("lines.jsonl", JSON_LINES),
        ("no_last_line_end.jsonl", JSON_LINES.rstrip()),
        ("blank_lines.jsonl", JSON_LINES.replace("\n", "\r\n \r\n")),
        ("with_bom.jsonl", "\ufeff" + JSON_LINES),
        ("kp20k.json", JSON_LINES),
        ("kp20k_blank_first.json", "\n \r\n" + JSON_LINES),
        ("kp20k_bom.json", "\ufeff" + JSON_LINES),
        ("list.json", json.dumps(RECORDS)),
        ("unicode_list.json", json.dumps(RECORDS, ensure_ascii=False)),
        ("pretty_list.json", "\n " + json.dumps(RECORDS, indent=2) + "\n"),
        ("bom_list.json", "\ufeff" + json.dumps(RECORDS)),
        ("bom_objects.json", "\ufeff" + "\n".join(json.dumps(record, indent=2) for record in RECORDS)),
        ("pretty_objects.json", "\n".join(json.dumps(record, indent=2) for record in RECORDS)),
    ],
)
def test_every_kind_of_file_gives_the_same_records(tmp_path: Path, name: str, data: str, gz: str) -> None:
    assert values(write(tmp_path / f"{name}{gz}", data)) == RECORDS


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_file_may_be_one_record(tmp_path: Path, indent: int | None) -> None:
    path = write(tmp_path / "one.json", "\n" + json.dumps(RECORDS[0], indent=indent))
    assert values(path) == RECORDS[:1]


def test_an_object_of_several_lines_may_have_a_brace_at_the_end_of_the_first(tmp_path: Path) -> None:
    path = write(tmp_path / "one.json", '{"n": {"m": 1}\n}\n')
    assert values(path) == [{"n": {"m": 1}}]


def test_an_object_of_several_lines_may_be_longer_than_a_chunk(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "_CHUNK", 3)
    assert values(write(tmp_path / "one.json", json.dumps(RECORDS[0], indent=2))) == RECORDS[:1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@example([0.5, None, -1e30, 12, {}], True, None, 1)
@given(st.lists(JSON, max_size=6), st.booleans(), st.sampled_from([None, 1]), st.sampled_from([1, 2, 3, 7]))
def test_a_list_is_cut_right_wherever_the_chunks_end(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], ascii_only: bool, indent: int | None, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("list") / "list.json"
    write(path, "\n" + json.dumps(items, ensure_ascii=ascii_only, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_CHUNK", chunk)
        found = [json.loads(record.json) for record in read_records(path) if not record.fault]
    assert found == items


def test_places_name_the_file_and_the_line_or_the_record(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.jsonl", "\n{}\n\n{}\n")
    assert [record.place for record in read_records(lines)] == [f"{lines}, line 2", f"{lines}, line 4"]
    listed = write(tmp_path / "a.json", "[{},\n\n{}]")
    assert [record.place for record in read_records(listed)] == [f"{listed}, record 1", f"{listed}, record 2"]


def test_a_bad_line_does_not_stop_the_next_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"n": 1\n\xff\n{"n": 3}\n')
    assert [record.json for record in read_records(path)] == [b'{"n": 1', b"\xff", b'{"n": 3}']


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize(
    ("lines", "bad", "reason"),
    [
        ([b'{"title": "a', b"{}", b"{}"], 1, "not valid JSON: Unterminated string"),
        ([b'{"title": "a", "n":', b"{}", b"{}"], 1, "not valid JSON: Expecting value"),
        ([b'{"title": "a"} b', b"{}", b"{}"], 1, "not valid JSON: Extra data"),
        ([b'{"title": "a"},', b"{}", b"{}"], 1, "not valid JSON: Extra data"),
        ([b'itle": "a"}', b"{}", b"{}"], 1, "not valid JSON"),
        ([b"title;abstract", b"{}", b"{}"], 1, "not valid JSON"),
        ([b"", b"{}", b'{"title": ', b"{}"], 3, "not valid JSON"),
        ([b"", b" ", b'{"title": ', b"{}"], 3, "not valid JSON"),
        ([b'{"title": "\xff"}', b"{}", b"{}"], 1, "not UTF-8: byte 0xff at 12"),
        ([b'\xc3{"title": "a"}', b"{}", b"{}"], 1, "not UTF-8: byte 0xc3 at 1"),
    ],
)
def test_one_record_a_line_is_recognised_though_the_first_lines_are_broken(
    tmp_path: Path, lines: list[bytes], bad: int, reason: str, gz: str
) -> None:
    path = write(tmp_path / f"a.json{gz}", b"\n".join(lines) + b"\n")
    found = list(read_records(path))
    kept = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    assert found == [RawRecord(f"{path}, line {number}", line.strip()) for number, line in kept]
    (broken,) = (record for record in found if record.json != b"{}")
    assert broken.place == f"{path}, line {bad}"
    with pytest.raises(Unusable, match=reason):
        parse_record(broken.json, Keys())


def test_to_recognise_a_broken_first_line_takes_bounded_memory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 200)
    monkeypatch.setattr(records, "_CHUNK", 50)
    sizes: list[int] = []
    decode = records.json.JSONDecoder.raw_decode
    monkeypatch.setattr(
        records.json.JSONDecoder,
        "raw_decode",
        lambda self, text, at=0: (sizes.append(len(text)), decode(self, text, at))[1],
    )
    path = write(tmp_path / "a.json", '{"title": "a\n' + "{}\n" * 5000)
    assert len(list(read_records(path))) == 5001
    assert 0 < max(sizes) <= 2 * 200 + 50


def test_bytes_that_are_no_text_reach_the_parser_of_their_own_record(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b'[{"n": 1}, {"title": "\xff\xc3"}, {"n": 3}]')
    assert [record.json for record in read_records(path)] == [b'{"n": 1}', b'{"title": "\xff\xc3"}', b'{"n": 3}']


@pytest.mark.parametrize(
    ("data", "number", "reason"),
    [
        ('[{"n": 1}, {"n": 2]', 2, "not valid JSON"),
        ('[{"n": 1}, {"n": 2}', 3, "the list has no end"),
        ('[{"n": 1} {"n": 2}]', 2, "a ',' or ']' must follow in the list, not '{'"),
        ('[{"n": 1},]', 2, "not valid JSON"),
        ('[{"n": 1}] {"n": 2}', 2, "'{' follows the end of the list"),
        ("[" * 100_000, 1, "not valid JSON"),
    ],
)
def test_a_broken_list_ends_with_the_number_of_the_record_and_the_reason(
    tmp_path: Path, data: str, number: int, reason: str
) -> None:
    path = write(tmp_path / "a.json", data)
    assert last(path).place == f"{path}, record {number}"
    assert reason in last(path).fault


def test_gzip_data_that_breaks_off_gives_what_was_whole_and_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = "".join(f'{{"n": "{number**9}"}}\n' for number in range(5000))
    path.write_bytes(gzip.compress(lines.encode())[:-1000])
    *whole, broken = read_records(path)
    assert [json.loads(record.json)["n"] for record in whole] == [str(number**9) for number in range(len(whole))]
    assert 1000 < len(whole) < 5000
    assert broken.place == f"{path}, line {len(whole) + 1}" and "gzip data is broken" in broken.fault


def test_one_record_a_line_is_recognised_though_the_gzip_data_breaks_off_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n')[:-6])
    *whole, broken = read_records(path)
    assert [record.json for record in whole] == [b'{"n": 1}', b'{"n": 2}']
    assert broken.place == f"{path}, line 3" and "gzip data is broken" in broken.fault


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz"])
def test_what_is_not_gzip_at_all_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(JSON_LINES)
    assert "gzip data is broken" in last(tmp_path / name).fault


@pytest.mark.parametrize(
    ("name", "data"), [("a.jsonl", ""), ("a.jsonl", "\n \n"), ("a.json", ""), ("a.json", "\n \n"), ("a.json", "[ ]")]
)
def test_a_file_without_records_is_a_fault(tmp_path: Path, name: str, data: str) -> None:
    (fault,) = read_records(write(tmp_path / name, data))
    assert fault.fault == "the file has no records"


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 20)
    path = write(tmp_path / "a.jsonl", '{"n": 1}\n[{"n": 1}, {"n": 2}, {"n": 3}]\n')
    assert last(path).place == f"{path}, line 2" and "belongs into a .json file" in last(path).fault


def test_a_list_that_goes_wrong_early_is_not_read_to_its_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 200)
    monkeypatch.setattr(records, "_CHUNK", 50)
    path = write(tmp_path / "a.json", '[{"n": "never closed}' + ", {}" * 5000)
    consumed: list[int] = []
    assert "not valid JSON" in list(read_records(path, consumed.append))[-1].fault
    # The file itself is buffered, so what was taken is known to that accuracy.
    assert sum(consumed) < 10_000 < path.stat().st_size


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.json.gz"])
def test_progress_adds_up_to_the_size_of_the_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, json.dumps(RECORDS * 100) if name != "a.jsonl" else JSON_LINES * 100)
    consumed: list[int] = []
    assert len(list(read_records(path, consumed.append))) == 300
    assert sum(consumed) == path.stat().st_size


def test_endings_may_be_capitals(tmp_path: Path) -> None:
    path = tmp_path / "A.JSON.GZ"
    path.write_bytes(gzip.compress(json.dumps(RECORDS).encode()))
    check_input(path)
    assert [json.loads(raw.json) for raw in read_records(path)] == RECORDS


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a.txt", "unknown file ending"), ("gone.jsonl", "no such file"), ("folder.json", "not a file")],
)
def test_an_input_that_cannot_be_one_is_refused_by_name(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ExhirdError, match=f"{name}: {reason}"):
        check_input(tmp_path / name)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"title": "a", "abstract": "b", "keywords": ["c", "d e"]}, Record("a", "b", ["c", "d e"])),
        ({"title": "a", "abstract": "b", "keywords": ["c; d;", "e"]}, Record("a", "b", ["c", "d", "e"])),
        ({"title": "a", "abstract": "b", "keywords": ["", "c"]}, Record("a", "b", ["", "c"])),
        ({"title": "a", "text": "b", "keyword": "c; d;"}, Record("a", "b", ["c", "d"])),
        ({"title": "a", "text": "b", "keyphrases": ["c", "d"]}, Record("a", "b", ["c", "d"])),
        ({"title": None, "abstract": "b", "text": "c", "keywords": None}, Record("", "b", [])),
        ({"title": "a", "abstract": "", "keywords": ""}, Record("a", "", [])),
        ({"title": "a", "abstract": None, "text": "b", "keywords": "", "keyword": "c"}, Record("a", "b", ["c"])),
        ({"title": "a", "abstract": "b", "keywords": [], "keyword": "c"}, Record("a", "b", [])),
    ],
)
def test_title_body_and_keyphrases_are_taken_from_a_record(record: dict[str, Any], expected: Record) -> None:
    assert parse_record(json.dumps(record).encode(), Keys()) == expected


def test_the_names_of_the_keys_can_be_chosen() -> None:
    data = b'{"title": "a", "abstract": "b", "keywords": "c", "T": "d", "B": "e", "K": ["f"]}'
    assert parse_record(data, Keys(("T",), ("B",), ("K",))) == Record("d", "e", ["f"])


@pytest.mark.parametrize(
    ("data", "kind", "detail"),
    [
        (b'{"title": "a"', "not JSON", "at column 14"),
        (b"", "not JSON", "at column 1"),
        (b'{"title": "\xff"}', "not UTF-8", "byte 0xff at 12"),
        (b"[" * 100_000, "not JSON", "recursion"),
        (b"3", "not a record", "but a number"),
        (b'[{"title": "a"}]', "not a record", "but a list; a list of records belongs into a .json file"),
        (b'{"abstract": "b", "keywords": []}', "missing key", "no key 'title'; there is 'abstract', 'keywords'"),
        (b'{"title": "a", "keywords": []}', "missing key", "no key 'abstract' or 'text'"),
        (b"{}", "missing key", "no key 'title'; there is none"),
        (b'{"title": "a", "text": "b"}', "missing key", "no key 'keywords' or 'keyword' or 'keyphrases'"),
        (b'{"title": 3, "text": "b", "keywords": []}', "not a record", "'title' is not a string but a number"),
        (b'{"title": "a", "text": "b", "keywords": [1]}', "not a record", "neither a list of strings nor a string"),
    ],
)
def test_a_bad_record_says_what_is_wrong(data: bytes, kind: str, detail: str) -> None:
    with pytest.raises(Unusable) as caught:
        parse_record(data, Keys())
    assert caught.value.kind == kind
    assert detail in str(caught.value)
