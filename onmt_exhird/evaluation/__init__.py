"""The evaluator: scores for keyphrase predictions of any system, each with the signature of how it was made."""

from onmt_exhird.evaluation.api import System, evaluate, f1_at_m
from onmt_exhird.evaluation.conventions import CONVENTIONS, Convention, get_convention
from onmt_exhird.evaluation.results import Evaluation, SystemResult

__all__ = ["CONVENTIONS", "Convention", "Evaluation", "System", "SystemResult", "evaluate", "f1_at_m", "get_convention"]
