"""Reading lines and JSONL, and the errors that name file and line."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.inputs import check_lengths, expand, looks_raw, read_gold, read_predictions, read_sources


def texts(documents):
    return [[phrase.text for phrase in document] for document in documents]


def test_streams_and_plain_lines_are_read_alike(tmp_path):
    path = tmp_path / "x.pred"
    path.write_text("<p_start> a b ; <a_start> c ;\na b ; c\n\n a b;c;\n")
    assert texts(read_predictions(str(path))) == [["a b", "c"], ["a b", "c"], [], ["a b", "c"]]


def test_plain_sources_are_not_tokenised_again(tmp_path):
    path = tmp_path / "x.src"
    path.write_text("State-of-the-art , 3\n")
    assert read_sources(str(path)) == ["State-of-the-art , 3"]


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "x.src"
    path.write_bytes("\ufeffa\u2028b\x0cc\r\nd\n".encode())
    assert [source.split() for source in read_sources(str(path))] == [["a", "b", "c"], ["d"]]


def test_gzip_is_read(tmp_path):
    path = tmp_path / "x.src.gz"
    path.write_bytes(gzip.compress(b"a b\nc\n"))
    assert read_sources(str(path)) == ["a b", "c"]


def test_a_record_has_title_and_body_with_the_separator_between(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"title": "Fast Graphs", "abstract": "3 trees."}) + "\n")
    assert read_sources(str(path)) == ["fast graphs <sep> <digit> trees ."]


@pytest.mark.parametrize(
    "record",
    [{"title": "", "text": "Fast graphs"}, {"title": "?", "src": "Fast graphs"}, {"title": "Fast graphs", "body": ""}],
)
def test_a_record_without_title_or_body_has_no_separator(tmp_path, record):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert read_sources(str(path)) == ["fast graphs"]


@pytest.mark.parametrize(
    "record, expected",
    [
        ({"predictions": ["Graph-Theory", "Trees (many)"]}, ["graph theory", "trees"]),
        ({"pred": "<p_start> graph ; tree"}, ["graph", "tree"]),
        ({"phrases": [{"text": "Graph", "present": True}]}, ["graph"]),
        ({"keyphrases": ["input/output", ""]}, ["input / output"]),
        ({"predictions": []}, []),
        ({"predictions": ["<unk> graph"]}, ["<unk> graph"]),
    ],
)
def test_a_record_of_predictions_is_tokenised(tmp_path, record, expected):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert texts(read_predictions(str(path))) == [expected]


def test_one_file_can_hold_everything(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"title": "T", "body": "b", "gold": ["g"], "pred": ["p"]}) + "\n")
    assert texts(read_gold(str(path))) == [["g"]]
    assert texts(read_predictions(str(path))) == [["p"]]


@pytest.mark.parametrize(
    "line, reason",
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"n": ' + "1" * 5000 + "}", "is not JSON"),
        ("[1]", "is no JSON object"),
        ("{}", "has no phrases"),
        ('{"pred": 3}', "has no phrases"),
        ('{"pred": [3]}', "has a phrase that is neither"),
    ],
)
def test_an_unreadable_record_is_an_error_with_file_and_line(tmp_path, line, reason):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"pred": []}}\n{line}\n')
    with pytest.raises(ExhirdError, match=f"{re.escape(str(path))}, line 2 {reason}"):
        read_predictions(str(path))


def test_endings_may_be_capitals(tmp_path):
    path = tmp_path / "X.JSONL.GZ"
    path.write_bytes(gzip.compress(b'{"pred": ["a b"]}\n'))
    assert texts(read_predictions(str(path))) == [["a b"]]


def test_a_record_without_text_is_an_error(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"name": "x"}\n')
    with pytest.raises(ExhirdError, match="line 1 has no text under title, abstract"):
        read_sources(str(path))


def test_a_line_that_is_not_utf8_is_an_error_with_file_and_line(tmp_path):
    path = tmp_path / "x.pred"
    path.write_bytes(b"a\nb\nc \xff\n")
    with pytest.raises(ExhirdError, match=f"{re.escape(str(path))}, line 3 is not UTF-8"):
        read_predictions(str(path))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(ExhirdError, match=r"nowhere.*cannot be read"):
        read_sources(str(tmp_path / "nowhere"))


def test_a_damaged_gzip_file_is_an_error(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a b c\n" * 100)[:-9])
    with pytest.raises(ExhirdError, match="cannot be read"):
        read_sources(str(path))


@pytest.mark.parametrize("have, line, fault", [(2, 3, "is missing"), (5, 4, "belongs to no document")])
def test_line_counts_that_differ_name_file_and_line(have, line, fault):
    with pytest.raises(ExhirdError, match=f"x.pred, line {line} {fault}: x.pred has {have} lines, x.src has 3"):
        check_lengths("x.pred", [""] * have, "x.src", [""] * 3)


def test_globs_are_expanded_in_order(tmp_path):
    for name in ("s2", "s1", "t"):
        (tmp_path / name).touch()
    assert expand([f"{tmp_path}/s*", f"{tmp_path}/t"]) == [f"{tmp_path}/{name}" for name in ("s1", "s2", "t")]


def test_a_glob_that_fits_nothing_is_an_error(tmp_path):
    with pytest.raises(ExhirdError, match="fits no file"):
        expand([f"{tmp_path}/x*"])


def test_raw_sources_are_noticed():
    assert looks_raw(["Graphs, trees", "a b,", "c"])
    assert not looks_raw(["graphs , trees", "a b, c", "d"])


def test_records_under_another_name_are_not_taken_for_streams(tmp_path):
    path = tmp_path / "answers.txt"
    path.write_text('{"id": 1, "keyphrases": [{"text": "graph"}]}\n')
    with pytest.raises(ExhirdError, match=r"has JSON objects, a line each; give it a name that ends in \.jsonl"):
        read_predictions(str(path))
    path.write_text("{ a set } ; graph\n")  # a stream may begin so
    assert [phrase.text for phrase in read_predictions(str(path))[0]] == ["{ a set }", "graph"]
