"""``exhird prepare`` and ``exhird evaluate``, measured as a user runs them, beside `reference_text.py`."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from benchmarks import reference_text
from benchmarks.clock import clock, exhird, say
from benchmarks.documents import Document, Shape, make_documents

from onmt_exhird.stream import render


def documents_of(args: Namespace, count: int) -> Iterator[Document]:
    return islice(make_documents(Shape(args.vocab, args.source, args.target), args.seed), count)


def bench_prepare(args: Namespace) -> dict[str, Any]:
    """Raw records to ``train.src`` and ``train.tgt``, with as many jobs as threads."""
    count = args.documents or 3000
    say(f"writing {count:,} records")
    with open("records.jsonl", "w") as records:
        records.writelines(f"{document.record()}\n" for document in documents_of(args, count))
    command = ["prepare", "--input", "records.jsonl", "--output", "data", "--split", "train", "--no-shuffle"]
    command += ["--jobs", str(args.threads)]
    say("warming up")
    exhird(*command)
    measured = args.clock.repeat_in_children(lambda: exhird(*command), count)
    if args.no_reference:
        return measured.report(None)
    say("the plain implementation, the same records")
    plain = clock(lambda: reference_text.prepare(Path("records.jsonl"), Path("plain.src"), Path("plain.tgt")))
    same = all(Path(f"data/train.{side}").read_bytes() == Path(f"plain.{side}").read_bytes() for side in ("src", "tgt"))
    return measured.report(plain.cpu / measured.median.cpu) | {"same_as_reference": same}


def predict(document: Document, following: Document) -> str:
    """A prediction that is right in part: half of a document's phrases, half of another's."""
    right, wrong = document.phrases[::2], following.phrases[::2]
    return render([*right, *wrong])


def bench_evaluate(args: Namespace) -> dict[str, Any]:
    """One system's predictions against gold."""
    count = args.documents or 3000
    say(f"writing {count:,} documents and predictions")
    # One at a time: a child's memory is counted from its parent's.
    with open("test.src", "w") as src, open("test.tgt", "w") as tgt, open("test.pred", "w") as pred:
        for document, following in pairwise(documents_of(args, count + 1)):
            src.write(f"{document.source_line}\n")
            tgt.write(f"{document.target_line}\n")
            pred.write(f"{predict(document, following)}\n")
    command = ["evaluate", "--src", "test.src", "--gold", "test.tgt", "--pred", "test.pred", "--format", "json"]
    say("warming up")
    scores = json.loads(exhird(*command))["systems"][0]
    measured = args.clock.repeat_in_children(lambda: exhird(*command), count)
    if args.no_reference:
        return measured.report(None)
    say("the plain implementation, the same documents")
    found: dict[str, float] = {}
    with open("test.src") as src, open("test.tgt") as tgt, open("test.pred") as pred:
        plain = clock(lambda: found.update(reference_text.f1_at_m(src, tgt, pred)))
    same = all(abs(scores[kind]["F1@M"] - value) < 1e-9 for kind, value in found.items())
    return measured.report(plain.cpu / measured.median.cpu) | {"same_as_reference": same}
