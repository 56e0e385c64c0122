"""Word embeddings to start a training from: a skip-gram (Mikolov et al., 2013) of the training documents themselves.

    python recipes/science/skipgram.py --src data/train.src --vocab vocab.txt --size 30000 --output skipgram.txt
    onmt_train ... -both_embeddings skipgram.txt -embeddings_type GloVe

Needs gensim, which is no dependency of the project: ``pip install gensim`` into an environment of its own. With one
job the same documents give the same vectors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random

SPECIAL = ("<unk>", "<s>", "</s>")  # OpenNMT-py's own, which no vocabulary file has
SCALE = 0.1  # root mean square of a component; the other parameters start in [-0.1, 0.1]

Vectors = Mapping[str, Sequence[float]]


def train(src: Path, width: int, passes: int, jobs: int, seed: int) -> Vectors:
    """The vectors of all words that occur often enough to have one."""
    try:
        from gensim.models import Word2Vec
    except ImportError:
        sys.exit("skipgram.py needs gensim: run 'pip install gensim', best in an environment of its own")
    model = Word2Vec(
        corpus_file=str(src), sg=1, vector_size=width, window=5, negative=5, sample=1e-4, min_count=20, epochs=passes,
        workers=jobs, seed=seed,
    )  # fmt: skip
    return {word: model.wv[word].tolist() for word in model.wv.index_to_key}


def lines(words: Sequence[str], vectors: Vectors, width: int, seed: int) -> Iterator[str]:
    """A line for each word: its vector, made as small as other parameters; a random one where it has none.

    OpenNMT-py would give the latter zeros, all the same: tags and ``;`` among them, which are in no document.
    """
    known = [vectors[word] for word in words if word in vectors]
    squares = sum(x * x for vector in known for x in vector) / max(1, width * len(known))
    factor, random = SCALE / max(squares, 1e-12) ** 0.5, Random(seed)
    for word in words:
        if word in vectors:
            vector = [factor * x for x in vectors[word]]
        else:
            vector = [random.uniform(-SCALE, SCALE) for _ in range(width)]
        yield " ".join([word, *(f"{x:.5f}" for x in vector)])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--src", type=Path, required=True, metavar="FILE", help="training documents, a line each, tokenised")
    add("--vocab", type=Path, required=True, metavar="FILE", help="of onmt_build_vocab, most frequent words first")
    add("--size", type=int, required=True, metavar="N", help="words of it that the model will have")
    add("--output", type=Path, required=True, metavar="FILE", help="for -both_embeddings, in the format of GloVe")
    add("--width", type=int, default=100, metavar="N", help="of a vector: -word_vec_size (default 100)")
    add("--passes", type=int, default=2, metavar="N", help="over the documents (default 2)")
    add("--jobs", type=int, default=1, metavar="N", help="threads (default 1)")
    add("--seed", type=int, default=1, metavar="N")
    args = parser.parse_args(argv)
    with args.vocab.open(encoding="utf-8") as file:
        words = [*SPECIAL, *(line.split("\t")[0].rstrip("\n") for line in islice(file, args.size))]
    vectors = train(args.src, args.width, args.passes, args.jobs, args.seed)
    with args.output.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines(words, vectors, args.width, args.seed))
    print(f"{sum(word in vectors for word in words):,} of {len(words):,} words have a vector: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
