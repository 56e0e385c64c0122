"""What is told of a document: which phrases are right, and those that are missed, repeated or dropped, as written."""

from __future__ import annotations

from onmt_exhird.evaluation.conventions import CONVENTIONS
from onmt_exhird.evaluation.matching import DocumentMatch, match_document, prepare_reference
from onmt_exhird.stream import read_leniently

SOURCE = "fast sorting of spanning trees and other graphs".split()


def match(gold: str, predictions: str, convention: str = "exhird") -> DocumentMatch:
    chosen = CONVENTIONS[convention]
    reference = prepare_reference(SOURCE, read_leniently(gold), chosen)
    return match_document(reference, read_leniently(predictions), chosen)


def test_phrases_are_told_as_they_were_written() -> None:
    found = match(
        "spanning trees ; fast sorting ; linear time ; heap sorts",
        "Spanning Tree ; spanning trees ; heap sort ; of <unk> ; quiet graphs",
    )
    assert found.kinds["present"].texts == ("Spanning Tree",)
    assert found.kinds["absent"].texts == ("heap sort", "quiet graphs")
    assert found.kinds["total"].texts == ("Spanning Tree", "heap sort", "quiet graphs")
    assert found.kinds["total"].right == (True, True, False)
    assert found.duplicates == ["spanning trees"]
    assert found.dropped == ["of <unk>"]
    assert found.missed == {"present": ["fast sorting"], "absent": ["linear time"]}


def test_what_stands_after_a_slash_counts_whatever_stands_before_it() -> None:
    assert match("trees/tree/graphs", "").kinds["total"].gold == 2
    assert match("graphs", "<unk>/graphs").kinds["total"].right == (True,)
    assert match("graphs ; trees", "graphs ; graph/trees").kinds["total"].right == (True, True)


def test_an_empty_line_is_to_chan_a_wrong_absent_phrase_without_words() -> None:
    kinds = match("graphs", "", "chan").kinds
    assert {kind: (of_kind.texts, of_kind.right) for kind, of_kind in kinds.items()} == {
        "present": ((), ()),
        "absent": (("",), (False,)),
        "total": (("",), (False,)),
    }
