"""Keyphrase generation by exclusive hierarchical decoding, as a plug-in of OpenNMT-py."""

__version__ = "0.1.0"
