"""Buckets that need little room hold what upstream's hold, in its order, and the C library keeps what is freed."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyonmttok
import pytest
import torch
from onmt.constants import CorpusTask
from onmt.inputters import dynamic_iterator, text_utils
from onmt.inputters.text_corpus import ParallelCorpus
from onmt.transforms import TransformPipe

from onmt_exhird.bridge import batches, memory

WORDS = "<unk> <blank> <s> </s> <p_start> <a_start> ; a b c d".split()
SOURCES = ["a b zuvoka", "d", "b b c d a", "c poliku c", "a d", "b a c c", "zuvoka"]
TARGETS = ["<p_start> zuvoka ;", "<a_start> c ;", "<p_start> d a ; <a_start> lost ;", "", "b ;", "c ; a ;", "zuvoka ;"]
BAR = "\N{HALFWIDTH FORMS LIGHT VERTICAL}"  # between a word and its feature


@pytest.fixture
def vocabs() -> dict[str, Any]:
    vocab = pyonmttok.build_vocab_from_tokens(WORDS)
    vocab.default_id = 0
    feature = pyonmttok.build_vocab_from_tokens(["<unk>", "<blank>", "X", "Y"])
    feature.default_id = 0
    return {"src": vocab, "tgt": vocab, "src_feats": [feature], "data_task": "seq2seq", "decoder_start_token": "<s>"}


def make_iterator(vocabs: dict[str, Any], sources: list[str], size: int, task: str = CorpusTask.VALID, **more: Any):
    features = sum(BAR in source for source in sources[:1])
    corpus = ParallelCorpus("valid", sources, TARGETS, n_src_feats=features)
    iterator = dynamic_iterator.DynamicDatasetIter(
        {"valid": corpus},
        {"valid": {"weight": 1}},
        {},
        vocabs,
        task,
        "sents",
        2,
        1,
        bucket_size=size,
        copy=True,
        **more,
    )
    iterator.num_workers = 0
    iterator._init_datasets(0)
    return iterator


def expected_buckets(vocabs: dict[str, Any], sizes: list[int]) -> list[list[dict[str, Any]]]:
    """What the whole bucket, looked up at once, holds."""
    rows = list(zip(SOURCES, TARGETS, strict=True))
    found = []
    for size in sizes:
        taken, rows = rows[:size], rows[size:]
        words = [
            ({"src": source.split(" "), "tgt": target.split(" "), "cid": "valid"}, TransformPipe([], []), "valid")
            for source, target in taken
        ]
        examples = text_utils.process(CorpusTask.VALID, words)
        found.append([text_utils.numericalize(vocabs, batches.add_extended_ids(vocabs, one)) for one in examples])
    return found


def listed(examples: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            one["src"]["src"],
            list(one["src"]["src_ids"]),
            list(one["tgt"]["tgt_ids"]),
            list(one["src_ext"]),
            list(one["tgt_ext"]),
            one["src_ex_vocab"],
        )
        for one in examples
    ]


@pytest.mark.parametrize("at_once", [1, 2, 3, 500])
@pytest.mark.parametrize(
    "size, more, sizes",
    [
        (7, {}, [7]),
        (3, {}, [3, 3, 1]),
        (20, {}, [7]),
        (4, {"bucket_size_init": 1, "bucket_size_increment": 2}, [1, 3, 3]),
    ],
)
def test_buckets_are_those_of_upstream_however_few_documents_are_looked_up_at_once(
    vocabs: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    size: int,
    more: dict[str, int],
    sizes: list[int],
) -> None:
    monkeypatch.setattr(batches, "_AT_ONCE", at_once)
    found = [(listed(bucket), number) for bucket, number in make_iterator(vocabs, SOURCES, size, **more)._bucketing()]
    assert [number for _, number in found] == list(range(len(sizes)))
    assert [bucket for bucket, _ in found] == [listed(one) for one in expected_buckets(vocabs, sizes)]


def test_a_batch_of_slim_examples_is_that_of_full_ones(vocabs: dict[str, Any]) -> None:
    full = [(example, index) for index, example in enumerate(expected_buckets(vocabs, [7])[0])]
    for index, (example, _) in enumerate(full):
        example["cid_line_number"] = index
    expected = text_utils.tensorify(vocabs, full, torch.device("cpu"))
    found = text_utils.tensorify(vocabs, [(batches.slim(one), index) for one, index in full], torch.device("cpu"))
    for key in ("src", "srclen", "tgt", "tgtlen", "src_map", "tgt_ext"):
        assert found[key].dtype == torch.long
        assert torch.equal(found[key], expected[key]), key


def test_an_example_in_a_bucket_holds_no_lists_of_words_or_numbers(vocabs: dict[str, Any]) -> None:
    bucket, _ = next(make_iterator(vocabs, SOURCES, 7)._bucketing())
    for example in bucket:
        assert not {"src_original", "tgt_original"} & set(example)
        arrays = [example["src"]["src_ids"], example["tgt"]["tgt_ids"], example["src_ext"], example["tgt_ext"]]
        assert all(isinstance(ids, np.ndarray) and ids.dtype == np.int32 for ids in arrays)


def test_nothing_is_left_of_a_bucket_when_the_next_is_filled(vocabs: dict[str, Any]) -> None:
    buckets = make_iterator(vocabs, SOURCES, 4)._bucketing()
    first, _ = next(buckets)
    next(buckets)
    assert first == [{}] * 4


def test_features_of_source_words_survive(vocabs: dict[str, Any]) -> None:
    marked = [" ".join(f"{word}{BAR}{'XY'[word == 'a']}" for word in source.split()) for source in SOURCES]
    first, _ = next(iter(make_iterator(vocabs, marked, 7)))
    x, y = (vocabs["src_feats"][0][name] for name in "XY")
    assert first["src"][:, :, 1].tolist() == [[x], [x]]  # "d" and "zuvoka"
    *_, (last, _) = make_iterator(vocabs, marked, 7)
    assert last["src"][0, :, 1].tolist() == [x, x, x, x, y]


def test_a_source_in_a_training_batch_twice_is_still_left_out(vocabs: dict[str, Any]) -> None:
    iterator = iter(make_iterator(vocabs, ["a b"] * 6 + ["c d"], 7, CorpusTask.TRAIN))
    for batch, _ in islice(iterator, 4):
        rows = batch["src"][:, :, 0].tolist()
        assert len(set(map(tuple, rows))) == len(rows)


@pytest.mark.parametrize("device, told", [(-1, [True]), (0, [])])
def test_the_c_library_is_told_to_keep_memory_by_a_trainer_on_a_cpu_only(
    monkeypatch: pytest.MonkeyPatch, device: int, told: list[bool]
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(memory, "keep_freed_memory", lambda: calls.append(True))
    trainer = SimpleNamespace(build_trainer=lambda opt, device_id, *rest, **named: (opt, device_id, rest, named))
    memory.trainer_that_keeps_freed_memory(trainer)
    assert trainer.build_trainer("opt", device, "model", model_saver=None) == (
        "opt",
        device,
        ("model",),
        {"model_saver": None},
    )
    assert calls == told


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("was called"))
    assert not memory.keep_freed_memory()


@pytest.mark.skipif(memory.platform.libc_ver()[0] != "glibc", reason="glibc only")
def test_a_freed_block_stays_with_the_process() -> None:
    program = """
import ctypes
from onmt_exhird.bridge.memory import keep_freed_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def use_and_free(size):
    c = ctypes.CDLL(None)
    c.malloc.restype = ctypes.c_void_p
    block = c.malloc(ctypes.c_size_t(size))
    ctypes.memset(block, 1, size)
    c.free(ctypes.c_void_p(block))
size = 50_000_000
begin = resident()
use_and_free(size)
assert resident() - begin < size / 2
assert keep_freed_memory()
use_and_free(size)
assert resident() - begin > size / 2
use_and_free(size)
assert resident() - begin < size * 1.5
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
