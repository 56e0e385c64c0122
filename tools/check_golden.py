"""Compare the models with golden numbers: ``check_golden.py FILE...``

A golden file holds a tiny model's weights, a few documents, and what the authors' own program computes
for them. Prints the largest difference of each quantity. Exit status: 0 all equal within the tolerances,
1 a difference, 2 a file that cannot be used.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from checks.golden_model import Documents, Model, our_name  # noqa: E402

from onmt_exhird.errors import ExhirdError  # noqa: E402
from onmt_exhird.nn.hierarchical import Decoded, HierarchicalState, Memory, read_boundaries  # noqa: E402
from onmt_exhird.nn.losses import StreamLosses, find_rivals, stream_losses  # noqa: E402
from onmt_exhird.search import SearchSettings, StreamConstraint, parse_window  # noqa: E402
from onmt_exhird.stream import BOS, END, EOS, PAD, TAGS  # noqa: E402

LOOSE = 1e-4  # log-probabilities, losses, gradients
TIGHT = 1e-5  # attentions, states, distributions


class Checker:
    """Runs the model of one file and collects the largest difference of each quantity."""

    def __init__(self, golden: dict[str, Any]) -> None:
        self.golden = golden
        self.documents = Documents.of(golden["vocab"], golden["documents"])
        self.model = Model(golden["weights"], self.documents.vocab[PAD])
        self.rows: list[tuple[str, float, float]] = []  # quantity, difference, tolerance
        self.outputs: list[tuple[str, str, str]] = []  # quantity, ours, expected

    def compare(self, quantity: str, ours: Tensor, expected: Any, tolerance: float) -> None:
        theirs = torch.tensor(expected, dtype=torch.float64).view(ours.shape)
        difference = float((ours.detach().double() - theirs).abs().max()) if ours.numel() else 0.0
        # NaN must not pass for a small difference.
        self.rows.append((quantity, difference if difference == difference else float("inf"), tolerance))

    def run(self) -> None:
        vocab, model, documents = self.documents.vocab, self.model, self.documents
        memory, first = model.encode(documents.restricted(documents.src_ext), documents.lengths)
        ids, starts = read_boundaries(documents.inputs, vocab[BOS], vocab[END])
        tgt_len = (documents.tgt_ext != vocab[PAD]).sum(1)
        decoded = model.decoder(model.embedding(ids), starts, tgt_len, memory, first)
        self.check_losses(decoded)
        self.check_gradients(decoded)
        with torch.no_grad():
            self.check_detail(memory, first, ids, starts)
            self.check_greedy(memory, first)

    def losses(self, decoded: Decoded, window: str, by_vocabulary_id: bool = False) -> StreamLosses:
        documents, vocab = self.documents, self.documents.vocab
        targets = documents.tgt_ext
        size = targets.size(1) if window == "all" else int(window)
        compared = documents.restricted(targets) if by_vocabulary_id else targets
        rivals = find_rivals(targets, [vocab[tag] for tag in TAGS], size, vocab[PAD], compared)
        return stream_losses(
            self.model.generator, decoded.attentional, decoded.attention, documents.src_ext, targets, rivals
        )

    def check_losses(self, decoded: Decoded) -> None:
        expected = [document["expected"] for document in self.golden["documents"]]
        generation = self.losses(decoded, "0").generation.detach().double()  # (batch, tgt_len)
        real = self.documents.tgt_ext != self.documents.vocab[PAD]
        log_probs = [log_p for e in expected for phrase in e["log_prob"] for log_p in phrase]
        self.compare("log-probability of tokens", -generation[real], log_probs, LOOSE)
        self.compare("nll of documents", generation.sum(1), [e["nll"] for e in expected], LOOSE)
        for window in expected[0]["exclusive_loss_extended_id"]:
            values = [e["exclusive_loss_extended_id"][window] for e in expected]
            exclusive = self.losses(decoded, window).exclusive.sum(1)
            self.compare(f"exclusive loss, K_EL {window}", exclusive, values, LOOSE)
        batch = self.golden["batch"]
        self.compare("nll of the batch", generation.sum(), batch["total_nll"], LOOSE)
        for window, value in batch["total_nll_plus_el_code"].items():
            exclusive = self.losses(decoded, window, by_vocabulary_id=True).exclusive.detach().double()
            self.compare(f"joint loss of the batch, K_EL {window}", generation.sum() + exclusive.sum(), value, LOOSE)

    def check_gradients(self, decoded: Decoded) -> None:
        expected = self.golden["gradients"]
        window = re.search(r"K_EL\s*=\s*(\d+)", expected["loss"])
        losses = self.losses(decoded, window[1] if window else "4", by_vocabulary_id=True)
        loss = losses.joint() / len(self.golden["documents"])
        self.compare("loss whose gradient is taken", loss, expected["value"], LOOSE)
        self.model.zero_grad()
        loss.backward()
        parameters = dict(self.model.named_parameters())
        for name, value in expected["grad"].items():
            gradient = parameters[our_name(name)].grad
            assert gradient is not None
            self.compare(f"gradient of {name}", gradient, value, LOOSE)

    def check_detail(self, memory: Memory, state: HierarchicalState, ids: Tensor, starts: Tensor) -> None:
        """Step by step, as in a search, where the losses came from teacher forcing."""
        detail, model = self.golden["detail"], self.model
        row, phrases = detail["doc"], self.golden["documents"][detail["doc"]]["expected"]["phrases"]
        src_len = int(self.documents.lengths[row])
        self.compare("encoder states m", memory.states[row, :src_len], detail["m"], TIGHT)
        self.compare("h_0", state.phrase_hidden[row], detail["h_0"], TIGHT)

        states, attentions, betas, mixtures = [], [], [], []
        for step in range(sum(map(len, phrases))):
            state, attention = model.decoder.step(model.embedding(ids[:, step]), starts[:, step], memory, state)
            states.append(state.map(lambda tensor: tensor[row]))
            attentions.append(attention[row, :src_len])
            betas.append(model.decoder.phrase_scores(state, memory).softmax(1)[row, :src_len])
            log_p = model.generator.log_mixture(
                state.attentional, attention, self.documents.src_ext, self.documents.extended_size
            )
            mixtures.append(log_p[row].exp())
        begin = [sum(map(len, phrases[:i])) for i in range(len(phrases))]

        def flat(name: str) -> list[list[float]]:
            return [vector for phrase in detail[name] for vector in phrase]

        self.compare("phrase states h", torch.stack([states[b].phrase_hidden for b in begin]), detail["h"], TIGHT)
        self.compare("phrase attention beta", torch.stack([betas[b] for b in begin]), detail["beta"], TIGHT)
        self.compare("attentional vectors h~", torch.stack([s.attentional for s in states]), flat("h_tilde"), TIGHT)
        self.compare("rescaled attention alpha", torch.stack(attentions), flat("alpha_rescaled"), TIGHT)

        size = len(self.documents.vocab)
        columns = [*range(size), *(size + self.documents.oov[row].index(word) for word in detail["oov_order"])]
        for expected in detail["distributions"]:
            phrase, step = expected["phrase"], expected["step"]
            ours = mixtures[begin[phrase - 1] + step][columns]
            self.compare(f"distribution of phrase {phrase}, step {step}", ours, expected["p"], TIGHT)

    def check_greedy(self, memory: Memory, first: HierarchicalState) -> None:
        limits = self.golden["greedy_settings"]
        expected = [document["expected"]["greedy"] for document in self.golden["documents"]]
        for window in expected[0]:
            settings = SearchSettings(
                exclusive_window=parse_window(window),
                min_phrases=limits["min_phrases"],
                max_phrases=limits["max_phrases"],
                max_phrase_words=limits["max_word_steps"] - 1,  # the tag takes the first of the steps
            )
            lines = self.greedy(memory, first, settings)
            for number, (ours, lines_expected) in enumerate(zip(lines, expected, strict=True), start=1):
                self.outputs.append((f"greedy, document {number}, K_ES {window}", ours, lines_expected[window]))

    def greedy(self, memory: Memory, state: HierarchicalState, settings: SearchSettings) -> list[str]:
        """The best token at every step, for all documents together."""
        documents, vocab, model = self.documents, self.documents.vocab, self.model
        constraint = StreamConstraint(list(vocab), settings)
        sequence = torch.full((len(documents.oov), 1), vocab[BOS])
        longest = settings.max_phrases * (settings.max_phrase_words + 2) + 1  # tag, words, ";", and "</s>"
        for _ in range(longest):
            ids, starts = read_boundaries(documents.restricted(sequence[:, -1]), vocab[BOS], vocab[END])
            after, attention = model.decoder.step(model.embedding(ids), starts, memory, state)
            # Where ";" is appended, not predicted, the phrase's last vector is that of the step before.
            kept = constraint.forced_end(sequence).unsqueeze(1)
            log_p = model.generator.log_mixture(
                after.attentional, attention, documents.src_ext, documents.extended_size
            )
            state = HierarchicalState(*(torch.where(kept, old, new) for old, new in zip(state, after, strict=True)))
            constraint.apply(log_p, sequence)
            sequence = torch.cat([sequence, log_p.argmax(1, keepdim=True)], 1)
        spelling = [[*vocab, *oov] for oov in documents.oov]
        rows = [[words[i] for i in row[1:]] for words, row in zip(spelling, sequence.tolist(), strict=True)]
        return [" ".join(token for token in row if token != EOS) for row in rows]

    @property
    def agrees(self) -> bool:
        numbers = all(difference <= tolerance for _, difference, tolerance in self.rows)
        return numbers and all(ours == expected for _, ours, expected in self.outputs)

    def print(self) -> None:
        for quantity, difference, tolerance in self.rows:
            verdict = "ok" if difference <= tolerance else "DIFFERS"
            print(f"  {quantity:<40} {difference:9.2e}  tolerance {tolerance:.0e}  {verdict}")
        for quantity, ours, expected in self.outputs:
            print(f"  {quantity:<40} {'equal  ok' if ours == expected else 'DIFFERS'}")
            if ours != expected:
                print(f"    ours      {ours}\n    expected  {expected}")


def load(path: Path) -> dict[str, Any]:
    """A golden file; `ExhirdError` says what is wrong with another file."""
    try:
        golden = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExhirdError(f"{path} cannot be read: {error.strerror}; give the path of a golden file") from None
    except ValueError as error:
        raise ExhirdError(f"{path} is not JSON ({error}); give a golden file such as model_public.json") from None
    needed = ["vocab", "weights", "documents", "batch", "greedy_settings", "detail", "gradients"]
    missing = [key for key in needed if not isinstance(golden, dict) or not golden.get(key)]
    if missing:
        raise ExhirdError(f"{path} has no '{missing[0]}'; give a golden file of a model such as model_public.json")
    without = [name for name in golden["weights"] if name not in golden["gradients"]["grad"]]
    if without:
        raise ExhirdError(f"{path} has no gradient of '{without[0]}'; give a golden file with one for every weight")
    for number, document in enumerate(golden["documents"], start=1):
        if document["expected"]["phrases"] != split_target(document["tgt"]):
            raise ExhirdError(f"{path}: the expected phrases of document {number} are not those of its target")
    return golden


def split_target(tokens: Sequence[str]) -> list[list[str]]:
    """The tokens of each phrase, and of the end.

    >>> split_target("<p_start> graph ; <a_start> tree ;".split())
    [['<p_start>', 'graph', ';'], ['<a_start>', 'tree', ';'], ['</s>']]
    """
    phrases: list[list[str]] = [[]]
    for token in [*tokens, EOS]:
        phrases[-1].append(token)
        if token == END:
            phrases.append([])
    return phrases


def check(path: Path) -> bool:
    """Print the differences of one file; whether all are within the tolerances."""
    try:
        checker = Checker(load(path))
        checker.run()
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise ExhirdError(f"{path} is not a complete golden file ({type(error).__name__}: {error})") from error
    print(path)
    checker.print()
    return checker.agrees


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the models with golden numbers.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a golden file of a model")
    files = parser.parse_args(arguments).files
    try:
        results = [check(path) for path in files]
    except ExhirdError as error:
        print(f"check_golden: {error}", file=sys.stderr)
        return 2
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
