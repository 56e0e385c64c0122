"""How to read whole articles with a model that was trained on abstracts: their beginning, all at once, or in parts.

    python tools/studies/article_study.py --model folder --input articles.jsonl.gz --documents 70

Records have title, abstract, body and keywords. The whole article is the source that phrases are present in.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import evaluate
from onmt_exhird.generator.api import KeyphraseGenerator
from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.loading import load
from onmt_exhird.records import parse_object, read_records
from onmt_exhird.text import tokenize_phrase

Article = tuple[str, str]  # title, abstract and body
ENDLESS = 10**9  # tokens


def beginning(text: Article, size: int) -> Article:
    """As much of an article as a model has been trained to read."""
    document = read_document(text)
    if len(document.tokens) <= size:
        return text
    title, _ = text
    return title, document.text[len(title) + 1 : document.spans[size - 1][1]]


def study(model: str, articles: Sequence[Article]) -> dict[str, tuple[list[str], float]]:
    """What each way of reading gives: the phrases of each article, a line each, and the CPU seconds of one article."""
    trained = load(model)
    plain, whole = (KeyphraseGenerator(one) for one in (trained, replace(trained, max_source=ENDLESS)))
    ways: dict[str, Callable[[], list[str]]] = {
        "beginning": lambda: lines(plain, [beginning(text, trained.max_source) for text in articles]),
        "all at once": lambda: lines(whole, articles),
        "in parts": lambda: lines(plain, articles),
    }
    found = {}
    for name, way in ways.items():
        begin = time.process_time()
        written = way()
        found[name] = written, (time.process_time() - begin) / len(articles)
    return found


def lines(generator: KeyphraseGenerator, articles: Sequence[Article]) -> list[str]:
    return [" ; ".join(" ".join(tokenize_phrase(text)) for text in one.texts) for one in generator.generate(articles)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="M", help="a model folder or a .pt of onmt_train")
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="records of whole articles")
    parser.add_argument("--documents", type=int, metavar="N", help="only the first ones")
    args = parser.parse_args(argv)
    try:
        records = [parse_object(raw.json) for raw in islice(read_records(args.input), args.documents)]
        articles = [(one["title"], f"{one['abstract']}\n{one['body']}") for one in records]
        gold = [" ; ".join(" ".join(tokenize_phrase(phrase)) for phrase in one["keywords"]) for one in records]
        found = study(args.model, articles)
    except ExhirdError as error:
        print(f"article_study.py: error: {error}", file=sys.stderr)
        return 2
    except KeyError as error:
        print(f"article_study.py: error: {args.input}: a record has no {error}", file=sys.stderr)
        return 2
    sources = [" ".join(read_document(text).tokens) for text in articles]
    scores = evaluate(sources, gold, {name: written for name, (written, _) in found.items()})
    print(f"{'read':12}  {'F1@5':>6}  {'F1@M':>6}  {'phrases':>7}  {'CPU s':>6}")
    for name, (_, seconds) in found.items():
        row = scores[name]
        count = row["num_present"] + row["num_absent"]
        print(f"{name:12}  {row['present/F1@5']:6.4f}  {row['present/F1@M']:6.4f}  {count:7.2f}  {seconds:6.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
