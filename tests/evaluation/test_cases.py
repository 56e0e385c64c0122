"""Hand-made documents whose scores can be worked out in one's head."""

from __future__ import annotations

import pytest

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import System, SystemResult, evaluate, f1_at_m


def score(source: str, gold: str, predictions: str, **options: object) -> SystemResult:
    return evaluate([source], [gold], [predictions], **options).systems[0]  # type: ignore[arg-type]


def test_dup_ratio_of_the_papers_example():
    assert score("x", "q", "A ; A ; B ; B ; A ; C")["dup_ratio"] == 0.5


def test_six_predictions_three_right_count_by_position():
    result = score("a b c d e f", "a ; b ; f", "a ; b ; c ; d ; e ; f")
    assert (result["present/P@5"], result["present/P@M"]) == (2 / 5, 3 / 6)
    result = score("a b c d e f", "a ; b ; c", "a ; b ; c ; d ; e ; f")
    assert (result["present/P@5"], result["present/P@M"]) == (3 / 5, 3 / 6)


def test_three_predictions_all_right():
    result = score("a b c", "a ; b ; c", "a ; b ; c")
    assert (result["present/P@5"], result["present/P@M"], result["present/P@10"]) == (0.6, 1.0, 0.3)


def test_meng_divides_by_the_predictions_there_are():
    result = score("a b c", "a ; b ; c", "a ; b ; c", convention="meng")
    assert (result["present/P@5"], result["present/P_hard@5"]) == (1.0, 0.6)


def test_cutoff_o_takes_as_many_as_there_are_gold_phrases():
    result = score("a b c d", "a ; b", "a ; c ; b ; d")
    assert (result["present/P@O"], result["present/R@O"], result["present/F1@O"]) == (0.5, 0.5, 0.5)
    assert result["present/R@M"] == 1.0


def test_recall_divides_by_the_gold_phrases():
    assert score("a b c d", "a ; b ; c ; d", "a")["present/R@M"] == 0.25


@pytest.mark.parametrize("convention", ["exhird", "chan", "meng"])
def test_no_predictions_scores_nothing(convention):
    result = score("a b", "a ; z", "", convention=convention)
    assert {result[f"{kind}/F1@{k}"] for kind in ("present", "absent", "total") for k in ("5", "10", "M", "O")} == {0.0}
    assert result["dup_ratio"] == 0


@pytest.mark.parametrize("convention, absent", [("exhird", 0), ("chan", 1), ("meng", 0)])
def test_only_chan_counts_an_empty_line_as_a_prediction(convention, absent):
    assert score("a b", "a", "", convention=convention)["num_absent"] == absent


def test_documents_without_gold_count_as_zero_unless_left_out():
    arguments = ["a b", "a b"], ["a", ""], ["a", "b"]
    assert evaluate(*arguments).systems[0]["present/R@M"] == 0.5
    assert evaluate(*arguments, docs="with-gold").systems[0]["present/R@M"] == 1.0


def test_no_gold_at_all_scores_zero_and_does_not_fail():
    assert score("a b", "", "a ; z")["total/F1@M"] == 0


def test_unicode_words_match():
    result = score("der größte café 数据 挖掘", "größte café ; 数据 挖掘 ; naïve", "Größte Café ; 数据 挖掘 ; naïve")
    assert result["present/F1@M"] == pytest.approx(1.0)
    assert result["absent/F1@M"] == pytest.approx(1.0)


def test_predictions_with_unk_are_dropped():
    result = score("a <unk> b", "a", "<unk> ; a <unk> ; a ; <unk>")
    assert (result["num_total"], result["present/P@M"], result["dup_ratio"]) == (1, 1.0, 0.0)


def test_gold_with_unk_stays():
    assert score("a", "a ; <unk> b", "a")["gold_total"] == 2


def test_a_phrase_across_the_title_separator_is_absent():
    result = score("fast graphs <sep> trees grow", "graphs trees", "graphs trees")
    assert (result["present/F1@M"], result["absent/F1@M"]) == (0.0, 1.0)


def test_the_separator_separates_when_text_is_split_on_punctuation():
    assert score("fast graphs <sep> trees", "graphs trees", "graphs trees", tokens="words")["absent/F1@M"] == 1.0


def test_singular_and_plural_are_one_phrase():
    result = score("neural networks", "neural network", "neural network ; neural networks")
    assert (result["present/F1@M"], result["num_present"], result["dup_ratio"]) == (1.0, 1, 0.5)


def test_part_of_a_word_is_not_present():
    assert score("subgraph trees", "graph tree", "graph tree")["absent/F1@M"] == 1.0


def test_the_tag_does_not_decide_what_is_present():
    assert score("graphs", "graph", "<a_start> graph ;")["present/F1@M"] == 1.0


@pytest.mark.parametrize("convention, predicted", [("exhird", 2), ("chan", 1), ("meng", 1)])
def test_slash_separates_phrases_under_exhird_only(convention, predicted):
    assert score("a b", "a", "a / b", convention=convention)["num_total"] == predicted


@pytest.mark.parametrize("convention, predicted", [("exhird", 3), ("chan", 1), ("meng", 1)])
def test_chan_and_meng_drop_predictions_with_punctuation(convention, predicted):
    assert score("a , b .", "a", "a ; a , b ; .", convention=convention)["num_total"] == predicted


@pytest.mark.parametrize("convention, gold", [("exhird", 1), ("chan", 1), ("meng", 2)])
def test_meng_counts_gold_duplicates(convention, gold):
    assert score("trees", "tree ; trees", "tree", convention=convention)["gold_present"] == gold


def test_stemmed_gold_is_not_stemmed_again():
    arguments = "general market", "gener market", "general markets"
    assert score(*arguments, gold_stemmed=True)["present/F1@M"] == 1.0
    assert score("universities", "univers", "university", gold_stemmed=True)["present/F1@M"] == 1.0
    assert score("universities", "univers", "university")["present/F1@M"] == 0.0


def test_the_two_ways_of_averaging_differ():
    arguments = ["a b", "a b"], ["a ; b", "a"], ["a", "a ; b"]
    of_means, means = (evaluate(*arguments, convention=name).systems[0] for name in ("exhird", "meng"))
    assert of_means["present/F1@M"] == pytest.approx(0.75)
    assert means["present/F1@M"] == pytest.approx(2 / 3)
    for result in (of_means, means):  # both have both
        assert result["present/F1_of_means@M"] == pytest.approx(0.75)
        assert result["present/mean_of_document_F1@M"] == pytest.approx(2 / 3)


def test_micro_averages_count_phrases():
    result = evaluate(["a b c", "a b c"], ["a", "a ; b ; c"], ["a ; b ; c", "a"]).systems[0]
    assert (result["present/micro_P@M"], result["present/micro_R@M"]) == (2 / 4, 2 / 4)


def test_micro_averages_leave_out_the_predictions_of_documents_that_are_left_out():
    arguments = ["a b", "a b"], ["a", ""], ["a ; b", "b"]
    assert evaluate(*arguments).systems[0]["present/micro_P@M"] == 1 / 3
    assert evaluate(*arguments, docs="with-gold").systems[0]["present/micro_P@M"] == 1 / 2


def test_lists_and_lines_are_the_same():
    lines = evaluate(["a b"], ["a ; z"], ["a ; y"])
    assert evaluate([["a", "b"]], [["a", "z"]], [["a", "y"]]).systems[0].scores == lines.systems[0].scores


def test_f1_at_m_needs_no_sources():
    assert f1_at_m(["a ; b"], ["a ; c"]) == 0.5
    assert f1_at_m(["a ; b"], ["a ; c"], ["a"], kind="present") == 1.0


def test_f1_at_m_of_another_kind_is_an_error_that_names_the_valid_ones():
    with pytest.raises(ExhirdError, match="unknown kind 'all'; the valid ones are present, absent, total"):
        f1_at_m(["a"], ["a"], ["a"], kind="all")


def test_f1_at_m_of_present_phrases_needs_sources():
    with pytest.raises(ExhirdError, match="needs the sources"):
        f1_at_m(["a"], ["a"], kind="present")


def test_signature_names_every_choice_that_differs():
    signatures = [evaluate(["a"], ["a"], ["a"], convention=name).signature for name in ("exhird", "chan", "meng")]
    assert signatures[0].startswith("F1@M|conv:exhird|avg:f1-of-means|docs:all|stem:porter|")
    assert len(set(signatures)) == 3
    changed = evaluate(["a"], ["a"], ["a"], docs="with-gold", tokens="words", gold_stemmed=True).signature
    assert {"docs:with-gold", "tok:words", "gold:as-given"} <= set(changed.split("|"))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"convention": "exhrid"}, "unknown convention 'exhrid'; the valid ones are exhird, chan, meng"),
        ({"docs": "some"}, "unknown choice of documents 'some'"),
        ({"tokens": "bytes"}, "unknown choice of tokens 'bytes'"),
    ],
)
def test_unknown_choices_are_errors_that_name_the_valid_ones(options, message):
    with pytest.raises(ExhirdError, match=message):
        evaluate(["a"], ["a"], ["a"], **options)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([], [], []), "no documents"),
        ((["a", "b"], ["a"], ["a", "b"]), "gold has 1 documents, but there are 2 sources"),
        ((["a", "b"], ["a", "b"], {"ours": ["a"]}), "'ours' has 1 documents, but there are 2 sources"),
        ((["a"], ["a"], [System("ours", [["a"], []])]), "'ours run 2' has 0 documents, but there are 1 sources"),
        ((["a"], ["a"], {}), "nothing to evaluate; give the predictions of at least one run"),
        ((["a"], ["a"], [System("ours", [])]), "nothing to evaluate"),
    ],
)
def test_numbers_of_documents_that_differ_are_errors(arguments, message):
    with pytest.raises(ExhirdError, match=message):
        evaluate(*arguments)


def test_a_system_is_found_by_its_name_and_another_name_lists_those_there_are():
    result = evaluate(["a"], ["a"], {"ours": ["a"], "base": ["b"]})
    assert result["base"] is result.systems[1]
    with pytest.raises(ExhirdError, match="there is no system 'bass'; there is ours, base"):
        result["bass"]
