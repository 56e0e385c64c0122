"""What people give a generator, as words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.corpus import join_source
from onmt_exhird.generator.documents import read_document
from onmt_exhird.text import ENGLISH, TextRules

PARTS = st.lists(
    st.sampled_from(["Graphs", "naïve", "3.5", "[12]", "(SVM)", " ", "\n", "…", "图像", ";", "<sep>"])
).map("".join)


@settings(max_examples=200)
@given(PARTS, PARTS, st.sampled_from([ENGLISH, TextRules("zh", digits="keep")]))
def test_a_document_has_the_words_of_the_source_that_a_model_was_trained_on(
    title: str, body: str, rules: TextRules
) -> None:
    document = read_document((title, body), rules)
    assert document.tokens == join_source(title, body, rules)
    assert len(document.spans) == len(document.tokens)


@pytest.mark.parametrize("record", [{"abstract": None, "text": "b"}, {"abstract": "", "text": "b"}, {"text": "b"}])
def test_the_first_key_that_holds_something_is_the_text(record: dict[str, str | None]) -> None:
    assert read_document(record).text == "b"
