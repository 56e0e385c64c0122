"""How to read whole articles with a model that was trained on abstracts: their beginning, all at once, or in parts.

    python tools/studies/article_study.py --model folder --input articles.jsonl.gz --documents 70

Records have title, abstract, body and keywords. The whole article is the source that phrases are present in.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from onmt_exhird.cli.values import positive
from onmt_exhird.corpus import Unusable
from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import evaluate
from onmt_exhird.generator.api import KeyphraseGenerator
from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.loading import load
from onmt_exhird.records import Keys, parse_object, parse_record, read_records, take_text
from onmt_exhird.text import tokenize_phrase

Article = tuple[str, str]  # title, abstract and body
ENDLESS = 10**9  # tokens


def read_articles(path: Path, count: int | None) -> tuple[list[Article], list[str]]:
    """The articles of a file, all or the first ones, and their authors' keyphrases, a line each."""
    articles, gold = [], []
    for raw in islice(read_records(path), count):
        try:
            title, abstract, keywords = parse_record(raw.json, Keys(text=("abstract",)))
            body = take_text(parse_object(raw.json), ("body",))
        except Unusable as reason:
            raise ExhirdError(f"{raw.place}: {raw.fault or reason}; mend the file") from None
        articles.append((title, f"{abstract}\n{body}"))
        gold.append(as_line(keywords))
    return articles, gold


def as_line(phrases: Iterable[str]) -> str:
    """Keyphrases as the evaluation reads them."""
    return " ; ".join(" ".join(tokenize_phrase(phrase)) for phrase in phrases)


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
    return [as_line(found.texts) for found in generator.generate(articles)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="M", help="a model folder or a .pt of onmt_train")
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="records of whole articles")
    parser.add_argument("--documents", type=positive, metavar="N", help="only the first ones")
    args = parser.parse_args(argv)
    try:
        articles, gold = read_articles(args.input, args.documents)
        found = study(args.model, articles)
    except ExhirdError as error:
        print(f"article_study.py: error: {error}", file=sys.stderr)
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
