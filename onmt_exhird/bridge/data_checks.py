"""What is wrong with the data files is said before any work starts.

In a run that uses the plug-in it is an error. Any other run goes on as upstream would, after a warning.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from onmt_exhird import stream
from onmt_exhird.bridge import texts
from onmt_exhird.bridge.options import nearest, unknown
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.usage import KEYPHRASE_DECODERS, refuse_or_warn, uses_the_plug_in
from onmt_exhird.errors import ExhirdError

LONGEST = 10_000  # tokens of a source, 25 times as many as the paper allows
LIMITING = {"keyphrase", "filtertoolong"}  # transforms that leave out what is too long

# What a corpus of the `data` section may hold: the keys OpenNMT-py and its transforms read.
CORPUS_KEYS = frozenset(
    "path_src path_tgt path_txt path_align transforms weight src_prefix tgt_prefix src_suffix tgt_suffix "
    "src_lang tgt_lang penn norm_quote_commas norm_numbers pre_replace_unicode_punct post_remove_control_chars "
    "src_eq_tgt same_char same_word scripts_ok scripts_nok src_tgt_ratio avg_tok_min avg_tok_max langid".split()
)


class MissingFileError(ExhirdError, OSError):
    """Upstream raises an `OSError` here."""


def count_lines(path: str) -> int:
    """The number of lines; a last one without a line break counts."""
    count, last = 0, b"\n"
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                count += chunk.count(b"\n")
                last = chunk[-1:]
    except OSError as error:
        raise ExhirdError(f"cannot read {path}: {error.strerror}") from None
    return count + (last != b"\n")


def check_same_length(src: str, tgt: str, refuse: bool) -> int:
    """Sources and targets belong together line by line; returns how many of them there are."""
    src_lines, tgt_lines = count_lines(src), count_lines(tgt)
    if src_lines != tgt_lines:
        refuse_or_warn(
            refuse,
            f"{src} has {src_lines} lines and {tgt} has {tgt_lines}: each line of one needs its line of the other",
        )
    return min(src_lines, tgt_lines)


def check_utf8(path: str, refuse: bool = True) -> None:
    """Text is UTF-8; upstream stops with a stack trace when it comes to a line that is not."""
    try:
        for _ in each_line(path):
            pass
    except ExhirdError as error:
        refuse_or_warn(refuse, str(error))


def each_line(path: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; one that is no UTF-8 is an error."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                reason = f"byte 0x{line[error.start]:02x} at {error.start + 1}"
                raise ExhirdError(f"{path}, line {number} is not UTF-8: {reason}; convert the file") from None


def check_streams(path: str) -> None:
    """Every target line is a stream."""
    for number, line in each_line(path):
        try:
            stream.parse(line)
        except stream.StreamError as error:
            raise ExhirdError(
                f"{path}, line {number}: {error} (a target is written '{stream.PRESENT} word word {stream.END}')"
            ) from None


def check_longest(path: str) -> None:
    """No source is so long that memory for it, and for all that are in a batch with it, is a matter of luck."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if len(line) >= 2 * LONGEST and (tokens := len(line.split())) > LONGEST:
                raise ExhirdError(
                    f"{path}, line {number} has {tokens:,} tokens, and a batch takes memory for as many of each of its "
                    "documents: leave such ones out with 'exhird prepare --max-source N', or say what is too long with "
                    "-transforms filtertoolong -src_seq_length N"
                )


def check_keys(name: str, corpus: dict[str, Any], refuse: bool) -> None:
    for key in corpus:
        if key not in CORPUS_KEYS:
            refuse_or_warn(refuse, f"unknown key '{key}' in data/{name}{nearest(key, CORPUS_KEYS)}")


def begins_with_a_stream(path: str) -> bool:
    """Whether targets look like keyphrases."""
    with open(path, "rb") as file:
        return file.readline().split()[:1] in [[tag.encode()] for tag in stream.TAGS]


def check_corpus(corpus: dict[str, Any], needs_streams: bool, refuse: bool) -> None:
    src, tgt = corpus.get("path_src"), corpus.get("path_tgt")
    if not src or not tgt or src == tgt:  # for language models
        return
    refuse = refuse or begins_with_a_stream(tgt)
    if not check_same_length(src, tgt, refuse):
        refuse_or_warn(refuse, f"{src} has no lines")
    for path in (src, tgt):
        check_utf8(path, refuse)
    if needs_streams:
        check_streams(tgt)
        if not LIMITING & set(corpus["transforms"]):
            check_longest(src)


def check_training_files(parse: Upstream) -> None:
    """Upstream ignores unknown keys, and trains on the shorter of two files of unequal length.

    It says of a missing file what it is for but not its name, and of an unknown transform not which there are.
    """
    parser_class = parse.ArgumentParser
    validate_data, validate_transforms = parser_class._validate_data, parser_class._validate_transforms_opts

    def exists(path: str, info: str) -> None:
        if not os.path.isfile(path):
            raise MissingFileError(f"there is no file {path} ({info})")

    def known_transforms(opt: Namespace) -> None:
        for name in opt._all_transform:
            if name not in parse.AVAILABLE_TRANSFORMS:
                raise unknown("transform", name, parse.AVAILABLE_TRANSFORMS)
        validate_transforms(opt)
        texts.check_transforms(opt)

    def checked(opt: Namespace) -> None:
        import yaml

        refuse = uses_the_plug_in(vars(opt))
        for name, corpus in yaml.safe_load(opt.data).items():
            check_keys(name, corpus, refuse)
        validate_data(opt)
        writes_streams = getattr(opt, "decoder_type", "") in KEYPHRASE_DECODERS
        needs_streams = writes_streams or getattr(opt, "exclusive_loss_window", 0) > 0
        for corpus in opt.data.values():
            check_corpus(corpus, needs_streams or "keyphrase" in corpus["transforms"], refuse)

    parser_class._validate_data = staticmethod(checked)
    parser_class._validate_file = staticmethod(exists)
    parser_class._validate_transforms_opts = staticmethod(known_transforms)


def files_that_stay_as_they_are(dynamic_iterator: Upstream) -> None:
    """Upstream opens training files anew for each pass, whatever has become of them since the first."""
    from onmt.inputters import text_corpus

    corpus = text_corpus.ParallelCorpus
    init, load = corpus.__init__, corpus.load

    def init_with_sizes(self: Any, name: str, *args: Any, **kwargs: Any) -> None:
        init(self, name, *args, **kwargs)
        paths = (self.src, self.tgt, self.align) if name != text_corpus.CorpusName.INFER else ()
        self.sizes = {path: size_of(path) for path in paths if isinstance(path, str)}  # there are lists of lines too

    def check(self: Any) -> None:
        for path, size in self.sizes.items():
            if (now := size_of(path)) != size:
                raise ExhirdError(
                    f"{path} has changed since training began, from {size:,} to {now:,} bytes: restore it, then go on "
                    "with -train_from and the last checkpoint"
                )

    def load_unchanged(self: Any, offset: int = 0, stride: int = 1) -> Iterator[Any]:
        check(self)
        yield from load(self, offset, stride)
        check(self)

    corpus.__init__, corpus.load = init_with_sizes, load_unchanged


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise ExhirdError(f"cannot read {path}: {error.strerror}") from None


def check_files_to_translate(inference_engine: Upstream) -> None:
    """Upstream fails on an empty source file or list, and stops at the end of the shorter of source and target.

    A pipe can be read only once, by upstream.
    """
    engine = inference_engine.InferenceEngine
    infer_file, infer_list = engine.infer_file, engine.infer_list

    def infer_file_if_any(self: Any) -> tuple[list[Any], list[Any]]:
        src, tgt = self.opt.src, self.opt.tgt
        if os.path.exists(src) and not os.path.isfile(src):
            return infer_file(self)
        if not count_lines(src):
            return [], []
        if tgt:
            writes_streams = getattr(getattr(self, "translator", None), "constraint", None) is not None
            check_same_length(src, tgt, refuse=writes_streams)
        return infer_file(self)

    def infer_list_if_any(self: Any, src: list[str]) -> tuple[list[Any], list[Any]]:
        return infer_list(self, src) if src else ([], [])

    engine.infer_file, engine.infer_list = infer_file_if_any, infer_list_if_any


def check_text_to_translate(parse: Upstream) -> None:
    """Upstream stops with a stack trace, in the middle of its work, at bytes that are no text."""
    parser_class = parse.ArgumentParser
    validate = parser_class.validate_translate_opts

    def checked(opt: Namespace) -> None:
        validate(opt)
        for path in (opt.src, opt.tgt):
            if path and os.path.isfile(path):  # in training upstream gives names without files
                check_utf8(path)

    parser_class.validate_translate_opts = staticmethod(checked)
