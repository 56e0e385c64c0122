"""The same table as text, Markdown, LaTeX, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json

import pytest

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import System, evaluate
from onmt_exhird.evaluation.formats import FORMATS, render
from onmt_exhird.evaluation.tables import Number, Table, to_latex, to_markdown, to_text

SOURCES = ["a b c", "b c d", "c d e"]
GOLD = ["a ; z", "b ; c ; y", "c"]
BASE = ["a ; b", "b ; y ; y", "d"]
OURS = ["a ; z", "b ; c", "c ; c"]


@pytest.fixture
def table() -> Table:
    table = Table("Scores", ["system", "F1", "#PK"], [("", 1), ("present", 2)])
    table.add("a_b", Number(0.5, deviation=0.0123, digits=3), Number(12.5, digits=2))
    table.add_rule()
    table.add("c|d", None, Number(-3.25, digits=2, signed=True))
    return table


def test_text_is_aligned_on_the_decimal_point(table):
    assert to_text(table).splitlines() == [
        "Scores",
        "          ··· present ···",
        "  system        F1    #PK",
        "  -----------------------",
        "  a_b     0.500_12  12.50",
        "  -----------------------",
        "  c|d            -  -3.25",
    ]


def test_markdown_escapes_what_it_would_read(table):
    assert to_markdown(table).splitlines()[2:] == [
        "| system | present F1 | present #PK |",
        "| --- | ---: | ---: |",
        "| a\\_b | 0.500\\_12 | 12.50 |",
        "| c\\|d | - | -3.25 |",
    ]


def test_markdown_titles_are_not_read_as_emphasis():
    table = Table("run*.pred beside a_b", ["system"])
    assert to_markdown(table).startswith("**run\\*.pred beside a\\_b**")


def test_latex_has_the_papers_subscripts(table):
    lines = to_latex(table).splitlines()
    assert "a\\_b & 0.500\\textsubscript{12} & 12.50 \\\\" in lines
    assert "c|d & - & $-3.25$ \\\\" in lines
    assert "system & F1 & \\#PK \\\\" in lines
    assert lines.count("\\midrule") == 2


@pytest.mark.parametrize("mean, deviation, text", [(0.3112, 0.0009, "0.311_1"), (0.2779, 0.0001, "0.278_0")])
def test_seeds_are_printed_as_in_the_paper(mean, deviation, text):
    assert Number(mean, deviation, digits=3).text == text


def test_json_has_the_keys_of_the_contract():
    result = json.loads(render(evaluate(SOURCES, GOLD, {"base": BASE, "ours": OURS}), "json"))
    assert result["documents"] == 3 and result["signature"].startswith("F1@M|conv:exhird|")
    assert [system["name"] for system in result["systems"]] == ["base", "ours"]
    for system in result["systems"]:
        for kind in ("present", "absent"):
            assert {"P@5", "R@5", "F1@5", "P@M", "R@M", "F1@M"} <= set(system[kind])
        assert {"dup_ratio", "num_present", "num_absent"} <= set(system)
    assert result["systems"][1]["present"]["F1@M"] == pytest.approx(1.0)


def test_json_has_intervals_tests_and_deviations_where_asked():
    systems = [System("base", [BASE]), System("ours", [OURS, GOLD])]
    evaluation = evaluate(SOURCES, GOLD, systems, confidence=True, resamples=20)
    base, ours = json.loads(render(evaluation, "json"))["systems"]
    assert set(base["confidence"]["present"]["F1@M"]) == {"low", "high"}
    assert set(ours["against_first"]["absent"]["F1@M"]) == {"difference", "p_bootstrap", "p_randomisation"}
    assert "against_first" not in base and "standard_deviation" not in base
    assert ours["standard_deviation"]["present"]["F1@M"] >= 0


def test_csv_has_a_row_per_system_with_all_digits():
    evaluation = evaluate(SOURCES, GOLD, {"base": BASE, "o,urs": OURS})
    rows = list(csv.DictReader(io.StringIO(render(evaluation, "csv", "kp20k"))))
    assert [row["system"] for row in rows[:2]] == ["base", "o,urs"]
    assert float(rows[0]["present/F1@5"]) == evaluation.systems[0]["present/F1@5"]
    assert rows[0]["signature"] == evaluation.signature
    paper = next(row for row in rows if row["system"] == "paper, Tables 2 to 5: ExHiRD-h")
    assert (paper["present/F1@5"], paper["present/F1@5 std"]) == ("0.311", "0.001")


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_the_signature_and_all_systems(form):
    evaluation = evaluate(SOURCES, GOLD, [System("base", [BASE]), System("ours", [OURS, BASE])], confidence=True)
    shown = render(evaluation, form, "semeval")
    assert evaluation.signature in shown
    assert "base" in shown and "ours" in shown and "w/o HRD" in shown


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_every_score_is_shown(form):
    shown = render(evaluate(SOURCES, GOLD, OURS), form)
    assert all(name in shown for name in ("@5", "@10", "@M", "@O", "DupRatio", "PK", "AK", "micro", "3 documents"))


@pytest.mark.parametrize("form", ["text", "json", "latex", "markdown", "csv"])
def test_a_data_set_that_the_paper_does_not_have_is_an_error(form):
    with pytest.raises(ExhirdError, match="the paper has no data set 'kp2k'; it has inspec, krapivin, semeval, kp20k"):
        render(evaluate(SOURCES, GOLD, OURS), form, "kp2k")


def test_an_unknown_format_is_an_error():
    with pytest.raises(ExhirdError, match="unknown format 'xml'; the valid ones are text, json, latex, markdown, csv"):
        render(evaluate(SOURCES, GOLD, OURS), "xml")
