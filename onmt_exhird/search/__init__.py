"""Search over the stream: its grammar, the phrase limits and exclusive search (Algorithm 2), for every model."""

from onmt_exhird.search.constraint import StreamConstraint
from onmt_exhird.search.greedy import Hypotheses, best
from onmt_exhird.search.settings import SearchSettings, parse_window
from onmt_exhird.search.states import State

__all__ = ["Hypotheses", "SearchSettings", "State", "StreamConstraint", "best", "parse_window"]
