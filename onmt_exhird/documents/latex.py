"""LaTeX as it stands in the fields of ``.bib`` files, made readable: accents as letters, no commands, no braces."""

from __future__ import annotations

import re
import unicodedata

_MARKS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "d": "\u0323", "c": "\u0327", "k": "\u0328",
    "b": "\u0331",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å",
    "AA": "Å", "i": "\u0131", "j": "j", "dj": "đ", "DJ": "Đ", "th": "þ", "TH": "Þ", "dh": "ð", "DH": "Ð",
    "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX", "textendash": "-", "textemdash": "-", "textquoteright": "'",
    "textasciitilde": "~", "textbackslash": " ", "ldots": "...", "dots": "...", "textregistered": " ",
}  # fmt: skip
_ACCENT = re.compile(
    r"\\(?:([`'^\"~=.])|([uvHtcdbrk])(?![A-Za-z]))\s*(?:\{\s*(\\?[A-Za-z])\s*\}|(\\[ij])(?![A-Za-z])\s?|([A-Za-z]))"
)
_POINTERS = re.compile(r"\\(?:cite[a-z]*|ref|eqref|label|footnotemark)\*?(?:\[[^\]]*\])*\s*\{[^{}]*\}")
_MATH = re.compile(r"(?<!\\)\$\$?([^$]*)\$\$?|\\\((.*?)\\\)|\\\[(.*?)\\\]", re.DOTALL)
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?\s*")
_SIGN = re.compile(r"\\([&%$#_{}])")


def plain_text(latex: str) -> str:
    r"""What a reader of the printed text would see, roughly: enough for a model, not for a printer.

    >>> plain_text(r"Erd{\H o}s and G\"odel on \textit{{DNA}--RNA} of $O(\alpha)$~\cite{x}, 5\% \LaTeX{}")
    'Erdős and Gödel on DNA-RNA of O( alpha ) , 5% LaTeX'
    """
    if not any(sign in latex for sign in "\\{}$~-"):
        return " ".join(latex.split())
    text = _POINTERS.sub("", latex.replace("\\\\", " "))
    text = _MATH.sub(lambda found: _COMMAND.sub(_named, " ".join(filter(None, found.groups()))), text)
    text = _ACCENT.sub(_accented, text)
    text = _COMMAND.sub(lambda command: _LETTERS.get(command[1], ""), text)
    text = text.replace("\\,", " ").replace("\\ ", " ").replace("\\-", "")
    text = _SIGN.sub(lambda sign: "" if sign[1] in "{}" else sign[1], text.replace("~", " "))
    text = re.sub("-{2,3}", "-", text).replace("``", '"').replace("''", '"')
    return " ".join(re.sub(r"[{}\\]", "", text).split())


def _named(command: re.Match[str]) -> str:
    """In a formula: a symbol is its name, ``alpha``; what acts on braces, as ``mathbf`` does, is nothing."""
    return "" if command.string.startswith("{", command.end()) else f" {command[1]} "


def _accented(found: re.Match[str]) -> str:
    mark = _MARKS.get(found[1] or found[2], "")
    letter = (found[3] or found[4] or found[5]).removeprefix("\\")
    return unicodedata.normalize("NFC", letter + mark)


def spell(phrase: str) -> str:
    r"""A phrase as it can stand in a list of keywords between braces.

    >>> spell("r&d of snake_case"), spell("a, b")
    ('r\\&d of snake\\_case', '{a, b}')
    """
    text = re.sub(r"([&%$#_])", r"\\\1", " ".join(re.sub(r"[{}\\]", " ", phrase).split()))
    return f"{{{text}}}" if "," in text else text
