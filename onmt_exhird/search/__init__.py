"""Search over the stream: its grammar, the phrase limits and exclusive search (Algorithm 2), for every model."""

from onmt_exhird.search.constraint import StreamConstraint
from onmt_exhird.search.hypotheses import Hypotheses
from onmt_exhird.search.settings import SearchSettings, parse_window
from onmt_exhird.search.states import State

__all__ = ["Hypotheses", "SearchSettings", "State", "StreamConstraint", "parse_window"]
