"""The README of a model folder: what people should know of a model before they use it."""

from __future__ import annotations

from typing import Any

MISSING = "*Not given.* Whoever trained the model knows; `exhird export --card FILE` puts it here."

# What only the one who trained the model can say.
SECTIONS = ("Training data", "Training settings", "Scores", "Limits", "Licence")


def describe_text(text: dict[str, Any]) -> str:
    """The language and the choices of a model's text, in a line."""
    subwords = text.get("subwords")
    pieces = f", pieces of words by {subwords['tokenizer']} ({subwords['kind']})" if subwords else ""
    digits = "numbers kept" if text["digits"] == "keep" else "numbers as <digit>"
    return f"language {text['language']}, case: {text['case']}, accents: {text['accents']}, {digits}{pieces}"


def describe_thesaurus(manner: dict[str, Any]) -> str:
    """When a phrase is added, in a line."""
    own = "" if manner["rearranged"] is None else " and those of the document's own words in another order"
    return (
        f"adds phrases that many authors use{own}: present ones from a chance of {manner['present']['least']} on, "
        f"absent ones from {manner['absent']['least']} on, up to {manner['most_absent']} with the decoder's own"
    )


def write_card(config: dict[str, Any]) -> str:
    """A card of what is known; what is not is marked as missing, not invented."""
    architecture, search = config["architecture"], config["search"]
    window = "all" if search["window"] is None else search["window"]
    generated = architecture.get("generated")
    facts = {
        "decoder": architecture["decoder"],
        "vocabulary": f"{architecture['vocab_size']:,} {'pieces' if 'subwords' in config.get('text', {}) else 'words'}"
        + ("" if generated is None else f", {generated:,} of which can be generated, the others copied"),
        "sizes": f"embedding {architecture['embedding_size']}, states {architecture['hidden_size']}, "
        f"{architecture['encoder_layers']} encoder layers",
        **({"text": describe_text(config["text"])} if "text" in config else {}),
        "precision of the file": config["precision"],
        "documents": f"read up to {config['max_source']} tokens at a time",
        "search": f"window {window}, beam {search['beam_size']}, at most {search['max_phrases']} phrases "
        f"of {search['max_phrase_words']} words",
        **({"thesaurus": describe_thesaurus(config["thesaurus"])} if "thesaurus" in config else {}),
    }
    lines = [f"# {config['name']}", "", "A keyphrase model for onmt_exhird.", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {fact} |" for name, fact in facts.items()]
    for section in SECTIONS:
        lines += ["", f"## {section}", "", MISSING]
    return "\n".join(lines) + "\n"
