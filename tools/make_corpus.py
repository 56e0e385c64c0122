"""Make a small corpus of scientific-looking documents whose keyphrases can be learned.

    python tools/make_corpus.py --output corpus --train 4000 --valid 200 --test 200 --seed 1

Each file is JSON lines with ``id, title, abstract, keywords``, as ``exhird prepare`` reads them. Every document is a
function of seed, split and number alone, so a longer corpus begins with the shorter one. What there is to learn:

- A term is a keyphrase where the text introduces it ("we present a ..."), not where it only mentions it ("unlike ...").
- An invented name belongs to a keyphrase and occurs in hardly any other document: a model has to copy it.
- The field of the document's first term is an absent keyphrase, unless the document is a mere note.
- The purpose that a sentence describes is an absent keyphrase, in words that the text does not use.

With ``--language de`` or ``zh`` the documents are German-like or Chinese-like (other_languages.py).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import other_languages

# Field: words that begin its terms, words that end them, terms of one word. No word begins terms of two fields.
FIELDS: dict[str, tuple[str, str, str]] = {
    "machine learning": (
        "bayesian,boosted,contrastive,residual,kernel,low-rank,self-supervised,generative adversarial",
        "classifier,ensemble,embedding,regressor",
        "backpropagation,dropout,perceptron",
    ),
    "computer vision": (
        "stereo,panoramic,thermal,monocular,saliency,optical-flow,depth,active contour",
        "camera,tracker,descriptor,detector",
        "binarization,superpixel,photogrammetry",
    ),
    "information retrieval": (
        "inverted,cross-lingual,federated,lexical,faceted,phrase,passage,latent topic",
        "index,ranker,snippet,crawler",
        "tokenization,summarization,relevance",
    ),
    "wireless communication": (
        "cognitive,multi-hop,millimetre,cooperative,orthogonal,full-duplex,spread,phased array",
        "antenna,relay,beamformer,modulator",
        "handover,multipath,interferometry",
    ),
    "computer security": (
        "elliptic,lattice,homomorphic,zero-knowledge,threshold,biometric,tamper-proof,public key",
        "cipher,signature,watermark,authenticator",
        "steganography,malware,phishing",
    ),
    "operations research": (
        "mixed-integer,stochastic,bilevel,robust,two-stage,multi-objective,cutting,column generation",
        "program,heuristic,planner,knapsack",
        "scheduling,simplex,logistics",
    ),
    "software engineering": (
        "symbolic,incremental,aspect,refactoring,mutation,type-safe,bytecode,abstract syntax",
        "compiler,debugger,verifier,profiler",
        "inheritance,middleware,recursion",
    ),
    "database systems": (
        "columnar,temporal,replicated,write-ahead,relational,sharded,hash,materialized view",
        "store,join,transaction,cache",
        "concurrency,deduplication,provenance",
    ),
    "robotics": (
        "legged,underwater,soft,compliant,tendon,six-axis,aerial,sliding mode",
        "manipulator,gripper,controller,exoskeleton",
        "odometry,teleoperation,kinematics",
    ),
    "bioinformatics": (
        "genomic,protein,phylogenetic,codon,single-cell,regulatory,splice,mass spectrometry",
        "alignment,marker,motif,assay",
        "transcriptomics,methylation,haplotype",
    ),
    "numerical analysis": (
        "finite,adaptive,spectral,implicit,multigrid,symplectic,mesh-free,conjugate gradient",
        "solver,integrator,preconditioner,stencil",
        "extrapolation,quadrature,interpolation",
    ),
    "speech processing": (
        "phonetic,prosodic,cepstral,hidden markov,acoustic,text-to-speech,far-field,vocal tract",
        "recognizer,vocoder,synthesizer,lexicon",
        "diarization,formant,dereverberation",
    ),
}
# Purpose: what a sentence says in other words.
PURPOSES: dict[str, tuple[str, str]] = {
    "fault detection": ("it tells when a part is about to break", "it warns before the plant goes down"),
    "energy saving": ("it lets a battery last for days", "it draws far less power"),
    "privacy protection": ("it reveals nothing about any person", "it keeps the identity of users secret"),
    "medical diagnosis": ("it helps doctors to find a disease early", "it tells ill patients from healthy ones"),
    "traffic control": ("it shortens the queues at busy crossings", "it guides cars around jams"),
    "weather forecasting": ("it predicts rain a week ahead", "it says where a storm will go"),
    "machine translation": ("it renders french news in german", "it turns foreign letters into plain english"),
    "electronic commerce": ("it shows buyers what else they may want", "it sets prices in online shops"),
    "distance education": ("it lets pupils take courses from home", "it marks homework sent over the web"),
    "load balancing": ("it spreads requests evenly over servers", "it moves jobs away from crowded machines"),
    "noise reduction": ("it removes hum and hiss", "it cleans badly disturbed signals"),
    "quality assurance": ("it sorts out defective goods", "it finds flaws before delivery"),
}
SETTINGS = (
    *("remote villages", "small factories", "crowded cities", "old archives", "large hospitals", "public libraries"),
    *("shared offices", "offshore platforms", "rural schools", "mountain railways", "busy harbours", "desert stations"),
)
DATA = ("recordings", "images", "records", "sequences", "benchmark runs", "field samples")

TITLES = ("{key} for {setting}", "A new {key} in {setting}", "From the {other} to the {key}")
FULL = (
    "We present {a_key} for {setting}.",
    "This paper introduces {a_key} that works in {setting}.",
    "In this article, {a_key} for {setting} is proposed.",
)
NOTES = ("This short note sketches {a_key} for {setting}.", "A brief remark on {a_key} in {setting} is made.")
FURTHER = (
    "The method is built on {a_key}.",
    "Its core is {a_key}.",
    "We combine it with {a_key}.",
    "We then extend it by {a_key}.",
)
NAMINGS = ("The result is called the {name}.", "We name it the {name}.")
MENTIONS = (
    "Unlike {plural}, it needs no tuning [{small}].",
    "Earlier studies used {plural} [{small}, {large}].",
    "It needs neither labels nor {a_other}.",
    "This avoids the cost of {plural} {{see Table {small}}}.",
)
CLOSINGS = (
    "On {large} {data} it is {small}.{small}% faster (p < 0.0{small}).",
    "Tests on {large} {data} confirm this.",
    "It fails on {small} of {large} {data}.",
)
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvwxz" for vowel in ("a", "e", "i", "o", "u", "ar", "ol")]


@dataclass(frozen=True)
class Term:
    """A technical term: the words before its last one (which may be none), and the last one."""

    field: str
    start: str
    head: str

    @property
    def text(self) -> str:
        return f"{self.start} {self.head}".strip()

    @property
    def plural(self) -> str:
        """In the plural, where it can be counted: a term of one word cannot."""
        if not self.start:
            return self.text
        return f"{self.text}es" if self.text.endswith("x") else f"{self.text}s"

    @property
    def with_article(self) -> str:
        if not self.start:
            return self.text
        return f"an {self.text}" if self.text[0] in "aeiou" else f"a {self.text}"


def all_terms() -> list[Term]:
    """Every term of every field."""
    terms = []
    for field, (starts, heads, singles) in FIELDS.items():
        terms += [Term(field, start, head) for start in starts.split(",") for head in heads.split(",")]
        terms += [Term(field, "", single) for single in singles.split(",")]
    return terms


TERMS = all_terms()


def pick_keys(random: Random) -> list[Term]:
    """One to three terms to introduce, in a document of one field mostly; some begin with the same word."""
    keys = [random.choice(TERMS)]
    for chance in (0.75, 0.45):
        if random.random() > chance:
            break
        first = keys[0]
        if first.start and random.random() < 0.15:
            choices = [term for term in TERMS if term.start == first.start]
        elif random.random() < 0.7:
            choices = [term for term in TERMS if term.field == first.field and term.start != first.start]
        else:
            choices = [term for term in TERMS if term.field != first.field]
        keys.append(random.choice([term for term in choices if term not in keys]))
    return keys


def pick_mentions(random: Random, keys: list[Term], count: int) -> list[Term]:
    """Terms that the text only mentions; none begins like a keyphrase, so that none is one by chance."""
    starts = {key.start or key.head for key in keys}
    return random.sample([term for term in TERMS if (term.start or term.head) not in starts], count)


def invent_name(random: Random) -> str:
    """A name that is no word: three syllables, ``Trobeza``."""
    return "".join(random.choices(SYLLABLES, k=3)).capitalize()


def as_keyword(random: Random, phrase: str) -> str:
    """A keyphrase as authors write it: now and then with capitals, an acronym or blanks for hyphens."""
    style = random.random()
    if style < 0.15:
        return phrase.title()
    if style < 0.25 and " " in phrase:
        return f"{phrase} ({''.join(word[0] for word in phrase.split()).upper()})"
    if style < 0.4:
        return phrase.replace("-", " ")
    return phrase


def sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def make_document(random: Random) -> dict[str, object]:
    """One record without its id: ``title, abstract, keywords``."""
    keys = pick_keys(random)
    title_mention, *mentions = pick_mentions(random, keys, random.randint(1, 2) + 1)
    slots = {"setting": random.choice(SETTINGS), "data": random.choice(DATA)}
    present = [key.text for key in keys]
    absent = []

    title = random.choice(TITLES).format(key=keys[0].text, other=title_mention.text, **slots)
    is_note = random.random() < 0.25
    opening = random.choice(NOTES if is_note else FULL).format(a_key=keys[0].with_article, **slots)
    if not is_note:
        absent.append(keys[0].field)

    middle = []
    for key, pattern in zip(keys[1:], random.sample(FURTHER, 2), strict=False):
        form = key.plural if random.random() < 0.3 else key.with_article
        middle.append(pattern.format(a_key=form))
    if random.random() < 0.4:
        name = f"{invent_name(random)} {random.choice([key for key in TERMS if key.start]).head}"
        middle.append(random.choice(NAMINGS).format(name=name))
        present.append(name)
    for mention, pattern in zip(mentions, random.sample(MENTIONS, 2), strict=False):
        numbers = {"small": random.randint(2, 9), "large": random.randint(10, 4000)}
        middle.append(pattern.format(plural=mention.plural, a_other=mention.with_article, **numbers))
    if random.random() < 0.6:
        purpose = random.choice(list(PURPOSES))
        middle.append(sentence(random.choice(PURPOSES[purpose])) + ".")
        absent.append(purpose)
    random.shuffle(middle)
    if random.random() < 0.5:
        numbers = {"small": random.randint(2, 9), "large": random.randint(10, 4000)}
        middle.append(random.choice(CLOSINGS).format(**slots, **numbers))

    random.shuffle(present)
    return {
        "title": title.title() if random.random() < 0.5 else sentence(title),
        "abstract": " ".join([opening, *middle]),
        "keywords": [as_keyword(random, phrase) for phrase in present + absent],
    }


def make_split(seed: int, split: str, count: int, language: str = "en") -> list[dict[str, object]]:
    """The first ``count`` records of a split."""
    randoms = [Random(f"{seed} {split} {number}") for number in range(count)]
    documents = (
        make_document(random) if language == "en" else other_languages.make_document(random, language)
        for random in randoms
    )
    return [{"id": f"{split}-{number}", **document} for number, document in enumerate(documents)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Make a small corpus of scientific-looking documents whose keyphrases can be learned.",
        epilog="example: python tools/make_corpus.py --output corpus --train 4000 --valid 200 --test 200 --seed 1",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the three .jsonl files")
    for split, count in (("train", 4000), ("valid", 200), ("test", 200)):
        parser.add_argument(f"--{split}", type=int, default=count, metavar="N", help=f"records (default {count})")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="another seed, another corpus (default 1)")
    languages = ("en", *other_languages.LANGUAGES)
    parser.add_argument("--language", choices=languages, default="en", help="of the documents (default en)")
    args = parser.parse_args()
    try:
        args.output.mkdir(parents=True, exist_ok=True)
        for split in ("train", "valid", "test"):
            records = make_split(args.seed, split, getattr(args, split), args.language)
            lines = "".join(f"{json.dumps(record)}\n" for record in records)
            (args.output / f"{split}.jsonl").write_text(lines, encoding="utf-8", newline="\n")
    except OSError as error:
        print(f"make_corpus.py: error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
