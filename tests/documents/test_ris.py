"""``.ris`` files: what is found in them, and what is written into them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.documents import FileLines, Names, read
from onmt_exhird.documents.items import Entry
from onmt_exhird.documents.ris import cut

few = settings(max_examples=200)


def pieces(text: str) -> list[Entry]:
    return list(cut(text.encode().splitlines(keepends=True)))


def fill(text: str, *phrases: str, everywhere: bool = False) -> str:
    """The file with keywords as the command fills them in."""
    return b"".join(
        piece.filled(list(phrases)) if piece.abstract and (everywhere or not piece.keywords) else piece.raw
        for piece in pieces(text)
    ).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("TY  - JOUR\nAB  - x\nER  - \n", "TY  - JOUR\nAB  - x\nKW  - d g\nKW  - t\nER  - \n"),
        (
            "\ufeffTY  - JOUR\r\nN2  - x\r\n\r\nER  -\r\n",
            "\ufeffTY  - JOUR\r\nN2  - x\r\nKW  - d g\r\nKW  - t\r\n\r\nER  -\r\n",
        ),
        (
            "TY  - A\nAB  - x\ngoes on\nPY  - 3\nER  - ",
            "TY  - A\nAB  - x\ngoes on\nKW  - d g\nKW  - t\nPY  - 3\nER  - ",
        ),
        ("TY  - A\nKW  - \nAB  - x\nER  - \n", "TY  - A\nKW  - d g\nKW  - t\nAB  - x\nER  - \n"),
    ],
)
def test_keywords_are_lines_of_their_own_behind_the_abstract(before: str, after: str) -> None:
    assert fill(before, "d g", "t") == after


@pytest.mark.parametrize(
    "text",
    [
        "TY  - A\nTI  - x\nER  - \n",
        "TY  - A\nAB  - x\nKW  - old\nER  - \n",
        "TY  - A\nAB  -\nER  - \n",
        "AB  - x\nsome words\n\n",
        "TY  - A\nAB  - x\n",
    ],
)
def test_all_else_stays_as_it_is(text: str) -> None:
    assert fill(text, "graph") == text


def test_all_can_be_replaced() -> None:
    text = "TY  - A\nKW  - a\nAB  - x\nKW  - b\nc\n\nER  - \n"
    assert fill(text, "new", everywhere=True) == "TY  - A\nKW  - new\nAB  - x\n\nER  - \n"
    assert fill(text, everywhere=True) == text


def test_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.ris"
    path.write_text("1.\nTY  - A\nT1  - Graphs\nID  - g7\nAB  - We\nER cut.\nER  -\nTY  - A\nTI  - Only\nER  - \n")
    found = [item for item in read(FileLines(path), "ris", Names()) if item.is_record]
    assert [(item.id, item.document) for item in found] == [("g7", ("Graphs", "We ER cut.")), (None, "Only")]
    assert [item.place for item in found] == [f"{path}, line 2", f"{path}, line 8"]


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        (b"TY  - A\nAB  - x\nTY  - A\nAB  - y\nER  - \n", 1, "the line 'ER  - ' is missing"),
        (b"TY  - A\nAB  - y\nER  - \nTY  - A\nAU  - M\xfcller\nER  - \n", 5, "not UTF-8: byte 0xfc at 8"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, text: bytes, line: int, fault: str
) -> None:
    path = tmp_path / "a.ris"
    path.write_bytes(text)
    found = list(read(FileLines(path), "ris", Names()))
    assert b"".join(item.entry.raw for item in found if item.entry) == text
    (bad,) = (item for item in found if item.fault)
    assert fault in bad.fault and bad.place == f"{path}, line {line}"
    assert [item.document for item in found if item.document] == ["y"]


@few
@given(
    st.lists(
        st.sampled_from(
            ["TY  - A", "AB  - x", "N2  -", "KW  - ", "KW  - k", "ER  - ", "x", " ", "\n", "\r\n", "\u00e9"]
        )
    )
)
def test_the_pieces_of_any_file_are_the_file(parts: list[str]) -> None:
    data = "".join(parts).encode()
    found = list(cut(data.splitlines(keepends=True)))
    assert b"".join(piece.raw for piece in found) == data
    assert all(piece.filled([]) == piece.raw for piece in found)


WORDS = st.text("abcxyz \u00e9", min_size=1, max_size=12).map(lambda text: " ".join(text.split()) or "x")
LINES = st.tuples(st.sampled_from(["TI", "AU", "AB", "KW", "PY", "JO"]), WORDS).map(
    lambda pair: f"{pair[0]}  - {pair[1]}"
)


@st.composite
def ris_files(draw: st.DrawFn) -> str:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    records = draw(
        st.lists(
            st.lists(LINES, max_size=6, unique_by=lambda line: (line[:2], line * (line[:2] in ("AU", "KW")))),
            min_size=1,
            max_size=4,
        )
    )
    return "".join(end.join(["TY  - JOUR", *lines, "ER  - "]) + end * draw(st.integers(1, 2)) for lines in records)


@few
@given(ris_files(), st.lists(WORDS, min_size=1, max_size=3), st.booleans())
def test_what_is_filled_in_is_read_by_others_and_all_else_is_equal(text: str, phrases: list[str], all_: bool) -> None:
    rispy = pytest.importorskip("rispy")
    before, after = rispy.loads(text), rispy.loads(fill(text, *phrases, everywhere=all_))
    for old, new in zip(before, after, strict=True):
        wanted = "abstract" in old and (all_ or "keywords" not in old)
        assert new == (old | {"keywords": phrases} if wanted else old)
