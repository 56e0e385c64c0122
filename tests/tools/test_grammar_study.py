"""The grammar study: what the authors' program permits, and how differences are counted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.files import load_tool, write_lines
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.search import SearchSettings, StreamConstraint

TOKENS = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "graph", "tree"]
ID = {token: index for index, token in enumerate(TOKENS)}
CONSTRAINT = StreamConstraint(TOKENS, SearchSettings())


tool = load_tool("grammar_study")


def ids(line: str) -> list[int]:
    return [ID[token] for token in line.split()]


def likes(*tokens: str) -> list[float]:
    """Log-probabilities (size): the first of the tokens is the most probable one, then the second."""
    return [-float(tokens.index(token)) if token in tokens else -9.0 for token in TOKENS]


@pytest.mark.parametrize(
    ("line", "favourite", "choice"),
    [
        ("<s>", ";", "tree"),
        ("<s>", "</s>", "tree"),
        ("<s>", "<blank>", "tree"),
        ("<s>", "graph", "graph"),
        ("<s> <p_start>", "</s>", "tree"),
        ("<s> <p_start>", ";", ";"),
        ("<s> <p_start> graph", "</s>", "tree"),
        ("<s> <p_start> graph", ";", ";"),
        ("<s> <p_start> graph", "<a_start>", "<a_start>"),
        ("<s> <p_start> graph ;", "</s>", "</s>"),
        ("<s> <p_start> graph ;", ";", "tree"),
        ("<s> <p_start> graph ; <a_start>", "</s>", "tree"),
        ("<s> <p_start> graph ; <a_start> graph", "</s>", "tree"),
    ],
)
def test_the_authors_forbid_an_end_at_a_phrases_begin_and_eos_in_the_first_phrase_and_within_phrases(
    line: str, favourite: str, choice: str
) -> None:
    found = tool.authors_choice(torch.tensor([likes(favourite, "tree")]), torch.tensor([ids(line)]), CONSTRAINT)
    assert TOKENS[int(found)] == choice


def slow_choice(log_probs: list[float], sequence: list[int]) -> int:
    written = [TOKENS[index] for index in sequence]
    begins = written[-1] in ("<s>", ";")
    permitted = []
    for token in TOKENS:
        if token == "<blank>" or (token == ";" and begins):
            continue
        if token == "</s>" and (not begins or ";" not in written):
            continue
        permitted.append(token)
    return max(map(ID.__getitem__, permitted), key=log_probs.__getitem__)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.permutations([-0.5 * index for index in range(len(TOKENS))]),
            st.lists(st.sampled_from(ids("<unk> <p_start> <a_start> ; ; graph tree")), min_size=4, max_size=4),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_the_authors_choice_equals_the_rules_read_one_token_at_a_time(
    rows: list[tuple[list[float], list[int]]],
) -> None:
    log_probs = [values for values, _ in rows]
    sequences = [[ID["<s>"], *rest] for _, rest in rows]
    before = torch.tensor(log_probs)
    found = tool.authors_choice(before, torch.tensor(sequences), CONSTRAINT)
    assert found.tolist() == [slow_choice(*row) for row in zip(log_probs, sequences, strict=True)]
    assert before.tolist() == torch.tensor(log_probs).tolist(), "the model's own numbers are not touched"


def test_steps_and_documents_that_the_grammar_changes_are_counted() -> None:
    constraint = StreamConstraint(TOKENS, SearchSettings(max_phrases=2, max_phrase_words=2))
    steps = [  # (line, favourite, document of the batch)
        ("<s> <p_start> graph ; <p_start>", ";", 4),  # an empty phrase: changed
        ("<s> <p_start> graph <p_start> tree", "tree", 3),  # as the authors
        ("<s> <p_start> graph ; <a_start>", "<a_start>", 4),  # a tag in a phrase: changed, the same document
        ("<s> <p_start> graph ; graph", "<a_start>", 0),  # within a phrase: changed
        ("<s> <a_start> ; graph ;", "tree", 2),  # all phrases there: not compared
        ("<s> ; <p_start> graph tree", "graph", 1),  # full, so closed in both: no step of the model's
    ]
    translator = SimpleNamespace(constraint=constraint)

    def search(batch: dict, strategy: object) -> dict:
        log_probs = torch.tensor([likes(favourite, "tree") for _, favourite, _ in steps])
        translator.constraint.apply(log_probs, torch.tensor([ids(line) for line, _, _ in steps]))
        return {"log_probs": log_probs}

    translator._translate_batch_with_strategy = search
    counter = tool.Counter()
    counter.watch(SimpleNamespace(translator=translator))
    strategy = SimpleNamespace(keep_topk=1, original_batch_idx=torch.tensor([document for _, _, document in steps]))
    results = translator._translate_batch_with_strategy({}, strategy)
    assert (counter.changed_documents, counter.changed_steps, counter.steps) == (2, 3, 5)
    assert results["log_probs"][0, ID[";"]] == -torch.inf, "the grammar itself is applied"
    assert constraint.apply.__func__ is StreamConstraint.apply, "the search is left as it was"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    path.write_bytes(b"no checkpoint")
    return path


@pytest.mark.parametrize(("lines", "options"), [([], []), (["fast graph"], ["--limit", "0"])])
def test_no_documents_are_an_error_before_the_model_is_loaded(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], lines: list[str], options: list[str]
) -> None:
    source = write_lines(tmp_path / "test.src", lines)
    assert tool.main(["--model", str(model), "--src", str(source), *options]) == 2
    assert capsys.readouterr().err == (
        f"grammar_study.py: error: no document of {source} is left; give a file with lines, and --limit from 1 on\n"
    )


def test_a_missing_source_or_model_is_an_error(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--model", str(model), "--src", str(tmp_path / "nowhere.src")]) == 2
    assert "nowhere.src cannot be read" in capsys.readouterr().err
    assert tool.main(["--model", str(tmp_path / "nowhere.pt"), "--src", str(model)]) == 2
    assert "nowhere.pt is no file" in capsys.readouterr().err
