"""A trained model that stands on its own: text in, keyphrases out."""

from onmt_exhird.generator.api import KeyphraseGenerator
from onmt_exhird.generator.results import Keyphrase, Keyphrases

__all__ = ["Keyphrase", "KeyphraseGenerator", "Keyphrases"]
