"""``.bib`` files: what is found in them, and what is written into them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onmt_exhird.documents import FileLines, Names, read
from onmt_exhird.documents.bibtex import cut
from onmt_exhird.documents.items import Entry
from onmt_exhird.documents.latex import plain_text, spell

few = settings(max_examples=200)


def entries(text: str) -> list[Entry]:
    return [piece for piece in cut(text.encode()) if piece.is_entry]


def fill(text: str, *phrases: str, everywhere: bool = False) -> str:
    """The file with keywords as the command fills them in."""
    pieces = cut(text.encode())
    wanted = [piece.abstract and (everywhere or not piece.keywords) for piece in cut(text.encode())]
    return b"".join(p.filled(list(phrases)) if yes else p.raw for p, yes in zip(pieces, wanted, strict=True)).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@a{k,\n  abstract = {x},\n  year = 3\n}", "@a{k,\n  abstract = {x},\n  keywords = {d g, t},\n  year = 3\n}"),
        ("@a{k,\r\n\tabstract={x}\r\n}\r\n", "@a{k,\r\n\tabstract={x},\r\n\tkeywords={d g, t}\r\n}\r\n"),
        ("@a{k,\n\n  ABSTRACT  = {x},\n}", "@a{k,\n\n  ABSTRACT  = {x},\n  KEYWORDS  = {d g, t},\n}"),
        ("@a{k,\nAbstract = {x},}", "@a{k,\nAbstract = {x},\nKeywords = {d g, t},}"),
        ('@a(k, abstract = "a) {"} b")', '@a(k, abstract = "a) {"} b", keywords = {d g, t})'),
        ("@a{k\n , abstract = {x}\n , year = 3}", "@a{k\n , abstract = {x}\n , keywords = {d g, t}, year = 3}"),
        (
            "@a{k, % c\n  % abstract = {no},\n  abstract = {x}\n  % d, e\n}",
            "@a{k, % c\n  % abstract = {no},\n  abstract = {x},\n  keywords = {d g, t}\n  % d, e\n}",
        ),
        ("@a{k, keywords = {}, abstract = {x}}", "@a{k, keywords = {d g, t}, abstract = {x}}"),
        ('@a{k, abstract = "x" # " y"}', '@a{k, abstract = "x" # " y", keywords = {d g, t}}'),
        ("\ufeff@a {k, abstract = {\\{x\\}}}", "\ufeff@a {k, abstract = {\\{x\\}}, keywords = {d g, t}}"),
    ],
)
def test_keywords_are_written_as_the_abstract_is(before: str, after: str) -> None:
    assert fill(before, "d g", "t") == after


@pytest.mark.parametrize(
    "text",
    [
        "@a{k, title = {x}}",
        "@a{k, abstract = {}}",
        "@a{k, abstract = {x}, keywords = {old}}",
        "@a{k, abstract = {x}, Keywords = macro}",
        "@a{k, abstract = {x}, keyword = 3}",
        "% @a{k, abstract = {x}}",
        "@comment{@a{k, abstract = {x}}}",
        "@string{abstract = {x}} @preamble{{abstract = {x}}}",
        "me@home{abstract",
        "@a{k, abstract = {x}, year 3}",
        "@a{abstract = {x}}",
    ],
)
def test_all_else_stays_as_it_is(text: str) -> None:
    assert fill(text, "graph") == text


def test_nothing_found_changes_nothing() -> None:
    assert fill("@a{k, abstract = {x}, keywords = {old}}", everywhere=True) == "@a{k, abstract = {x}, keywords = {old}}"


def test_all_can_be_replaced() -> None:
    text = "@a{k, abstract = {x}, keywords = {old, {older}} # more, year = 3}"
    assert fill(text, "new", everywhere=True) == "@a{k, abstract = {x}, keywords = {new}, year = 3}"


def test_what_is_found_is_readable() -> None:
    (entry,) = entries('@a{G\u00f6, title = {{\\"U}ber {DNA}}, abstract = "An\n \\emph{x}" # {y $n$}, title = {no}}')
    assert (entry.id, entry.title, entry.abstract) == ("G\u00f6", "\u00dcber DNA", "An xy n")
    assert pickle.loads(pickle.dumps(entry)) == entry


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        (b"x\n@a{k,\n abstract = {x},\n\n@b{l, abstract = {y}}", 2, "no end; a brace is missing"),
        (b"@b{l, abstract = {y}}\n@a{k,\n year 3}", 3, "no field with '='"),
        (b"@b{l, abstract = {y}}\n@a{k,\n year = 3\n title = 4}", 3, "a comma is missing behind the field 'year'"),
        (b"@b{l, abstract = {y}}\n@a{k,\n year = }", 3, "a value is missing"),
        (b'@b{l, abstract = {y}}\n@a{k, x = "y}', 2, "the value that begins here has no end"),
        (b"@b{l, abstract = {y}}\n@a{year = 3}", 2, "no key"),
        (b"@b{l, abstract = {y}}\n@a{k,\n author = {M\xfcller}}", 3, "not UTF-8: byte 0xfc at 13"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, text: bytes, line: int, fault: str
) -> None:
    path = tmp_path / "a.bib"
    path.write_bytes(text)
    found = list(read(FileLines(path), "bib", Names()))
    assert b"".join(item.entry.raw for item in found if item.entry) == text
    (bad,) = (item for item in found if item.fault)
    assert fault in bad.fault and bad.place == f"{path}, line {line}"
    assert [item.id for item in found if item.document] == ["l"]


@few
@given(
    st.lists(st.sampled_from([*'@{}(),="#%\\ \n\r', "@a{", "@a{k,", "abstract", "keywords", " = ", "{x}", "\u00e9"]))
)
def test_the_pieces_of_any_file_are_the_file(parts: list[str]) -> None:
    data = "".join(parts).encode()
    pieces = list(cut(data))
    assert b"".join(piece.raw for piece in pieces) == data
    assert all(piece.filled([]) == piece.raw for piece in pieces)


@few
@given(st.binary())
def test_nor_are_bytes_that_are_no_text_changed(data: bytes) -> None:
    assert b"".join(piece.raw for piece in cut(b"@a{k, abstract = {" + data)) == b"@a{k, abstract = {" + data


WORDS = st.text("abcxyz \u00e9", min_size=1, max_size=12).map(lambda text: " ".join(text.split()) or "x")
BREAK = st.sampled_from(["\n", "\r\n"])
VALUES = WORDS.flatmap(lambda text: st.sampled_from([f"{{{text}}}", f'"{text}"', f"{{{{{text}}} b}}", "1931"]))
NAMES = st.sampled_from(["title", "Abstract", "abstract", "keywords", "year", "author", "note"])


@st.composite
def bib_files(draw: st.DrawFn) -> str:
    """A sound file, in one of the many ways people write them; keys are all different."""
    end = draw(BREAK)
    parts = [
        draw(st.sampled_from(["", "\ufeff", "A comment" + end, f"@comment{{x}}{end}", f"@string{{s = {{t}}}}{end}"]))
    ]
    for number in range(draw(st.integers(1, 4))):
        fields = draw(
            st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=5, unique_by=lambda field: field[0].lower())
        )
        indent, equals = draw(st.sampled_from(["", "  ", "\t"])), draw(st.sampled_from(["=", " = ", "  =  "]))
        inner = f",{end}".join(f"{indent}{name}{equals}{value}" for name, value in fields)
        trailing = draw(st.sampled_from(["", ",", f",{end}", end]))
        parts.append(f"@{draw(st.sampled_from(['article', 'MISC']))}{{key{number},{end}{inner}{trailing}}}")
        parts.append(draw(st.sampled_from([end, end * 3, " "])))
    return "".join(parts)


@few
@given(bib_files(), st.lists(WORDS, min_size=1, max_size=3))
def test_the_only_change_is_one_insertion_in_each_entry(text: str, phrases: list[str]) -> None:
    for piece in cut(text.encode()):
        assert not piece.fault
        if not piece.keywords and piece.abstract:
            filled = piece.filled(phrases)
            (start, end), *others = piece.slots
            assert not others and filled.startswith(piece.raw[:start]) and filled.endswith(piece.raw[end:])
            assert piece.raw[start:end].strip(b'{}" ') == b""


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=30)  # bibtexparser builds its grammar anew for each file
@given(bib_files(), st.lists(WORDS, min_size=1, max_size=3), st.booleans())
def test_what_is_filled_in_is_read_by_others_and_all_else_is_equal(text: str, phrases: list[str], all_: bool) -> None:
    bibtexparser = pytest.importorskip("bibtexparser")
    assume(not text.startswith("\ufeff"))

    def parse(bib: str) -> dict[str, dict[str, str]]:
        parser = bibtexparser.bparser.BibTexParser(common_strings=True, ignore_nonstandard_types=False)
        return {entry["ID"]: entry for entry in bibtexparser.loads(bib, parser).entries}

    before, after = parse(text), parse(fill(text, *phrases, everywhere=all_))
    assert before.keys() == after.keys()
    for key, entry in before.items():
        wanted = "abstract" in entry and (all_ or "keywords" not in entry)
        expected = entry | {"keywords": ", ".join(phrases)} if wanted else entry
        assert after[key] == expected


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (
            r"{\"o} \"{o} \"o \'{\i} \v{s} \c c {\ss} \o{} \AA",
            "\u00f6 \u00f6 \u00f6 \u00ed \u0161 \u00e7 \u00df \u00f8 \u00c5",
        ),
        (r"\textbf{deep \emph{graph}} {\it nets}", "deep graph nets"),
        (r"over $\mathbb{R}^n$ and $$\alpha + 1$$", "over R^n and alpha + 1"),
        (r"R\&D, 5\% \$3 a\_b", "R&D, 5% $3 a_b"),
        (r"as in \cite{a,b} and~\ref{x}", "as in and"),
        ("two\n  lines -- ``so''", 'two lines - "so"'),
        (r"\LaTeX{} line\\break", "LaTeX line break"),
        ("plain text.", "plain text."),
        ("unbalanced { $ \\", "unbalanced $"),
    ],
)
def test_latex_is_made_readable(latex: str, plain: str) -> None:
    assert plain_text(latex) == plain


@few
@given(st.text(r"""\{}$~-'"`^ aoi&%"""))
def test_no_latex_is_too_odd(text: str) -> None:
    assert not set("\\{}") & set(plain_text(text))


@few
@given(st.text())
def test_a_spelt_phrase_closes_no_brace(text: str) -> None:
    spelt = spell(text).replace("\\{", "").replace("\\}", "")
    assert spelt.count("{") == spelt.count("}") <= 1
