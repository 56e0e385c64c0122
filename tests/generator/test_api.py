"""Text in, keyphrases out: one shape, the same result whatever stands beside a document."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.generator_models import WORDS, make, texts

from onmt_exhird import Keyphrase, KeyphraseGenerator, Keyphrases
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.articles import vote
from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.phrases import Raw, Reader
from onmt_exhird.text import stem_words, tokenize

DECODERS = ["exhird", "catseq", "catseqd", "catseqcorr"]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.fixture(scope="module", params=DECODERS)
def generator(request: pytest.FixtureRequest) -> KeyphraseGenerator:
    return KeyphraseGenerator(make(request.param))


@pytest.fixture(scope="module")
def exhird() -> KeyphraseGenerator:
    return KeyphraseGenerator(make("exhird"))


def test_one_text_gives_a_result_and_a_list_gives_a_list(generator: KeyphraseGenerator) -> None:
    one, two = texts(2)
    result = generator(one)
    assert isinstance(result, Keyphrases) and result and all(isinstance(phrase, Keyphrase) for phrase in result)
    assert generator([one, two]) == [result, generator(two)]
    assert generator([]) == []


# Beams of a model that has learned nothing can be nearer to each other than single precision tells apart.
@pytest.mark.parametrize(("beam_size", "dtype"), [(1, torch.float32), (3, torch.float64)])
@pytest.mark.parametrize("decoder", DECODERS)
def test_neighbours_order_and_batch_change_nothing(decoder: str, beam_size: int, dtype: torch.dtype) -> None:
    trained, documents = make(decoder), texts(23, longest=20)
    with default_dtype(dtype):
        tensors = {name: tensor.to(dtype) for name, tensor in trained.tensors.items()}
        generator = KeyphraseGenerator(replace(trained, tensors=tensors))
        alone = [generator(document, beam_size=beam_size) for document in documents]
        assert len({tuple(result.texts) for result in alone}) > 10
        for size in (7, 64):
            together = list(generator.generate(documents, batch_size=size, beam_size=beam_size))
            assert [result.texts for result in together] == [result.texts for result in alone]
            for ours, theirs in zip(together, alone, strict=True):
                assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-3)
                assert [one.spans for one in ours] == [one.spans for one in theirs]
        backwards = list(generator.generate(documents[::-1], beam_size=beam_size))[::-1]
    assert [result.texts for result in backwards] == [result.texts for result in alone]


def test_what_differs_between_batches_is_rounding_and_nothing_else() -> None:
    """In single precision random weights can let a score drift by 6e-4; in double precision all batches agree."""
    sensitive = "keyphrases of (SVM) sorting proofs (SVM) deep"
    documents = texts(63, longest=12)
    found = set()
    trained = make("exhird")
    exact = {name: tensor.double() for name, tensor in trained.tensors.items()}
    with default_dtype(torch.float64):
        generator = KeyphraseGenerator(replace(trained, tensors=exact))
        for size in (0, 1, 7, 31, 63):
            *_, last = generator.generate([*documents[:size], sensitive], batch_size=size + 1)
            found.add(tuple((phrase.text, phrase.score) for phrase in last))
    assert len(found) == 1 and len(found.pop()) == 7


def test_an_endless_stream_is_answered_while_it_is_read(exhird: KeyphraseGenerator) -> None:
    read = []

    def endless():
        for number in count():
            read.append(number)
            yield f"a graph {number} tree"

    results = exhird.generate(endless(), batch_size=4)
    next(results)
    assert len(read) == 4
    assert len(list(islice(results, 8))) == 8 and 4 < len(read) <= 4 + 2 * 8 * 4


def test_what_was_read_before_a_failure_is_answered_before_it(exhird: KeyphraseGenerator) -> None:
    documents = texts(45)

    def failing():
        yield from documents
        raise ZeroDivisionError

    found = []
    with pytest.raises(ZeroDivisionError):
        for result in exhird.generate(failing(), batch_size=5):  # five, forty, and what fails
            found.append(result.texts)
    assert found == [result.texts for result in exhird(documents)]


@pytest.mark.parametrize("options", [{}, {"attention": True}, {"beam_size": 2}], ids=["greedy", "attention", "beams"])
def test_documents_that_come_meanwhile_are_answered_as_if_alone(options: dict[str, Any]) -> None:
    """Blank ones among them, and long ones, of several parts, beside short ones."""
    with default_dtype(torch.float64):
        generator = KeyphraseGenerator(replace(make("exhird"), max_source=60))
        documents = ["", *texts(5), " ".join(texts(6)), "!", *texts(3), ""]
        groups = [documents[:1], documents[1:4], [], documents[4:8], [], [], documents[8:]]
        given: list[int] = []

        def arrivals() -> Iterator[list[str]]:
            for group in groups:
                given.extend(len(group) * [len(found)])
                yield group

        found: dict[int, Keyphrases] = {}
        for number, keyphrases in generator.generate_as_finished(arrivals(), **options):
            assert number not in found
            found[number] = keyphrases
        assert [found[number] for number in range(len(documents))] == [generator(one, **options) for one in documents]
        assert "beam_size" in options or 0 < given[4] < 4  # the first blank one, while the next three were under way


def test_phrases_are_readable_and_stand_where_they_say(generator: KeyphraseGenerator) -> None:
    seen = set()
    for text in texts(30):
        result = generator(text, max_phrases=8, max_phrase_words=2)
        stems = " ".join(stem_words(tokenize(text)))
        for phrase in result:
            assert "<" not in phrase.text and phrase.text == phrase.text.strip() and phrase.text
            assert 0 < phrase.score <= 1
            assert phrase.present == bool(phrase.spans) == (phrase.surface is not None)
            key = stem_words(tokenize(phrase.surface or phrase.text))
            assert (f" {' '.join(key)} " in f" {stems} ") == phrase.present
            for start, end in phrase.spans:
                assert stem_words(tokenize(text[start:end])) == key
            seen.add(phrase.present)
        assert [*result.present, *result.absent] == sorted(result, key=lambda one: not one.present)
    assert seen == {True, False}


def test_nobody_sees_a_duplicate(generator: KeyphraseGenerator) -> None:
    for options in ({}, {"window": 0}, {"exclude_phrases": True}):
        for result in generator(texts(20), max_phrases=12, **options):
            keys = [stem_words(tokenize(text)) for text in result.texts]
            assert len(keys) == len(set(keys))


def test_surfaces_are_as_the_document_writes_them(exhird: KeyphraseGenerator) -> None:
    document = read_document("Graph-Networks of 3D (SVMs) and Café\u0301")
    reader = Reader(document)
    found = {
        words: reader.keyphrase(Raw(tuple(words.split()), 0, 0.5)) for words in ("graph network", "<digit>", "svm")
    }
    assert [found[words].surface for words in found] == ["Graph-Networks", "3D", "SVMs"]
    assert found["<digit>"].text == "3d"
    assert reader.keyphrase(Raw(("cafe",), 0, 0.5)).surface == "Café\u0301"
    assert reader.keyphrase(Raw(("<digit>", "trees"), 0, 0.5)) is None  # a number that stands nowhere
    assert reader.keyphrase(Raw(("<unk>",), 0, 0.5)) is None
    assert reader.keyphrase(Raw(("(",), 0, 0.5)) is None
    assert reader.keyphrase(Raw(("turing", "'s", "proof"), 0, 0.5)).text == "turing's proof"


def test_a_word_said_twice_must_stand_in_the_document() -> None:
    reader = Reader(read_document("The fox, Vulpes vulpes"))
    assert reader.keyphrase(Raw(("vulpes", "vulpes"), 0, 0.5)).surface == "Vulpes vulpes"
    assert reader.keyphrase(Raw(("fox", "fox"), 0, 0.5)) is None
    assert reader.keyphrase(Raw(("fox", "fox", "hunt"), 0, 0.5)).text == "fox fox hunt"


def test_a_phrase_does_not_stand_across_a_break() -> None:
    text = "Leaks: locating faults. A leak - locating it. Leaks locating faults? Faults locating leaks"
    reader = Reader(read_document(text))
    assert reader.keyphrase(Raw(("leaks", "locating"), 0, 0.5)).spans == ((46, 60),)
    assert reader.keyphrase(Raw(("faults", "faults"), 0, 0.5)) is None
    assert reader.keyphrase(Raw(("faults", "faults", "locating"), 0, 0.5)) is None
    assert Reader(read_document("A 3:4 ratio")).keyphrase(Raw(("<digit>", "ratio"), 0, 0.5)).surface == "3:4 ratio"
    assert Reader(read_document("Low-cost sensors")).keyphrase(Raw(("low", "cost"), 0, 0.5)).surface == "Low-cost"


def test_a_mere_code_must_stand_in_the_document() -> None:
    """Some journals ask their authors for codes of a classification, which say nothing to others."""
    reader = Reader(read_document("The G20 and its banks"))
    assert reader.keyphrase(Raw(("g20",), 0, 0.5)).surface == "G20"
    assert reader.keyphrase(Raw(("g34",), 0, 0.5)) is None
    assert reader.keyphrase(Raw(("p53", "mutation"), 0, 0.5)).text == "p53 mutation"
    assert reader.keyphrase(Raw(("covid19",), 0, 0.5)).text == "covid19"


def test_title_and_body_are_told_apart_and_the_spans_are_of_both(exhird: KeyphraseGenerator) -> None:
    title, body = "Quiet Graphs", "We colour quiet graphs."
    pair = exhird((title, body))
    assert pair == exhird({"title": title, "abstract": body}) == exhird({"title": title, "text": body, "id": 3})
    assert pair.document == f"{title}\n{body}"
    for phrase in pair.present:
        assert pair.document[slice(*phrase.spans[0])] == phrase.surface
    assert exhird({"text": body}).document == body and exhird({"title": title}).document == title


@pytest.mark.parametrize("text", ["", "   ", "\n", "!!!", "\x00", "\ud800", "[1]"])
def test_what_has_no_words_has_no_keyphrases(exhird: KeyphraseGenerator, text: str) -> None:
    assert exhird(text).texts == [] and not exhird(text).truncated
    assert [result.texts for result in exhird([text, "a graph", text])][::2] == [[], []]


@pytest.mark.parametrize(
    "text", ["graph", "graph\x00tree", "graph \ud800 tree", "图论 研究", "الرسم البياني", "tree " * 5000]
)
def test_odd_texts_are_answered(exhird: KeyphraseGenerator, text: str) -> None:
    result = exhird(text)
    for phrase in result:
        for start, end in phrase.spans:
            assert 0 <= start < end <= len(text)


@pytest.mark.parametrize("document", [3, None, b"graph", ("a", "b", "c"), {}, {"title": 3}, {"id": "a"}])
def test_what_is_no_document_is_named(exhird: KeyphraseGenerator, document: object) -> None:
    with pytest.raises(ExhirdError, match="give a text"):
        exhird([document])


def test_options_are_the_models_own_unless_given(exhird: KeyphraseGenerator) -> None:
    text = " ".join(WORDS)
    assert exhird(text) == exhird(text, window=1, beam_size=1, max_phrases=None)
    assert len(exhird(text, max_phrases=1)) <= 1
    assert exhird(text, window="all") == exhird(text, window=20) == exhird(text, window=10**30)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"beam_size": 0}, "beam_size is 0; give at least 1"),
        ({"batch_size": 0}, "batch_size is 0; give at least 1"),
        ({"window": -1}, "window is -1; give a number of phrases, 0 for off, or 'all'"),
        ({"window": "some"}, "window is 'some'; give a number, or 'all'"),
        ({"max_phrases": 0}, "max_phrases is 0; give at least 1"),
        ({"max_phrases": "3"}, "max_phrases is '3'; give a number"),
        ({"max_phrases": 10**9}, "max_phrases is 1000000000; give at most 10000"),
        ({"max_phrase_words": 10**9}, "max_phrase_words is 1000000000; give at most 1000"),
        ({"beam_size": 50_000}, "beam_size is 50000; give at most 100"),
        ({"exclude_phrases": 1}, "exclude_phrases is 1; give true or false"),
        ({"colour": 1}, "unknown option colour; there are window, .*"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_given(
    exhird: KeyphraseGenerator, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ExhirdError, match=f"^{sentence}$"):
        exhird.generate(["A text"], **options)


def test_attention_says_where_the_decoder_looked(generator: KeyphraseGenerator) -> None:
    found = []
    for text in ("fast graphs zuvoka and a tree " * 4, "a quiet tree and fast graphs zuvoka " * 4):
        plain, result = (
            generator(text, window=2, max_phrases=6),
            generator(text, window=2, max_phrases=6, attention=True),
        )
        assert plain.texts == result.texts and plain.tokens is None and result.tokens is not None
        assert [token.text for token in result.tokens] == tokenize(text)
        assert all(text[slice(*token.span)].lower() == token.text for token in result.tokens)
        for phrase in result:
            attention = phrase.attention
            assert attention is not None and len(attention.words) >= 1 and len(attention.forbidden) <= 2
            levels = [word.weights for word in attention.words]
            levels += [attention.weights] if attention.weights is not None else []
            assert all(len(weights) == len(result.tokens) for weights in levels)
            assert [sum(weights) for weights in levels] == pytest.approx([1.0] * len(levels), abs=1e-3)
            assert (attention.weights is not None) == (generator.config["architecture"]["decoder"] == "exhird")
            for word in attention.words:
                assert 0 <= word.copied <= 1
                assert word.word != "zuvoka" or word.copied == pytest.approx(1.0, abs=1e-4)  # there is no other way
                assert word.word in tokenize(text) or word.copied == 0.0
        found += result.to_dict()["keyphrases"]
    assert found and all(one["attention"]["words"] for one in found)


def test_attention_is_of_the_step_that_wrote_the_word(exhird: KeyphraseGenerator) -> None:
    """Phrases at their limit end without a step: what comes after them must not be shifted."""
    options = {"max_phrase_words": 1, "max_phrases": 6, "window": "all"}
    for text in texts(8):
        result = exhird(text, attention=True, **options)
        for phrase in result:
            [word] = phrase.attention.words
            assert tokenize(phrase.text) == tokenize(word.word) or "<digit>" in word.word


def test_several_threads_may_use_one_generator(exhird: KeyphraseGenerator) -> None:
    documents = texts(24)
    expected = [exhird(document).texts for document in documents]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            assert [result.texts for result in pool.map(exhird, documents)] == expected


def test_pickles_to_a_spawned_process(exhird: KeyphraseGenerator) -> None:
    text = texts(1)[0]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(exhird, (text,)).texts == exhird(text).texts


ALONE = """
import sys
import onmt_exhird
assert "torch" not in sys.modules
generator = onmt_exhird.KeyphraseGenerator.from_pretrained(sys.argv[1])
print(len(generator("a quiet graph of deep trees")))
assert not [name for name in sys.modules if name == "onmt" or name.startswith("onmt.")]
"""


@pytest.mark.parametrize("decoder", DECODERS)
def test_nothing_of_opennmt_is_imported(decoder: str, tmp_path: Path) -> None:
    KeyphraseGenerator(make(decoder)).save_pretrained(tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", ALONE, str(tmp_path / "model")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_long_document_is_read_in_parts_that_vote() -> None:
    trained = replace(make("exhird"), max_source=60)
    generator = KeyphraseGenerator(trained)
    long = " ".join(texts(12, longest=40))
    result = generator(long, attention=True)
    assert not result.truncated and 0 < len(result) <= 10
    assert [token.text for token in result.tokens] == tokenize(long)
    for phrase in result:
        for word in phrase.attention.words:
            assert len(word.weights) == len(result.tokens) and sum(word.weights) == pytest.approx(1.0, abs=1e-3)
            place = max(range(len(word.weights)), key=word.weights.__getitem__)
            assert word.copied < 0.9 or result.tokens[place].text == word.word or word.weights[place] < 0.5
    assert generator([long, "a graph", long])[::2] == [generator(long)] * 2
    assert len(generator(long, max_phrases=2)) <= 2


def test_what_is_beyond_all_parts_is_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onmt_exhird.generator.articles.MOST", 2)
    generator = KeyphraseGenerator(replace(make("exhird"), max_source=60))
    assert not generator("tree " * 70).truncated and generator("tree " * 71).truncated


def test_of_several_parts_the_first_counts_most_and_others_must_agree() -> None:
    def part(**scores: float) -> dict[tuple[str, ...], Keyphrase]:
        return {(text,): Keyphrase(text, None, False, score, ()) for text, score in scores.items()}

    found = vote([part(graph=0.3, tree=0.1), part(proof=0.9, heap=0.5), part(proof=0.7, graph=0.4), part(sort=1.0)])
    assert [(phrase.text, phrase.score) for phrase in found.values()] == [("graph", 0.4), ("proof", 0.9), ("tree", 0.1)]


def test_shows_itself_in_a_notebook_and_hides_no_markup() -> None:
    from onmt_exhird.generator.results import Keyphrase, Keyphrases

    phrases = (
        Keyphrase("b tree", "B-tree", True, 0.5, ((4, 10),)),
        Keyphrase("tree", "tree", True, 0.5, ((6, 10), (13, 18))),
        Keyphrase("a <b>", None, False, 0.1, ()),
    )
    shown = Keyphrases(phrases, "The B-tree <treès>")._repr_html_()
    assert shown == "<p>The <mark>B-tree</mark> &lt;t<mark>reès&gt;</mark></p><p><em>a &lt;b&gt;</em></p>"
