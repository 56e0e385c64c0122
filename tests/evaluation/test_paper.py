"""The paper's numbers are those of the paper."""

from __future__ import annotations

import re

import pytest
from helpers.files import SHARED

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import evaluate
from onmt_exhird.evaluation import paper as paper_module
from onmt_exhird.evaluation.formats import render
from onmt_exhird.evaluation.layout import notes, paper_differences
from onmt_exhird.evaluation.paper import DATASETS, TEST_DOCUMENTS, paper_tables

PAPER = sorted((SHARED / "paper").glob("*.txt"))
TABLES = {
    "table:present-result": "_PRESENT",
    "table:absent-result": "_ABSENT",
    "table:dupratios of predicted keyphrases": "_DUP_RATIO",
    "table:number of predicted keyphrases": "_NUMBERS",
    "table:ablation_study_semeval": "_ABLATION",
    "table:the study of window size": "_WINDOWS",
    "table:ES on other baselines": "_WITH_EXCLUSIVE_SEARCH",
}


@pytest.mark.skipif(not PAPER, reason="the paper's source is not here")
@pytest.mark.parametrize("label, name", TABLES.items())
def test_each_table_is_the_papers(label, name):
    text = PAPER[0].read_text(encoding="utf-8")
    end = text.index(f"\\label{{{label}}}")
    body = text[text.rindex("\\begin{tabular}", 0, end) : text.rindex("\\end{tabular}", 0, end)]
    body = re.sub(r"\\textsubscript\{(\d+)\}|\$_\\text\{(\d+)\}\$", lambda m: "_" + (m[1] or m[2]), body)
    rows = (row for row in body.split("\\\\") if re.search(r"\d\.\d\d", row))
    expected = [re.findall(r"\d\.\d\d+(?:_\d+)?", row) for row in rows]
    ours = getattr(paper_module, name).strip().splitlines()
    assert [re.findall(r"\d\.\d\d+(?:_\d+)?", row) for row in ours] == expected


def test_a_few_numbers_by_hand():
    main = paper_tables("kp20k")[0].rows["ExHiRD-h"]
    assert {key: (number.value, number.deviation) for key, number in main.items()} == {
        "present/F1@M": (0.374, 0.0),
        "present/F1@5": (0.311, 0.001),
        "absent/F1@M": (0.032, 0.0),
        "absent/F1@5": (0.016, 0.0),
        "dup_ratio": (0.110, 0.001),
        "num_present": (3.97, 0.03),
        "num_absent": (0.81, 0.01),
    }
    assert paper_tables("inspec")[0].rows["Transformer"]["num_present"].deviation == 0.10
    assert paper_tables("semeval")[1].rows["w/o ES"]["dup_ratio"].value == 0.191
    assert paper_tables("kp20k")[1].rows["ExHiRD-h, K all"]["num_absent"].value == 1.25
    assert paper_tables("kp20k")[2].rows["catSeqCorr w/ ES"]["present/F1@5"].value == 0.298


@pytest.mark.parametrize("dataset, tables", [("inspec", 1), ("krapivin", 1), ("semeval", 2), ("kp20k", 3)])
def test_every_table_of_a_data_set_is_there(dataset, tables):
    assert len(paper_tables(dataset)) == tables
    assert set(TEST_DOCUMENTS) == set(DATASETS)


def test_differences_are_ours_minus_the_papers():
    system = evaluate(["a b"], ["a ; z"], ["a ; b"]).systems[0]
    rows = paper_tables("kp20k")[0].rows
    assert paper_differences(system, "ExHiRD-h", rows["ExHiRD-h"])["num_present"] == pytest.approx(2 - 3.97)
    assert paper_differences(system, "Oracle", rows["Oracle"])["num_present"] == pytest.approx(1 - 3.32)


def test_our_row_stands_beside_the_papers():
    shown = render(evaluate(["a b"], ["a ; z"], ["a ; b"]), "text", "kp20k")
    assert "0.311_1" in shown and "ours minus it" in shown and "-1.97" in shown


def test_other_data_and_other_conventions_are_pointed_out():
    evaluation = evaluate(["a"], ["a"], ["a"], convention="chan")
    cautions = [note for note in notes(evaluation, "krapivin") if note.startswith("caution")]
    assert len(cautions) == 2 and "400 documents" in cautions[0] and "exhird" in cautions[1]


def test_an_unknown_data_set_is_an_error():
    with pytest.raises(ExhirdError, match="no data set 'duc'; it has inspec, krapivin, semeval, kp20k"):
        paper_tables("duc")
