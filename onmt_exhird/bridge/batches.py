"""Batches with extended ids, and a place in the output for every line of the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from onmt_exhird.bridge import texts
from onmt_exhird.bridge.copying import as_upstream
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import extend_source, extend_target
from onmt_exhird.stream import EOS, PAD, UNK
from onmt_exhird.text import tokenize
from onmt_exhird.textmodel import TextModel

Example = dict[str, Any]
Batch = dict[str, Any]

# Documents that are transformed and looked up together: as words they take thirty times their final room.
_AT_ONCE = 500
# Documents whose order search may change: all of them wait until the last one is decoded.
_SORTED = 4096


def add_extended_ids(vocabs: dict[str, Any], example: Example) -> Example:
    """Give an example its extended ids, of the source and, if it has one, of the target."""
    vocab = vocabs["tgt"]
    lookup, unk_id, size = vocab.lookup_token, vocab.lookup_token(UNK), len(vocab)
    if "feats" not in example["src"]:
        # Cut as streams are read, at any white space: else a copied token could hold a blank or end a line.
        example["src"]["src"] = " ".join(example["src"]["src"].split()) or UNK
    source, words = extend_source(example["src"]["src"].split(" "), lookup, unk_id, size)
    example["src_ext"] = source
    example["src_ex_vocab"] = words
    if example["tgt"] is not None:
        target = [vocabs["decoder_start_token"], *example["tgt"]["tgt"].split(" "), EOS]
        example["tgt_ext"] = extend_target(target, lookup, unk_id, words, size)
    return example


def add_extended_tensors(batch: Batch, examples: Sequence[Example], pad_id: int) -> None:
    """Put into a batch ``src_map (batch, src_len)``, ``tgt_ext (batch, tgt_len)`` and the words they speak of.

    The k-th word of a document's list in ``src_ex_vocab`` has the extended id V + k. Under this name of upstream's
    it is not moved to a device.
    ``src_map`` holds extended ids. It has the name of upstream's one-hot map because what upstream does
    with a map of that name, tiling it over the beam and dropping finished documents, is right for it.
    """
    if "src_ext" not in examples[0]:
        return

    def padded(key: str) -> Tensor:
        rows = [torch.tensor(example[key], dtype=torch.long) for example in examples]
        return pad_sequence(rows, batch_first=True, padding_value=pad_id).to(batch["src"].device)

    batch["src_map"] = padded("src_ext")
    batch["src_ex_vocab"] = [example["src_ex_vocab"] for example in examples]
    if "tgt_ext" in examples[0]:
        batch["tgt_ext"] = padded("tgt_ext")


def extended_size(vocab_size: int, batch: Batch) -> int:
    """How many extended ids the documents of a batch have."""
    return vocab_size + max(map(len, batch["src_ex_vocab"]))


def keep_blank(example: Example) -> Example:
    """A document without a word is decoded as one unknown word, and its output then blanked."""
    if not example["src"]["src"].strip():
        example["src"]["src"] = UNK
        example["blank"] = True
    return example


def slim(example: Example) -> Example:
    """Keep of an example that has its ids what batches are made of: a bucket of them waits for its turn.

    A list of numbers takes up to ten times the room of an array. The words before the transforms are for these only.
    """
    for key in ("src_original", "tgt_original"):
        example.pop(key, None)
    for key in ("src_ext", "tgt_ext"):
        if key in example:
            example[key] = np.array(example[key], dtype=np.int32)
    source = example["src"]
    source["src_ids"] = np.array(source["src_ids"], dtype=np.int32)
    if "feats" in source:
        source["feats"] = [np.array(ids, dtype=np.int32) for ids in source["feats"]]
    if example["tgt"] is not None:  # the words of the target are in no batch; those of the source tell twins apart
        example["tgt"] = {"tgt_ids": np.array(example["tgt"]["tgt_ids"], dtype=np.int32)}
    return example


def extended_ids_instead_of_source_maps(text_utils: Upstream) -> None:
    """Upstream fills a dense one-hot map element by element, and looks every word up in Python per batch.

    Its server makes batches without anything to copy from.
    """
    tensorify, numericalize = text_utils.tensorify, text_utils.numericalize
    add_source_map, stock_textbatch_to_tensor = text_utils._addcopykeys, text_utils.textbatch_to_tensor

    def add_what_is_copied(vocabs: dict[str, Any], example: Example) -> Example:
        return add_source_map(vocabs, example) if as_upstream(vocabs) else add_extended_ids(vocabs, example)

    def tensorify_extended(
        vocabs: dict[str, Any], minibatch: Sequence[tuple[Example, int]], device: Any, left_pad: bool = False
    ) -> Batch:
        batch = tensorify(vocabs, minibatch, device, left_pad)
        examples = [example for example, _ in minibatch]
        add_extended_tensors(batch, examples, vocabs["tgt"].lookup_token(PAD))
        batch["blank"] = torch.tensor([example.get("blank", False) for example in examples], device=device)
        return batch

    def textbatch_to_tensor(
        vocabs: dict[str, Any], batch: Sequence[Example], device: Any, is_train: bool = False
    ) -> list[tuple[Batch, int]]:
        if as_upstream(vocabs):
            return stock_textbatch_to_tensor(vocabs, batch, device, is_train)
        rows = []
        text = texts.noted(vocabs)
        raw = text != TextModel()  # a server has no transforms
        for index, example in enumerate(batch):
            example.update(cid="text", cid_line_number=index, align=None)
            if raw:
                example["src"]["src"] = " ".join(text.cut(tokenize(example["src"]["src"], text.rules)))
            rows.append((numericalize(vocabs, add_extended_ids(vocabs, keep_blank(example))), index))
        return [(tensorify_extended(vocabs, rows, device), 0)]

    text_utils._addcopykeys = add_what_is_copied
    text_utils.tensorify = tensorify_extended
    text_utils.textbatch_to_tensor = textbatch_to_tensor


def a_line_out_for_each_line_in(dynamic_iterator: Upstream) -> None:
    """Upstream's iterator took its own references to the names above, and drops blank source lines.

    In inference a blank line now holds its place; a bucket of which nothing is left is no longer an error.
    """
    from onmt.constants import CorpusTask
    from onmt.inputters import text_utils

    build = dynamic_iterator.build_dynamic_dataset_iter

    def process(task: str, bucket: Sequence[Any], **kwargs: Any) -> list[Example]:
        if task != CorpusTask.INFER:
            return text_utils.process(task, bucket, **kwargs) or []
        _, transform, corpus = bucket[0]  # inference reads one corpus through one transform
        transformed = transform.batch_apply(bucket, is_train=False, corpus_name=corpus)
        if len(transformed) != len(bucket):
            raise ExhirdError(f"a transform dropped {len(bucket) - len(transformed)} of the documents to translate")
        return [keep_blank(text_utils.clean_example(example)) for example, _, _ in transformed]

    def build_with_extended_ids(opt: Any, transforms_cls: Any, vocabs: dict[str, Any], **kwargs: Any) -> Any:
        """In inference upstream leaves out what there is to copy from, and writes nothing for 16,384 documents."""
        if kwargs.get("task") != CorpusTask.INFER:
            return build(opt, transforms_cls, vocabs, **kwargs)
        if as_upstream(vocabs):
            iterator = build(opt, transforms_cls, vocabs, **kwargs)
            iterator.task = CorpusTask.VALID  # to upstream the same from here on, to `process` documents of upstream's
            return iterator
        iterator = build(opt, transforms_cls, vocabs, **kwargs | {"copy": True})
        iterator.bucket_size = max(_SORTED, iterator.batch_size)
        return iterator

    dynamic_iterator.build_dynamic_dataset_iter = build_with_extended_ids
    dynamic_iterator._addcopykeys = text_utils._addcopykeys
    dynamic_iterator.tensorify = text_utils.tensorify
    dynamic_iterator.process = process


def buckets_that_need_little_room(dynamic_iterator: Upstream) -> None:
    """Upstream holds a whole bucket as words, twice, before it looks any of them up, and then as lists of numbers.

    Without that training took 1,086 MB instead of 1,831 (docs/speed.md).
    """
    iterator = dynamic_iterator.DynamicDatasetIter

    def read_bucket(self: Any, documents: Iterator[Any], size: int) -> tuple[list[Example], int]:
        """The examples that become of the next documents, at most so many; and how many documents were read."""
        bucket: list[Example] = []
        read = 0
        while words := list(islice(documents, min(_AT_ONCE, size - read))):
            read += len(words)
            bucket += map(slim, self._tuple_to_json_with_tokIDs(words))
        return bucket, read

    def bucketing(self: Any) -> Iterator[tuple[list[Example], int]]:
        size = self.first_size or (self.bucket_size_init if self.bucket_size_init > 0 else self.bucket_size)
        documents = iter(self.mixer)
        while True:
            bucket, read = self._read_bucket(documents, size)
            if read:
                yield bucket, self.bucket_idx
            for example in bucket:  # all are in batches by now, but upstream's loop still holds them
                example.clear()
            if read < size:
                return
            self.bucket_idx += 1
            size = size + self.bucket_size_increment if size < self.bucket_size else self.bucket_size

    iterator.first_size = 0  # of a training that goes on: that of the bucket in which it stopped
    iterator._read_bucket = read_bucket
    iterator._bucketing = bucketing
