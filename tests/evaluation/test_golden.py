"""Every number of the golden file, through the command line, under every convention."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.files import SHARED, TESTS

from onmt_exhird.cli import evaluate as verb

COPY = TESTS / "golden" / "eval_public.json"
ORIGINAL = SHARED / "golden" / "eval_public.json"
GOLDEN = json.loads(COPY.read_text())
BLOCKS = sorted(GOLDEN["blocks"])
COUNTS_OF_DUP_RATIO = {
    "dup_ratio": "dup_ratio",
    "present_tag_unstemmed_dup_ratio": "tagged_present_dup_ratio",
    "absent_tag_unstemmed_dup_ratio": "tagged_absent_dup_ratio",
}


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    if not isinstance(tree, dict):
        yield path, tree
        return
    for key, value in tree.items():
        yield from leaves(value, (*path, key))


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], block: str, *options: str, tagged: bool = True) -> Any:
    data = GOLDEN["blocks"][block]
    lines = {
        "src": [f"{document['title']} {document['body']}" for document in data["documents"]],
        "gold": [" ; ".join(document["gold"]) for document in data["documents"]],
        "pred": [d["pred_line"] if tagged else " ; ".join(d["pred"]) for d in data["documents"]],
    }
    for name, texts in lines.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    files = [text for name in lines for text in (f"--{name}", str(tmp_path / name))]
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())
    stemmed = ["--gold-stemmed"] if data["gold_already_stemmed"] else []
    args = parser.parse_args(["evaluate", *files, *stemmed, "--format", "json", *options])
    assert args.run(args) == 0
    return json.loads(capsys.readouterr().out)


def find(result: Any, path: tuple[str, ...]) -> float:
    """Where our JSON has the number that the golden file has under `path`."""
    (system,) = result["systems"]
    path = tuple("total" if key == "all" else key for key in path)
    first, last = path[0], path[-1]
    if first in COUNTS_OF_DUP_RATIO:
        name = COUNTS_OF_DUP_RATIO[first]
        return system["averaged_documents"][name] if last == "documents" else system[name]
    if first.startswith("avg_"):  # avg_gold_present, avg_unique_predictions_absent
        return system[("gold_" if "gold" in first else "num_") + first.rpartition("_")[2]]
    if last.startswith("avg_"):
        return system[("gold_" if "gold" in last else "num_") + first]
    if last == "documents":
        return system["averaged_documents"][first]
    kind, cutoff, *micro, name = path
    return system[kind]["_".join([*micro, name]) + cutoff]


def differences(result: Any, expected: Any, tolerance: float) -> list[tuple[tuple[str, ...], float, float]]:
    found = [(path, find(result, path), value) for path, value in leaves(expected)]
    assert found
    return [
        (path, ours, value)
        for path, ours, value in found
        if abs(ours - value) > (1e-5 if "dup_ratio" in path[0] else tolerance)
    ]


@pytest.mark.skipif(not ORIGINAL.exists(), reason="the shared golden numbers are not here")
def test_the_copy_is_the_golden_file():
    assert COPY.read_bytes() == ORIGINAL.read_bytes()


@pytest.mark.parametrize("block", BLOCKS)
def test_exhird_convention(tmp_path, capsys, block):
    result = run(tmp_path, capsys, block)
    assert differences(result, GOLDEN["blocks"][block]["expected"]["exhird"], 1e-6) == []


@pytest.mark.parametrize("block", BLOCKS)
def test_chan_convention(tmp_path, capsys, block):
    result = run(tmp_path, capsys, block, "--convention", "chan")
    assert differences(result, GOLDEN["blocks"][block]["expected"]["chan2019"], 1e-7) == []


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("tokens, split", [("blanks", "split"), ("words", "split_nopunc")])
@pytest.mark.parametrize("docs, averaged", [("all", "all_documents"), ("with-gold", "documents_with_gold_of_the_type")])
def test_meng_convention(tmp_path, capsys, block, tokens, split, docs, averaged):
    options = "--convention", "meng", "--tokens", tokens, "--docs", docs
    result = run(tmp_path, capsys, block, *options)
    expected = GOLDEN["blocks"][block]["expected"]["memray"][split]
    averages = {key: value for key, value in expected.items() if key.startswith("avg_")}
    assert differences(result, expected[averaged] | averages, 1e-7) == []


@pytest.mark.parametrize("block", BLOCKS)
def test_each_document(tmp_path, capsys, block):
    path = tmp_path / "details.jsonl"
    run(tmp_path, capsys, block, "--per-document", str(path))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record, document in zip(records, GOLDEN["blocks"][block]["documents"], strict=True):
        expected = document["expected_exhird"]
        assert record["dup_ratio"] == pytest.approx(expected["dup_ratio"])
        for kind in ("present", "absent"):
            assert {"gold": record[kind]["gold"], "matched": record[kind]["matched"]} == expected[kind]


@pytest.mark.parametrize("convention", ["exhird", "chan", "meng"])
@pytest.mark.parametrize("block", BLOCKS)
def test_tags_do_not_matter(tmp_path, capsys, block, convention):
    scores = [run(tmp_path, capsys, block, "--convention", convention, tagged=t)["systems"][0] for t in (True, False)]
    for key in ("present", "absent", "total", "dup_ratio", "num_present", "num_absent"):
        assert scores[0][key] == scores[1][key]
