"""Teaching a thesaurus: the commonest phrases, whatever their form, and the words that speak for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
import torch
from helpers.files import load_tool, write_lines
from helpers.generator_models import TOKENS, make

from onmt_exhird import Keyphrase, KeyphraseGenerator, Keyphrases
from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.folder import read_folder
from onmt_exhird.generator.phrases import Reader
from onmt_exhird.generator.rearranged import likely_cases
from onmt_exhird.subwords import Subwords
from onmt_exhird.textmodel import TextModel

FIRST, SECOND = "graph graphs tree trees sorting proof".split(), "neural deep network language parsing".split()
OTHERS = "of the a in we fast linear quiet".split()


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("thesaurus")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and two hundred documents on two subjects, each with a phrase that stands in none."""
    path = tmp_path_factory.mktemp("thesaurus")
    KeyphraseGenerator(make()).save_pretrained(path / "model")
    random, sources, targets = Random(1), [], []
    for number in range(200):
        words = (FIRST, SECOND)[number % 2]
        sources.append(" ".join([*random.choices(words, k=3), "<sep>", *random.choices(words + OTHERS, k=9)]))
        absent = (("colouring", "Colouring"), ("machine learning", "machine learnings"))[number % 2][number % 40 > 30]
        targets.append(f"<p_start> {words[0]} ; <a_start> {absent.lower()} ; <a_start> alone{number} ;")
    write_lines(path / "train.src", sources)
    write_lines(path / "train.tgt", targets)
    return path


def call(tool: ModuleType, folder: Path, *more: str) -> int:
    fixed = ["--model", str(folder / "model"), "--data", str(folder / "train"), "--valid", str(folder / "train")]
    return tool.main(
        [
            *fixed,
            "--output",
            str(folder / "knowing"),
            *"--batch-size 20 --passes 20 --size 6 --rate 0.05 --dropout 0".split(),
            *more,
        ]
    )


def test_it_learns_which_words_speak_for_a_phrase(
    tool: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tool, folder, "--absent", "0.2", "--most-absent", "99") == 0
    printed = capsys.readouterr().out
    assert "phrases      4, of which the last is in 100" in printed and "minutes left" in printed
    trained = read_folder(folder / "knowing")
    known = trained.thesaurus
    assert known is not None and sorted(known.phrases) == ["colouring", "graph", "machine learning", "neural"]
    assert (known.manner.absent.least, known.manner.most_absent) == (0.2, 99)
    generator = KeyphraseGenerator(trained)
    for text, right, wrong in (
        ("sorting of trees", "colouring", "machine learning"),
        ("deep parsing", "machine learning", "colouring"),
    ):
        written = generator(text, thesaurus=False).texts
        scores = {phrase.text: phrase.score for phrase in generator(text) if phrase.text not in written}
        assert scores[right] > 0.5 and wrong not in scores
        assert "graph" not in scores or right == "colouring"


def test_the_decoder_stays_as_it_is(tool: ModuleType, folder: Path) -> None:
    assert call(tool, folder, "--passes", "1", "--precision", "float32") == 0
    for name, tensor in read_folder(folder / "knowing").tensors.items():
        assert torch.equal(tensor, make().tensors[name])


def test_the_same_seed_gives_the_same_bytes(tool: ModuleType, folder: Path) -> None:
    found = []
    for seed in ("3", "3", "4"):
        assert call(tool, folder, "--passes", "2", "--seed", seed) == 0
        found.append((folder / "knowing" / "model.safetensors").read_bytes())
    assert found[0] == found[1] != found[2]


def test_phrases_are_counted_by_stems_and_written_as_most_write_them(tool: ModuleType) -> None:
    chosen = [{("graph",): "graphs"}, {("graph",): "graph"}, {("graph",): "graphs", ("tree",): "tree"}, {("a",): "a"}]
    assert tool.choose(chosen, rarest=1, most=2) == (["graphs", "tree"], [3, 1], {("graph",): 0, ("tree",): 1})
    assert tool.choose(chosen, rarest=2, most=9).written == ["graphs"]


def test_phrases_with_numbers_or_unknown_words_and_placeholders_are_left_out(tool: ModuleType) -> None:
    stream = "<p_start> graph networks ; <a_start> <digit> trees ; <a_start> <unk> ; <a_start> na ;"
    assert tool.read_phrases(stream, make()) == {("graph", "network"): "graph networks"}


def test_rarity_is_of_words_only(tool: ModuleType) -> None:
    documents = [
        torch.tensor([TOKENS.index(word) for word in text.split()]) for text in ("graph graph ,", "graph tree <digit>")
    ]
    found = dict(zip(TOKENS, tool.rarity(documents, TOKENS).tolist(), strict=True))
    assert found["graph"] == pytest.approx(0) and found["tree"] == pytest.approx(math.log(3 / 2))
    assert found["proof"] == pytest.approx(math.log(3)) and found[","] == found["<digit>"] == found["<unk>"] == 0


def test_keyness_is_how_often_what_stands_there_was_chosen(tool: ModuleType) -> None:
    known = tool.Known(["graph tree", "tree", "proof"], [2, 1, 1], {("graph", "tree"): 0, ("tree",): 1, ("proof",): 2})
    sources = [["a", "graph", "tree", "tree"], ["graph", "a", "tree"], ["graph", "tree"]]
    chosen = [{("graph", "tree")}, {("tree",), ("proof",)}, {}]
    expected = [math.log((1 + 0.5) / (1 + 5)), math.log((1 + 0.5) / (2 + 5)), math.log(0.5 / 5)]
    assert tool.keyness(sources, chosen, known).tolist() == pytest.approx(expected)


def test_chances_are_those_that_made_the_cases(tool: ModuleType) -> None:
    torch.manual_seed(1)
    facts = torch.cat([torch.randn(20_000, 2), torch.ones(20_000, 1)], 1).double()
    right = (torch.rand(20_000) < (facts @ torch.tensor([0.5, -1.0, -2.0]).double()).sigmoid()).double()
    assert tool.weights(tool.Cases(facts, right)) == pytest.approx((0.5, -1.0, -2.0), abs=0.1)


def test_without_data_only_the_chances_are_learned_anew(
    tool: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of authors who say "trees parsing" of "parsing of trees", two times of three where the decoder has a part."""
    assert call(tool, folder, "--precision", "float32") == 0
    before = read_folder(folder / "knowing").thesaurus
    words = "graph tree proof parsing language sorting".split()
    pairs = [(one, other) for one in words for other in words if one != other]
    write_lines(folder / "other.src", [f"we <sep> {one} of {other} , fast and quiet network" for one, other in pairs])
    targets = [
        f"<a_start> {f'{other} {one}' if number % 3 else 'machine'} ;" for number, (one, other) in enumerate(pairs)
    ]
    write_lines(folder / "other.tgt", targets)

    def generate(_: KeyphraseGenerator, documents: list[tuple[str, str]]) -> Iterator[Keyphrases]:
        for title, body in documents:
            found = [Keyphrase(word, word, True, 0.5, ((0, 1),)) for word in (body.split()[0], "fast")]
            yield Keyphrases(tuple(found), f"{title}\n{body}", False)

    monkeypatch.setattr(KeyphraseGenerator, "generate", generate)
    options = "--model", str(folder / "knowing"), "--valid", str(folder / "other"), "--output", str(folder / "again")
    assert tool.main([*options, "--precision", "float32"]) == 0
    assert "rearranged   RearrangedChance(" in capsys.readouterr().out
    after = read_folder(folder / "again").thesaurus
    assert before is not None and after is not None and after.manner != before.manner
    assert after.phrases == before.phrases
    for name, tensor in after.tensors.items():
        assert torch.equal(tensor, before.tensors[name])
    chance = after.manner.rearranged
    assert chance is not None
    reader = Reader(read_document(("we", "parsing of trees, fast and quiet network")))
    written = {(word,): Keyphrase(word, word, True, 0.5, ((0, 1),)) for word in ("pars", "fast")}
    scores = {" ".join(raw.words): raw.score for _, raw in likely_cases(chance, 0.001, reader, written)}
    assert scores["trees parsing"] == pytest.approx(2 / 3, abs=0.02) and scores["fast network"] < 0.1


def test_without_data_a_model_must_have_a_thesaurus(
    tool: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--model", str(folder / "model"), "--valid", str(folder / "train"), "--output", str(folder / "none")
    assert tool.main([*options]) == 2
    assert "has no thesaurus: give --data" in capsys.readouterr().err and not (folder / "none").exists()


def test_the_loss_is_that_of_the_obvious_sum(tool: ModuleType) -> None:
    torch.manual_seed(1)
    logits, chosen = torch.randn(3, 5), [torch.tensor([1, 4]), torch.tensor([]), torch.tensor([0])]
    chances = logits.softmax(1)
    expected = -(chances[0, 1].log() + chances[0, 4].log() + chances[2, 0].log()) / 3
    assert float(tool.loss_of(logits, chosen)) == pytest.approx(float(expected), rel=1e-5)


def test_every_document_is_in_a_batch_of_each_pass(tool: ModuleType) -> None:
    lesson = tool.Lesson(
        [(torch.tensor([n]), torch.ones(1)) for n in range(12)], [torch.tensor([n]) for n in range(12)]
    )
    batches = lesson.batches(4, seed=1)
    passes = [[int(ids) for _ in range(3) for ids, _ in next(batches)[0]] for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(12)) and passes[0] != passes[1]


def test_a_mistake_is_a_sentence(tool: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tool, folder, "--rarest", "1000") == 2
    assert "no phrase is in 1000 documents" in capsys.readouterr().err
    assert call(tool, folder, "--present", "0") == 2
    assert "as likely as 0.0 cannot be added" in capsys.readouterr().err
    assert tool.main(["--model", "nowhere", "--data", "x", "--valid", "x", "--output", "y"]) == 2
    assert "there is no model 'nowhere'" in capsys.readouterr().err


def test_a_model_of_pieces_of_words_is_refused(
    tool: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = replace(make(), text=TextModel(subwords=Subwords("sentencepiece", "unigram", b"")))
    monkeypatch.setattr("onmt_exhird.generator.loading.load", lambda _: pieces)
    assert call(tool, folder) == 2
    assert "only one of words can have a thesaurus" in capsys.readouterr().err
