"""Runs are collected into the paper's tables, with nothing lost on the way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.files import SHARED
from helpers.report_runs import RunFolder, cells, score_record

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import evaluate
from onmt_exhird.evaluation.formats import render
from onmt_exhird.evaluation.paper import DATASETS, SEARCH_WINDOWS, SEEDS, TRAINING_DOCUMENTS
from onmt_exhird.report.collect import collect, main_window
from onmt_exhird.report.contents import cautions, missing, not_shown
from onmt_exhird.report.tables import ABLATION, WINDOW_STUDY, WITH_SEARCH, main_table, runs_table, study_table

PAPER = sorted((SHARED / "paper").glob("*.txt"))
PRESENT = ["present/F1@M", "present/F1@5"]


@pytest.fixture
def runs(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_mean_deviation_and_difference_are_those_computed_by_hand(runs):
    for seed, score in ((34, 0.370), (343, 0.376), (3435, 0.379)):
        runs.score("exhird-h", seed, "kp20k", 1, **{"present/F1@M": score})
    rows = cells(main_table(collect([runs.path]), "", PRESENT))
    # Mean 0.375; deviation sqrt((0.005**2 + 0.001**2 + 0.004**2) / 2) = 0.0046; the paper has 0.374.
    assert rows["ExHiRD-h", "ours"][0] == "0.375_5"
    assert rows["ExHiRD-h", "paper"] == ["0.374_0", "0.311_1"]
    assert rows["ExHiRD-h", "difference"][0] == "+0.001"


def test_a_single_seed_has_no_deviation(runs):
    runs.score("catseq", 5, "inspec", 0, dup_ratio=0.3125)
    rows = cells(main_table(collect([runs.path]), "", ["dup_ratio"]))
    assert rows["catSeq", "ours"] == ["0.3125"]
    assert rows["catSeq", "difference"] == ["+0.011"]  # 0.3125 - 0.302, to the paper's digits
    assert rows["catSeqD", "ours"] == ["-"] and ("catSeqD", "difference") not in rows


def test_only_exhird_h_excludes_in_the_main_tables(runs):
    for window in (0, 1, 4):
        for model in ("exhird-h", "catseq"):
            runs.score(model, 34, "inspec", window, dup_ratio=window / 8)
    rows = cells(main_table(collect([runs.path]), "", ["dup_ratio"]))
    assert rows["ExHiRD-h", "ours"] == ["0.5000"]
    assert rows["catSeq", "ours"] == ["0.0000"]


def test_the_oracle_has_the_gold_phrases(runs):
    runs.score("catseq", 34, "semeval", 0, gold_present=6.25, gold_absent=8.0)
    rows = cells(main_table(collect([runs.path]), "", ["num_present", "num_absent"], oracle=True))
    assert rows["Oracle", "ours"] == ["6.25", "8.00"]
    assert rows["Oracle", "paper"] == ["6.28", "8.12"]
    assert rows["Oracle", "difference"] == ["-0.03", "-0.12"]


def test_the_window_study_has_our_windows_and_the_papers(runs):
    for window, ratio in (("0", 0.25), ("7", 0.125), ("all", 0.0)):
        runs.score("exhird-h", 34, "kp20k", window, dup_ratio=ratio)
    rows = cells(study_table(collect([runs.path]), WINDOW_STUDY, "kp20k"))
    assert [name for name, whose in rows if whose == "ours"] == [
        "Oracle",
        *(f"K {k}" for k in "012345"),
        "K 7",
        "K all",
    ]
    assert [rows[f"K {k}", "ours"][-1] for k in ("0", "1", "7", "all")] == ["0.2500", "-", "0.1250", "0.0000"]
    assert rows["K 0", "difference"][-1] == "+0.055" and rows["K all", "paper"][-1] == "0.002"
    assert ("K 7", "paper") not in rows


def test_the_ablation_takes_hierarchy_and_search_away(runs):
    for model, window, ratio in (("exhird-h", 1, 0.1), ("catseq", 1, 0.125), ("exhird-h", 0, 0.25), ("catseq", 0, 0.5)):
        runs.score(model, 34, "semeval", window, dup_ratio=ratio)
    rows = cells(study_table(collect([runs.path]), ABLATION, "semeval"))
    assert [rows[name, "ours"][-1] for name in ("ExHiRD-h", "w/o HRD", "w/o ES")] == ["0.1000", "0.1250", "0.2500"]
    assert [rows[name, "paper"][-1] for name in ("ExHiRD-h", "w/o HRD", "w/o ES")] == ["0.091", "0.093", "0.191"]


def test_baselines_stand_without_and_with_search(runs):
    for model, window, ratio in (("catseqcorr", 0, 0.25), ("catseqcorr", 1, 0.125), ("mine", 1, 0.5)):
        runs.score(model, 34, "kp20k", window, dup_ratio=ratio)
    rows = cells(study_table(collect([runs.path]), WITH_SEARCH, "kp20k"))
    assert rows["catSeqCorr", "ours"][-1] == "0.2500"
    assert rows["catSeqCorr w/ ES", "ours"][-1] == "0.1250" and rows["catSeqCorr w/ ES", "paper"][-1] == "0.159"
    assert rows["mine w/ ES", "ours"][-1] == "0.5000" and ("mine w/ ES", "paper") not in rows
    assert ("ExHiRD-s w/ ES", "ours") not in rows, "the paper does not have it, and neither have we"


def test_a_corpus_of_ones_own_has_our_rows_only(runs):
    runs.score("catseq", 1, "my_test", 0)
    collection = collect([runs.path])
    assert list(cells(main_table(collection, "", PRESENT))) == [("catSeq", "ours")]
    assert not any(study.wanted(collection, "my_test") for study in (ABLATION, WINDOW_STUDY, WITH_SEARCH))


def test_data_sets_stand_in_the_papers_order(runs):
    for dataset in ("zeta", "kp20k", "alpha", "inspec"):
        runs.score("catseq", 1, dataset, 0)
    assert list(collect([runs.path]).datasets) == ["inspec", "kp20k", "alpha", "zeta"]


def test_what_evaluate_writes_is_read(runs):
    evaluation = evaluate(["a b c", "b c"], ["a ; z", "b"], ["a ; a ; b", "b ; z"])
    runs.write("catseq-34/test.K0.json", render(evaluation, "json"))
    system = collect([runs.path]).system("catseq", "test", "0")
    assert system is not None and system.scores.items() <= evaluation.systems[0].scores.items()
    assert system["present/F1@M"] == evaluation.systems[0]["present/F1@M"] > 0


def test_several_folders_are_one_report(runs, tmp_path):
    other = RunFolder(tmp_path / "other")
    runs.score("catseq", 3, "kp20k", 0, dup_ratio=0.2)
    other.score("catseq", 5, "kp20k", 0, dup_ratio=0.4)
    system = collect([runs.path, other.path]).system("catseq", "kp20k", "0")
    assert system is not None and system.runs == 2 and system["dup_ratio"] == pytest.approx(0.3)


def test_what_is_missing_is_listed(runs):
    runs.score("exhird-h", 3, "krapivin", 1)
    runs.score("exhird-h", 3, "test", 1)
    runs.score("exhird-h", 5, "krapivin", 1)
    runs.score("catseq", 3, "krapivin", 0)
    runs.info("catseq", 3)
    lines = missing(collect([runs.path]))
    assert lines == [
        "No run of Transformer, catSeqD, catSeqCorr, ExHiRD-s.",
        "No score files of Inspec, SemEval, KP20k.",
        "catSeq: no run with seed 5.",
        f"{runs.path}/catseq-3: no test.K0.json.",
        f"{runs.path}/exhird-h-3: no run.json.",
        f"{runs.path}/exhird-h-5: no test.K1.json, run.json.",
    ]


def test_an_unfinished_run_is_listed_and_other_folders_are_not(runs):
    runs.score("catseq", 3, "krapivin", 0)
    (runs.path / "catseqd-3").mkdir()
    (runs.path / "data-2024").mkdir()
    collection = collect([runs.path])
    assert f"{runs.path}/catseqd-3: no krapivin.K0.json, run.json." in missing(collection)
    assert not any("data-2024" in line for line in missing(collection))


def test_the_papers_studies_are_expected_too(runs):
    runs.score("exhird-h", 3, "semeval", 1)
    runs.score("catseq", 3, "semeval", 0)
    runs.info("exhird-h", 3)
    runs.info("catseq", 3)
    lines = missing(collect([runs.path]))
    assert lines[-2:] == [
        f"{runs.path}/catseq-3: no semeval.K1.json.",
        f"{runs.path}/exhird-h-3: no semeval.K0.json.",
    ]


def test_what_no_table_shows_is_said(runs):
    runs.score("catseq", 3, "kp20k", 0)
    runs.score("catseq", 3, "kp20k", 5)
    runs.score("mine", 3, "kp20k", 0)
    first, second = not_shown(collect([runs.path]))
    assert first.startswith("mine is no model of the paper (transformer,")
    assert second == f"{runs.path}/catseq-3: kp20k.K5.json is in no table."


def test_another_training_corpus_is_pointed_out(runs):
    for seed in (1, 2, 3):
        runs.score("exhird-h", seed, "kp20k", 1, documents=20_000)
        runs.info("exhird-h", seed, training_documents=164_123, corpus="arXiv")
    runs.score("catseq", 1, "kp20k", 0, documents=20_000)
    runs.info("catseq", 1, training_documents=509_000)  # nearly the paper's
    runs.info("catseqd", 1, training_documents=None)  # not known
    assert cautions(collect([runs.path])) == [
        "ExHiRD-h: trained on 164,123 documents of arXiv; the paper on 509,818 of KP20k."
    ]


def test_other_documents_conventions_and_fewer_seeds_are_pointed_out(runs):
    runs.score("catseq", 1, "inspec", 0, documents=37, signature="F1@M|conv:meng")
    assert cautions(collect([runs.path])) == [
        "Inspec: 37 test documents; the paper 500.",
        "Inspec: not scored under the paper's convention, exhird.",
        "Our means are over 1 seed; the paper's over 3.",
    ]


def test_runs_say_what_they_are(runs):
    runs.score("catseq", 3, "kp20k", 0)
    runs.info("catseq", 3, steps=20_000, minutes=3.5, note=None, tests=[{"window": "0"}], commands={"train": "x"})
    table = runs_table(collect([runs.path]))
    assert table.heads == ("model", "seed", "steps", "minutes", "note", "score files")
    assert table.rows == [("catSeq", "3", "20,000", "3.50", None, "1")]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"signature": "F1@M|conv:chan"}, r"different ways \(conv:exhird against conv:chan\); score them alike"),
        ({"documents": 7}, "are of 5 and 7 documents; score the same documents"),
        ({"gold_absent": 0.5}, "different gold phrases"),
    ],
)
def test_scores_that_cannot_be_compared_are_an_error_with_both_files(runs, second, message):
    runs.score("catseq", 3, "krapivin", 0)
    runs.score("exhird-h", 3, "krapivin", 1, **second)
    with pytest.raises(ExhirdError, match=message) as error:
        collect([runs.path])
    assert "catseq-3/krapivin.K0.json and " in str(error.value) and "exhird-h-3/krapivin.K1.json" in str(error.value)


def test_data_sets_may_be_scored_differently(runs):
    runs.score("catseq", 3, "semeval", 0, signature="F1@M|conv:exhird|gold:as-given")
    runs.score("catseq", 3, "kp20k", 0, documents=7)
    assert len(collect([runs.path]).datasets) == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("catseq-3/x.K0.json", '{"signature": ', "x.K0.json is damaged .*line 1.*; make it with 'exhird evaluate"),
        ("catseq-3/x.K0.json", "[1]", "x.K0.json is no JSON object"),
        ("catseq-3/x.K0.json", "{}", "x.K0.json is not of one system and one run"),
        ("catseq-3/x.K0.json", '{"systems": [3]}', "x.K0.json lacks present/F1@5,.*signature, documents"),
        ("catseq-3/x.K0.json", score_record(dup_ratio=None), "x.K0.json lacks dup_ratio; "),
        ("catseq-3/x.K0.json", score_record(dup_ratio=float("nan")), "x.K0.json lacks dup_ratio; "),
        ("catseq-3/x.K0.json", score_record(runs=3), "x.K0.json is not of one system and one run"),
        ("catseq-3/x.Kmany.json", score_record(), "x.Kmany.json: the window after '.K' is neither"),
        ("catseq-3/x.K01.json", score_record(), "x.K01.json: the window after '.K' is neither"),
        ("catseq/x.K0.json", score_record(), "catseq has score files, but its name is no model and seed"),
        ("catseq-3/run.json", "{", "run.json is damaged"),
        ("catseq-3/run.json", '{"seed": 5}', "run.json is of seed 5, its folder of 3; rename the folder"),
        ("catseq-3/run.json", '{"steps": "many"}', "run.json: steps is 'many', not a number"),
        ("catseq-3/run.json", '{"commands": {"train": 3}}', "run.json: commands is no object of names and commands"),
    ],
)
def test_damaged_files_are_an_error_with_their_name(runs, name, text, message):
    runs.score("catseq", 3, "kp20k", 0)
    runs.write(name, text)
    with pytest.raises(ExhirdError, match=message):
        collect([runs.path])


def test_a_folder_without_scores_is_an_error(runs):
    runs.path.mkdir()
    with pytest.raises(ExhirdError, match="run has neither score files, which are called <model>-<seed>/"):
        collect([runs.path])
    with pytest.raises(ExhirdError, match=r"nowhere cannot be read \(No such file"):
        collect([runs.path / "nowhere"])


def test_the_same_run_twice_is_an_error(runs):
    runs.score("catseq", 3, "kp20k", 0)
    with pytest.raises(ExhirdError, match="catseq-3 are the same model and seed; leave one of them out"):
        collect([runs.path, runs.path])


# The paper's numbers, as the report shows them


def paper_numbers(label: str) -> list[list[str]]:
    """The rows of numbers of one of the paper's tables."""
    text = PAPER[0].read_text(encoding="utf-8")
    end = text.index(f"\\label{{{label}}}")
    body = text[text.rindex("\\begin{tabular}", 0, end) : text.rindex("\\end{tabular}", 0, end)]
    body = re.sub(r"\\textsubscript\{(\d+)\}|\$_\\text\{(\d+)\}\$", lambda m: "_" + (m[1] or m[2]), body)
    rows = [re.findall(r"\d\.\d\d+(?:_\d+)?", row) for row in body.split("\\\\")]
    return [row for row in rows if row]


@pytest.mark.skipif(not PAPER, reason="the paper's source is not here")
def test_every_number_of_the_papers_tables_is_shown(runs):
    for dataset in DATASETS:
        runs.score("exhird-h", 34, dataset, main_window("exhird-h", dataset))
    collection = collect([runs.path])
    shown = {
        "table:present-result": main_table(collection, "", PRESENT),
        "table:absent-result": main_table(collection, "", ["absent/F1@M", "absent/F1@5"]),
        "table:dupratios of predicted keyphrases": main_table(collection, "", ["dup_ratio"]),
        "table:number of predicted keyphrases": main_table(collection, "", ["num_present", "num_absent"], oracle=True),
        "table:ablation_study_semeval": study_table(collection, ABLATION, "semeval"),
        "table:the study of window size": study_table(collection, WINDOW_STUDY, "kp20k"),
        "table:ES on other baselines": study_table(collection, WITH_SEARCH, "kp20k"),
    }
    for label, table in shown.items():
        rows = [row for (_, whose), row in cells(table).items() if whose == "paper"]
        assert [[cell for cell in row if cell != "-"] for row in rows] == paper_numbers(label), label


@pytest.mark.skipif(not PAPER, reason="the paper's source is not here")
def test_the_papers_settings_are_the_papers():
    text = PAPER[0].read_text(encoding="utf-8")
    assert f"we maintain {TRAINING_DOCUMENTS:,} data samples in the training set" in text
    assert "selected as 4, 1, 1, 1 for Inspec, Krapivin, SemEval, and KP20k" in text
    assert [SEARCH_WINDOWS[name] for name in DATASETS] == [4, 1, 1, 1]
    assert "repeated with three different random seeds" in text and SEEDS == 3


def test_a_score_record_of_these_tests_is_that_of_evaluate():
    real = json.loads(render(evaluate(["a"], ["a"], ["a"]), "json"))
    assert json.loads(score_record()).keys() == real.keys()
    assert json.loads(score_record())["systems"][0].keys() <= real["systems"][0].keys()
