"""How far back should exclusive search look? Decode and score with every window K_ES, and draw the curves.

    python tools/window_study.py --model exhird_step_150000.pt --src test.src --gold test.tgt --output study

The table is the paper's (Table 7), for greedy and for beam search. The output folder receives ``window_study.md``,
``.json``, ``.png``, ``.svg``, and in ``predictions/`` what was decoded. A study that was interrupted goes on where it
stopped: what has been decoded with the same checkpoint, documents and settings is not decoded again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoding import Decoder, Setting, Store, decode_all

from onmt_exhird.cli.values import positive
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.evaluation import Evaluation, SystemResult
    from onmt_exhird.evaluation.tables import Table
    from onmt_exhird.stream import Phrase

WINDOWS = ("0", "1", "2", "3", "4", "5", "all")
BEAMS = (1, 4)

GROUPS = (("", 2), ("present", 3), ("absent", 3), ("", 2))

CURVES = (("DupRatio", "dup_ratio"), ("F1@M, present", "present/F1@M"), ("F1@M, absent", "absent/F1@M"))
STYLES = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", ":"), ("#CC79A7", "D", "-."))


def count_changed(predictions: dict[Setting, list[list[Phrase]]]) -> dict[Setting, int]:
    """How many documents' predictions differ from those of the same search with K = 0, where there is that."""
    changed = {}
    without = {setting.beam: lines for setting, lines in predictions.items() if setting.window == 0}
    for setting, lines in predictions.items():
        if setting.beam in without:
            pairs = zip(lines, without[setting.beam], strict=True)
            changed[setting] = sum(line != plain for line, plain in pairs)
    return changed


def make_table(title: str, results: dict[Setting, SystemResult], changed: dict[Setting, int]) -> Table:
    from onmt_exhird.evaluation.layout import gold_number, score_head, score_number
    from onmt_exhird.evaluation.paper import STUDY_KEYS
    from onmt_exhird.evaluation.tables import Table

    table = Table(title, ("search", "K", *map(score_head, STUDY_KEYS), "changed"), GROUPS)
    for setting, result in results.items():
        if table.rows and table.rows[-1][0] != setting.search:
            table.add_rule()
        numbers = [score_number(result, key) for key in STUDY_KEYS]
        table.add(setting.search, setting.label, *numbers, str(changed[setting]) if setting in changed else None)
    table.add_rule()
    of_gold = next(iter(results.values()))
    table.add("(gold)", None, *(gold_number(of_gold, key) for key in STUDY_KEYS), None)
    return table


def draw(results: dict[Setting, SystemResult], title: str, folder: Path) -> None:
    """DupRatio and F1@M over K, a line for each beam size, as PNG and SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # without pyplot it draws with Agg: no display is needed

    windows = list(dict.fromkeys(setting.label for setting in results))
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    figure.suptitle(title)
    for axes, (name, key) in zip(figure.subplots(1, len(CURVES)), CURVES, strict=True):
        for index, beam in enumerate(dict.fromkeys(setting.beam for setting in results)):
            points = {setting: result for setting, result in results.items() if setting.beam == beam}
            colour, marker, line = STYLES[index % len(STYLES)]
            axes.plot(
                [windows.index(setting.label) for setting in points],
                [result[key] for result in points.values()],
                color=colour,
                marker=marker,
                markerfacecolor="none",  # where lines coincide, all are seen
                linestyle=line,
                clip_on=False,
                label=next(iter(points)).search,
            )
        axes.set_title(name, fontsize="medium")
        axes.set_xticks(range(len(windows)), windows)
        axes.set_xlabel("window K")
        axes.margins(y=0.15)
        axes.ticklabel_format(axis="y", useOffset=False)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0 if key == "dup_ratio" else max(0, axes.get_ylim()[0]))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(folder / "window_study.png", dpi=150)
    with rc_context({"svg.hashsalt": "window_study"}):  # the same study, the same file
        figure.savefig(folder / "window_study.svg", metadata={"Date": None})


def to_record(
    evaluation: Evaluation, model: Path, changed: dict[Setting, int], store: Store, settings: Sequence[Setting]
) -> dict[str, Any]:
    """The JSON of ``exhird evaluate``, each system with its setting and predictions."""
    record = {"model": model.name, **evaluation.to_dict()}
    for setting, system in zip(settings, record["systems"], strict=True):
        window = "all" if setting.window is None else setting.window
        path = store.path(setting)
        system |= asdict(setting) | {
            "window": window,
            "changed": changed.get(setting),
            "predictions": f"{path.parent.name}/{path.name}",
        }
    return record


def study(args: argparse.Namespace) -> None:
    from onmt_exhird.evaluation import evaluate
    from onmt_exhird.evaluation.inputs import check_lengths, read_gold, read_sources
    from onmt_exhird.evaluation.tables import to_markdown, to_text
    from onmt_exhird.search import parse_window

    windows = sorted(set(map(parse_window, args.windows)), key=lambda window: inf if window is None else window)
    if importlib.util.find_spec("matplotlib") is None:
        raise ExhirdError("the curves are drawn with matplotlib, which is missing; run 'pip install matplotlib'")
    if not args.model.is_file():
        raise ExhirdError(f"{args.model} is no file; give a checkpoint of onmt_train with --model")
    sources, gold = read_sources(args.src), read_gold(args.gold)
    check_lengths(args.gold, gold, args.src, sources)
    sources, gold = sources[: args.limit], gold[: args.limit]
    if not sources:
        raise ExhirdError(f"{args.src} has no lines; give a file with one document a line")
    store = Store(args.output / "predictions", args.model, sources)
    store.folder.mkdir(parents=True, exist_ok=True)

    settings = [
        # Without a window, stems have nothing to widen.
        Setting(beam, window, args.exclude_stems and window != 0, args.exclude_phrases)
        for beam in dict.fromkeys(args.beams)
        for window in windows
    ]
    predictions = decode_all(settings, sources, store, lambda: Decoder(args.model, args.batch_size))
    evaluation = evaluate(sources, gold, {setting.name: lines for setting, lines in predictions.items()})
    results = dict(zip(settings, evaluation.systems, strict=True))
    changed = count_changed(predictions)

    extra = ", stems excluded" * args.exclude_stems + ", repeated phrases excluded" * args.exclude_phrases
    title = f"Windows of exclusive search{extra}: {args.model.name}, {len(sources):,} documents"
    table = make_table(title, results, changed)
    note = "changed: documents whose predictions differ from those with K = 0"
    record = to_record(evaluation, args.model, changed, store, settings)
    markdown = [to_markdown(table), note, f"`{evaluation.signature}`", "![the curves](window_study.svg)"]
    (args.output / "window_study.md").write_text("\n\n".join(markdown) + "\n", encoding="utf-8")
    (args.output / "window_study.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    draw(results, title, args.output)
    print(to_text(table), note, evaluation.signature, sep="\n")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="window_study.py",
        description="Decode with every window K of exclusive search, score, and draw the curves.",
        epilog="example: python tools/window_study.py --model exhird_step_150000.pt --src test.src --gold test.tgt "
        "--output study",
    )
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="a checkpoint of onmt_train")
    parser.add_argument("--src", required=True, metavar="FILE", help="the documents, one a line")
    parser.add_argument("--gold", required=True, metavar="FILE", help="their gold phrases")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for tables and curves")
    parser.add_argument("--windows", nargs="+", default=WINDOWS, metavar="K", help="default: 0 1 2 3 4 5 all")
    parser.add_argument("--beams", type=positive, nargs="+", default=BEAMS, metavar="N", help="default: 1 (greedy), 4")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="default: %(default)s")
    parser.add_argument("--limit", type=positive, metavar="N", help="take the first N documents only")
    parser.add_argument("--exclude-stems", action="store_true", help="first words of one stem count as one, for K > 0")
    parser.add_argument("--exclude-phrases", action="store_true", help="forbid repeated phrases too, for every K")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        study(args)
    except ExhirdError as error:
        print(f"window_study.py: error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"window_study.py: error: {error}; give a folder that can be written with --output", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nwindow_study.py: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
