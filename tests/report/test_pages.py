"""The results page: ``exhird report`` and its three formats."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.files import ROOT
from helpers.report_runs import RunFolder

from onmt_exhird.cli import main
from onmt_exhird.report.collect import collect
from onmt_exhird.report.contents import build
from onmt_exhird.report.curves import read_curve
from onmt_exhird.report.drawing import Box, Drawing, Label, Line, standalone, to_svg, to_tikz
from onmt_exhird.report.plots import draw_bars, draw_curves

VOID = {"meta", "br", "hr", "img", "input", "link"}
NASTY = '<script>a & b_c 50% of $x \\end{document} `d` | "e"</script>'


class Page(HTMLParser):
    """An HTML page's elements; complains where tags do not close each other."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def runs(tmp_path: Path) -> RunFolder:
    """Two models, two seeds, a data set of the paper and another one with a name to be careful with."""
    runs = RunFolder(tmp_path / "run")
    for seed, ratio in ((3, 0.26), (5, 0.36)):
        for window in ("0", "1", "2", "all"):
            runs.score("exhird-h", seed, "kp20k", window, dup_ratio=ratio)
        runs.score("exhird-h", seed, "a<b>&_%", 1)
        runs.score("catseq", seed, "kp20k", 0)
        runs.info(
            "catseq",
            seed,
            corpus=NASTY,
            training_documents=777,
            commands={"train": f"train --seed {seed}", "test": NASTY},
        )
    return runs


@pytest.fixture
def report(runs: RunFolder, tmp_path: Path) -> Path:
    assert main(["report", str(runs.path), "--output", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


def test_all_formats_are_written_and_named(runs, tmp_path, capsys):
    assert main(["report", str(runs.path), "--output", str(tmp_path / "new" / "out")]) == 0
    shown = capsys.readouterr().out
    written = {path.name for path in (tmp_path / "new" / "out").iterdir()}
    assert written == {"report.md", "report.tex", "report.html", *(f"report-plot-{n}.svg" for n in (1, 2, 3, 4))}
    assert all(name in shown for name in written)
    assert "collected    12 score files of 4 runs" in shown
    assert "catSeq: trained on 777 documents" in shown and "the paper on 509,818 of KP20k" in shown
    assert "No run of Transformer, catSeqD, catSeqCorr, ExHiRD-s." in shown


@pytest.mark.parametrize(
    ("form", "name"), [("markdown", "report.md"), ("latex", "report.tex"), ("html", "report.html")]
)
def test_one_format_alone(runs, tmp_path, form, name):
    assert main(["report", str(runs.path), "--output", str(tmp_path / "out"), "--format", form]) == 0
    pages = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".svg"}
    assert pages == {name}


def test_the_same_runs_give_the_same_files(runs, report, tmp_path):
    before = {path.name: path.read_bytes() for path in report.iterdir()}
    assert main(["report", str(runs.path), "--output", str(report)]) == 0
    assert {path.name: path.read_bytes() for path in report.iterdir()} == before


def test_html_is_well_formed_escaped_and_needs_nothing_else(report):
    text = (report / "report.html").read_text()
    page = Page(text)
    assert not page.find("script") and "<b>&" not in text
    assert NASTY in "".join(page.text), "and yet it is all there"
    assert not re.search(r"""(src|href)\s*=\s*["'](?!\#)|url\(|@import""", text)
    assert len(page.find("h1")) == 1 and page.find("html") == [{"lang": "en"}]


def test_html_tables_have_captions_and_heads_with_scope(report):
    page = Page((report / "report.html").read_text())
    assert len(page.find("table")) == len(page.find("caption")) == 8
    assert {attributes.get("scope") for attributes in page.find("th")} == {"col", "colgroup", "row", "rowgroup"}
    links = [attributes["href"] for attributes in page.find("a")]
    assert links == [f"#{attributes['id']}" for attributes in page.find("h2")]


def test_every_row_of_an_html_table_is_as_wide_as_its_heads(report):
    text = (report / "report.html").read_text()
    for table in re.findall(r"<table>.*?</table>", text, re.DOTALL):
        widths, spanning = set(), 0
        for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL):
            width = sum(int(span or 1) for span in re.findall(r"<t[hd]\b(?:[^>]*?colspan=\"(\d+)\")?", row))
            spanning = max(0, spanning - 1)
            widths.add(width + (spanning > 0))
            if rows := re.search(r'rowspan="(\d+)"', row):
                spanning = int(rows[1])
        assert len(widths) == 1


def test_numbers_are_the_same_in_every_format(report):
    # DupRatio of ExHiRD-h: mean of 0.26 and 0.36, deviation 0.1 / sqrt(2); the paper has 0.110_1.
    assert "| ExHiRD-h | ours | 0.310\\_71 |" in (report / "report.md").read_text()
    assert "ExHiRD-h & ours & 0.310\\textsubscript{71} &" in (report / "report.tex").read_text()
    html = (report / "report.html").read_text()
    assert "<td>0.310<sub>71</sub></td>" in html and "<td>0.110<sub>1</sub></td>" in html and "<td>+0.200</td>" in html


def test_plots_have_words_for_those_who_do_not_see_them(report):
    page = Page((report / "report.html").read_text())
    labels = [attributes.get("aria-label") or "" for attributes in page.find("svg")]
    assert len(labels) == 4 and all(attributes["role"] == "img" for attributes in page.find("svg"))
    assert "DupRatio. KP20k, a<b>&_%: Transformer none none, catSeq 0.250 none" in labels[2]
    for number in (1, 2, 3, 4):
        assert ElementTree.parse(report / f"report-plot-{number}.svg").getroot().tag.endswith("svg")


def test_latex_is_balanced_and_its_text_harmless(report):
    text = (report / "report.tex").read_text()
    begun, ended = (Counter(re.findall(rf"\\{what}\{{(\w+)\}}", text)) for what in ("begin", "end"))
    assert begun == ended and begun["document"] == 1 and begun["tikzpicture"] == 4 and begun["tabular"] == 8
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    for table in re.findall(r"\\toprule.*?\\bottomrule", text, re.DOTALL):
        lines = [line for line in table.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1
    body = re.sub(r"(?m)^%.*|\{%$|\$[+-][\d.]+\$", "", text.partition("\\maketitle")[2])  # comments, differences
    assert not re.search(r"(?<!\\)[%$#_^~]", body)


def test_markdown_tables_are_not_torn(report):
    text = (report / "report.md").read_text()
    for block in text.split("\n\n"):
        if block.startswith("| "):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert "\n    train --seed 5\n" in text and "![DupRatio](report-plot-3.svg)" in text


def test_the_page_says_how_to_make_it_again(runs, report):
    text = (report / "report.md").read_text()
    assert text.endswith(f"    exhird report {runs.path} --output {report}\n")
    assert "    kp20k: F1@M|conv:exhird\n" in text


def test_scores_beside_no_paper_are_drawn_too(tmp_path):
    runs = RunFolder(tmp_path / "run")
    runs.score("mine", 1, "test", 3)
    collection = collect([runs.path])
    assert not any(isinstance(shape, Box) and shape.told for shape in draw_bars(collection, "", "dup_ratio").shapes)
    assert main(["report", str(runs.path), "--output", str(tmp_path / "out")]) == 0


def test_bars_are_as_high_as_their_numbers(runs):
    runs.score("catseq", 3, "kp20k", 0, **{"present/F1@M": 0.125})
    runs.score("catseq", 5, "kp20k", 0, **{"present/F1@M": 0.125})
    bars = {
        shape.told: shape
        for shape in draw_bars(collect([runs.path]), "", "present/F1@M").shapes
        if isinstance(shape, Box)
    }
    low, high = bars["catSeq on KP20k: 0.125_0"], bars["ExHiRD-h on KP20k: 0.250_0"]
    assert high.height == pytest.approx(2 * low.height)
    assert low.y + low.height == pytest.approx(high.y + high.height)


def test_curves_go_down_where_scores_do(tmp_path):
    runs = RunFolder(tmp_path / "run")
    for window, ratio in (("0", 0.5), ("2", 0.25), ("all", 0.0)):
        runs.score("exhird-h", 1, "test", window, dup_ratio=ratio)
    curves = [shape for shape in draw_curves(collect([runs.path]), "test").shapes if isinstance(shape, Line)]
    heights = [
        y
        for _, y in next(
            line for line in curves if len(line.points) == 3 and len({y for _, y in line.points}) == 3
        ).points
    ]
    assert heights[0] < heights[1] < heights[2] and heights[1] - heights[0] == pytest.approx(heights[2] - heights[1])


def test_drawings_escape_their_text():
    drawing = Drawing(
        'a "quoted" <title>', "x & y", 30, 20, [Label(1, 2, "<50% & more"), Box(0, 0, 3, 5, "#ff0000", "<b>")]
    )
    assert len(ElementTree.fromstring(standalone(to_svg(drawing)))) == 3  # the style, the label and the box
    assert "{<50\\% \\& more}" in to_tikz(drawing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nowhere", "--output", "out"], "nowhere cannot be read"),
        (["run", "--output", "a_file"], "a_file cannot be written"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(runs, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    Path("a_file").write_text("")
    assert main(["report", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("exhird report: error: ") and message in error and error.count("\n") == 1


def test_help_has_an_example_and_the_layout(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["report", "--help"])
    shown = capsys.readouterr().out
    assert "example: exhird report" in shown and "exhird-h-34/kp20k.K1.json" in shown


def test_neither_torch_nor_opennmt_nor_numpy_is_imported(runs, tmp_path):
    program = """
import sys
from onmt_exhird.cli import main
assert main(sys.argv[1:]) == 0
assert not {"torch", "onmt", "numpy", "nltk"} & set(sys.modules)
"""
    options = ["report", str(runs.path), "--output", str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, *options], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


LOG = """[2026-01-01 10:00:00,000 INFO] Validation at step 100: perplexity 9.5; the best so far is 9.5 at step 100
[2026-01-01 10:01:00,000 INFO] Validation at step 200: perplexity 4.25, KEYPHRASE_F1 3; the best so far is 4.25
[2026-01-01 10:02:00,000 INFO] Validation at step 300: perplexity 5; the best so far is 4.25 at step 200
"""


def test_the_curve_of_a_training_is_drawn_before_anything_is_tested(tmp_path: Path) -> None:
    runs = RunFolder(tmp_path / "run")
    runs.write("exhird-h-34/train.log", LOG)
    runs.write("catseq-34/train.log", LOG.replace("4.25", "400").replace("100:", "500:"))
    assert main(["report", str(runs.path), "--output", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No model has been tested yet." in page
    assert "lowest: catseq-34 5.00 at step 300, exhird-h-34 4.25 at step 200" in page
    plot = (tmp_path / "out" / "report-plot-1.svg").read_text()
    assert plot.count("<polyline") >= 2 and plot.count("<circle") == 2


def test_a_report_of_scores_has_the_curve_too(tmp_path: Path) -> None:
    runs = RunFolder(tmp_path / "run")
    runs.score("exhird-h", 34, "kp20k", 1)
    runs.score("exhird-h", 34, "kp20k", 0)
    assert "Training" not in [section.title for section in build(collect([runs.path]), "")]
    runs.write("exhird-h-34/train.log", LOG)
    assert "Training" in [section.title for section in build(collect([runs.path]), "")]


def test_a_training_that_diverges_is_drawn_as_far_as_it_is_finite(tmp_path: Path) -> None:
    runs = RunFolder(tmp_path / "run")
    runs.write("exhird-h-34/train.log", LOG.replace("9.5;", "nan;").replace("perplexity 5;", "perplexity inf;"))
    runs.write("catseq-34/train.log", LOG.replace("perplexity ", "perplexity nan, was "))
    (section,) = [section for section in build(collect([runs.path]), "") if section.title == "Training"]
    assert section.items == ["catseq-34: no validation has found a finite perplexity."]
    (drawing,) = section.drawings
    assert drawing.alternative == "lowest: exhird-h-34 4.25 at step 200"


def test_a_training_of_which_nothing_is_finite_has_no_plot(tmp_path: Path) -> None:
    runs = RunFolder(tmp_path / "run")
    runs.write("exhird-h-34/train.log", LOG.splitlines()[0].replace("9.5", "nan"))
    assert main(["report", str(runs.path), "--output", str(tmp_path / "out")]) == 0
    assert "no validation has found a finite perplexity" in (tmp_path / "out" / "report.html").read_text()


def test_a_line_of_the_log_that_is_being_written_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LOG + "[2026-01-01 10:03:00,000 INFO] Validation at step 400: perplexity 1")
    assert read_curve(path) == {100: 9.5, 200: 4.25, 300: 5.0}
