"""Phrases that many authors use: added where they are likely enough, never twice, and kept in a folder."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.generator_models import SPECIALS, TOKENS, make, texts

from onmt_exhird import KeyphraseGenerator, Keyphrases
from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.chances import Chance, Manner
from onmt_exhird.generator.folder import read_config, read_folder
from onmt_exhird.generator.shortlist import shorten
from onmt_exhird.generator.thesaurus import KnownPhrases
from onmt_exhird.generator.trained import Trained
from onmt_exhird.text import stem_words, tokenize

PHRASES = ["machine learning", "graph theory", "deep learning", "trees", "linear models", "proof", "learning machines"]
KEYS = {stem_words(phrase.split()) for phrase in PHRASES}


def knowing(phrases: list[str] = PHRASES, present: float = 0.4, absent: float = 0.15, most: int = 3) -> Trained:
    """A model with a thesaurus of random vectors."""
    torch.manual_seed(4)
    tensors = {
        "words": torch.randn(len(TOKENS), 5),
        "rarity": torch.tensor([0.0 if token in SPECIALS else 1.0 for token in TOKENS]),
        "phrases": torch.randn(len(phrases), 5),
        "bias": torch.randn(len(phrases)),
        "keyness": torch.randn(len(phrases)),
    }
    manner = Manner(Chance(1.0, 0.7, 1.2, present), Chance(1.0, 0.1, 0.8, absent), most)
    return replace(make(), thesaurus=KnownPhrases(phrases, tensors, manner))


def split(ours: Keyphrases, alone: Keyphrases) -> list[Any]:
    """What was added to what the decoder alone writes, which comes first, but for some of its absent phrases."""
    kept = [phrase for phrase in alone if phrase in ours]
    assert list(ours[: len(kept)]) == kept
    assert not any(phrase.present for phrase in alone if phrase not in ours)
    return list(ours[len(kept) :])


@pytest.fixture(scope="module")
def answers() -> list[tuple[Keyphrases, Keyphrases]]:
    generator, documents = KeyphraseGenerator(knowing()), texts(60)
    return list(zip(generator(documents), generator(documents, thesaurus=False), strict=True))


def test_without_it_a_model_writes_what_it_wrote_before(answers: list[tuple[Keyphrases, Keyphrases]]) -> None:
    assert [alone for _, alone in answers] == KeyphraseGenerator(make())(texts(60))


def test_what_is_added_is_likely_known_and_no_duplicate(answers: list[tuple[Keyphrases, Keyphrases]]) -> None:
    kinds = set()
    for ours, alone in answers:
        more = split(ours, alone)
        assert [phrase.present for phrase in more] == sorted((phrase.present for phrase in more), reverse=True)
        for phrase in more:
            assert 1 >= phrase.score >= (0.4 if phrase.present else 0.15)
            assert stem_words(phrase.text.split()) in KEYS
            assert bool(phrase.spans) == phrase.present == (phrase.surface is not None)
            kinds.add(phrase.present)
        stems = [stem_words(phrase.text.split()) for phrase in ours]
        assert len(stems) == len(set(stems))
    assert kinds == {True, False}


def test_scores_are_the_chances_of_the_obvious_sum() -> None:
    """Over one document: log P of each phrase, given its words, and then the log odds."""
    trained = knowing(present=0.01, absent=0.01, most=20)
    generator, text = KeyphraseGenerator(trained), "quiet proof of sorting, quiet language"
    known = trained.thesaurus
    assert known is not None
    weights = {word: 1 + math.log(2 if word == "quiet" else 1) for word in text.replace(",", "").split()}
    vector = sum(weight * known.tensors["words"][TOKENS.index(word)] for word, weight in weights.items())
    vector = vector / math.hypot(*weights.values())
    log_probs = (known.tensors["phrases"] @ vector + known.tensors["bias"]).log_softmax(0)
    expected = {}
    for phrase, log_prob, keyness in zip(PHRASES, log_probs.tolist(), known.tensors["keyness"].tolist(), strict=True):
        odds = log_prob + 0.7 * keyness + 1.2 if phrase == "proof" else log_prob + 0.1 * keyness + 0.8
        expected[phrase] = 1 / (1 + math.exp(-odds))
    result = generator(text, max_phrases=40)
    more = split(result, generator(text, max_phrases=40, thesaurus=False))
    left = {phrase.text for phrase in result} - {phrase.text for phrase in more}
    wanted = {phrase: score for phrase, score in expected.items() if score >= 0.01 and phrase not in left}
    assert len(wanted) > 3 and {phrase.text: phrase.score for phrase in more} == pytest.approx(wanted, abs=1e-4)
    absent = [phrase.score for phrase in more if not phrase.present]
    assert absent == sorted(absent, reverse=True)


def has_words(text: str, phrase: str) -> bool:
    """Slowly, whether a text has a phrase's words, and one twice in succession only where it has that."""
    there, words = (f" {' '.join(stem_words(tokens))} " for tokens in (tokenize(text), phrase.split()))
    for word in words.split():
        run = f" {word} "
        while f"{run}{word} " in words:
            run += f"{word} "
        if run not in there:
            return False
    return True


def test_absent_ones_are_so_many_at_most_with_the_decoders_own() -> None:
    generator = KeyphraseGenerator(knowing(absent=1e-9, present=0.999, most=2))
    documents = texts(40)
    for text, ours, alone in zip(documents, generator(documents), generator(documents, thesaurus=False), strict=True):
        own = sum(has_words(text, phrase.text) for phrase in alone.absent)
        assert len(ours.absent) == max(2, own) or len(ours) == 20


def test_an_absent_phrase_of_the_decoder_must_be_likely_or_of_the_documents_words() -> None:
    """Sure of one phrase, the thesaurus lets it stand, and strikes out the others that it knows.

    Of those it does not know, these stay whose words all stand in the document, and that say none of them twice in
    succession where it does not.
    """
    documents = texts(60)
    alone = KeyphraseGenerator(make())(documents)
    has_all = {
        (number, phrase.text): has_words(documents[number], phrase.text)
        for number, result in enumerate(alone)
        for phrase in result.absent
    }
    sure = min(text for (_, text), has in has_all.items() if not has)
    others = sorted({phrase.text for result in alone for phrase in result.absent} - {sure})
    unknown = others[::2]
    trained = knowing([sure, *others[1::2]], absent=0.2)
    assert trained.thesaurus is not None
    trained.thesaurus.tensors["bias"][0] = 99.0
    seen = set()
    for number, (ours, before) in enumerate(zip(KeyphraseGenerator(trained)(documents), alone, strict=True)):
        for phrase in before:
            has = phrase.present or has_all[number, phrase.text]
            stays = phrase.present or phrase.text == sure or (phrase.text in unknown and has)
            assert (phrase in ours) == stays
            kind = "present" if phrase.present else "unknown" if phrase.text in unknown else "known"
            seen.add((kind, has, stays))
    assert seen >= {
        ("present", True, True),
        ("unknown", True, True),
        ("unknown", False, False),
        ("known", True, False),
        ("known", False, True),
    }


def test_batch_and_neighbours_change_nothing() -> None:
    generator, documents = KeyphraseGenerator(knowing()), ["", *texts(70, longest=15), "!"]
    alone = [generator(document) for document in documents]
    for size in (7, 64):
        together = list(generator.generate(documents, batch_size=size))
        assert [result.texts for result in together] == [result.texts for result in alone]
    assert not alone[0] and not alone[-1]


def test_what_has_no_known_word_is_given_none() -> None:
    generator = KeyphraseGenerator(knowing(absent=1e-9))
    assert generator("zuvoka rataku") == generator("zuvoka rataku", thesaurus=False)


def test_of_a_long_document_its_beginning_counts() -> None:
    generator = KeyphraseGenerator(replace(knowing(absent=1e-9, present=0.999, most=99), max_source=60))
    words = " ".join(texts(9)).split()
    beginning, whole = " ".join(words[:60]), " ".join(words)
    scores = {phrase.text: phrase.score for phrase in generator(beginning)}
    more = split(generator(whole), generator(whole, thesaurus=False))
    assert len(tokenize(beginning)) >= 60 and more
    for phrase in more:
        assert phrase.score == pytest.approx(scores[phrase.text], abs=0.02)


def test_most_phrases_are_most_phrases() -> None:
    generator = KeyphraseGenerator(knowing(absent=1e-9, present=1e-9, most=20))
    assert {len(result) for result in generator(texts(20), max_phrases=3)} == {3}


def test_a_wrong_option_is_told() -> None:
    with pytest.raises(ExhirdError, match="thesaurus is 1; give true or false"):
        KeyphraseGenerator(knowing())("graph", thesaurus=1)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_a_folder_has_it(precision: str, tmp_path: Path) -> None:
    trained = knowing()
    KeyphraseGenerator(trained).save_pretrained(tmp_path / "first", precision)
    config = read_config(tmp_path / "first")
    assert config["format"] == 4 and config["search"]["thesaurus"] is True
    assert config["thesaurus"]["most_absent"] == 3
    card = (tmp_path / "first" / "README.md").read_text()
    assert "present ones from a chance of 0.4 on, absent ones from 0.15 on, up to 3" in card
    assert config["thesaurus"]["present"] == {"by_words": 1.0, "by_keyness": 0.7, "offset": 1.2, "least": 0.4}
    assert (tmp_path / "first" / "thesaurus.txt").read_text().splitlines() == PHRASES
    again = read_folder(tmp_path / "first")
    assert again.thesaurus is not None and trained.thesaurus is not None
    assert again.thesaurus.manner == trained.thesaurus.manner
    for name, tensor in trained.thesaurus.tensors.items():
        assert torch.allclose(again.thesaurus.tensors[name], tensor, atol=0 if precision == "float32" else 0.02)
    KeyphraseGenerator(again).save_pretrained(tmp_path / "second", precision)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


def test_a_folder_without_one_is_as_before(tmp_path: Path) -> None:
    KeyphraseGenerator(make()).save_pretrained(tmp_path)
    config = read_config(tmp_path)
    assert config["format"] == 1 and "thesaurus" not in config and "thesaurus" not in config["search"]
    assert not (tmp_path / "thesaurus.txt").exists()


def test_what_was_altered_is_noticed(tmp_path: Path) -> None:
    KeyphraseGenerator(knowing()).save_pretrained(tmp_path)
    (tmp_path / "thesaurus.txt").write_text("\n".join([*PHRASES[:-1], "cheating"]) + "\n")
    with pytest.raises(ExhirdError, match=r"thesaurus\.txt is not what config\.json says"):
        read_folder(tmp_path)


@pytest.mark.parametrize("least", [0.0, 1.0, -0.1])
def test_what_is_added_is_neither_certain_nor_impossible(least: float) -> None:
    with pytest.raises(ExhirdError, match=r"give 0\.1, say"):
        Chance(1.0, 1.0, 0.0, least)


def test_tensors_must_fit() -> None:
    trained = knowing()
    known = trained.thesaurus
    assert known is not None
    for wrong in (
        replace(known, phrases=PHRASES[:-1]),
        replace(known, tensors=known.tensors | {"more": torch.ones(1)}),
    ):
        with pytest.raises(ExhirdError, match="do not fit"):
            KeyphraseGenerator(replace(trained, thesaurus=wrong))


def test_a_shortlist_changes_nothing_in_it() -> None:
    trained = knowing(absent=1e-9, present=1e-9, most=99)
    short = shorten(trained, ["learning", "tree"])
    for document in texts(10):
        pairs = (
            {phrase.text: phrase.score for phrase in KeyphraseGenerator(one)(document)} for one in (trained, short)
        )
        whole, less = pairs
        both = (whole.keys() & less.keys()) & set(PHRASES)
        assert both
    known, moved = trained.thesaurus, short.thesaurus
    assert known is not None and moved is not None
    for number, token in enumerate(short.tokens):
        assert torch.equal(moved.tensors["words"][number], known.tensors["words"][TOKENS.index(token)])
        assert moved.tensors["rarity"][number] == known.tensors["rarity"][TOKENS.index(token)]


def test_the_command_can_do_without(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    KeyphraseGenerator(knowing()).save_pretrained(tmp_path / "model")
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(9)))
    found = []
    for options in ([], ["--no-thesaurus"]):
        assert main(["generate", str(file), "--model", str(tmp_path / "model"), *options]) == 0
        found.append([json.loads(line)["keyphrases"] for line in capsysbinary.readouterr().out.splitlines()])
    generator = KeyphraseGenerator(knowing())
    for answers, options in zip(found, ({}, {"thesaurus": False}), strict=True):
        assert [[one["text"] for one in answer] for answer in answers] == [
            result.texts for result in generator(texts(9), **options)
        ]
    assert found[0] != found[1]
