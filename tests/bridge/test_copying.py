"""Copying that is right, in the models OpenNMT-py builds: what each of these asserts is false for stock 3.5.1."""

from __future__ import annotations

from typing import Any

import onmt.trainer
import onmt.utils.loss
import pytest
import torch
from helpers.bridge_models import DOCUMENTS, OPTIONS, WORDS, build, decode, losses, make_batch, make_vocabs, options
from onmt.decoders.decoder import InputFeedRNNDecoder
from onmt.inputters import text_utils
from onmt.inputters.text_utils import numericalize, tensorify
from onmt.modules import CopyGenerator

from onmt_exhird.nn.losses import stream_losses


@pytest.fixture(scope="module")
def vocabs() -> dict[str, Any]:
    return make_vocabs(WORDS)


@pytest.fixture(params=list(OPTIONS))
def model(request: pytest.FixtureRequest, vocabs: dict[str, Any]) -> Any:
    return build(options(request.param), vocabs).eval()


def test_rows_sum_to_one_in_training(model: Any, vocabs: dict[str, Any]) -> None:
    batch = make_batch(vocabs, DOCUMENTS)
    output, attention = decode(model, batch)
    most = max(map(len, batch["src_ex_vocab"]))
    total = torch.zeros(output.shape[:2])
    for token in range(len(WORDS) + most):
        if token != WORDS.index("<blank>"):
            targets = torch.full_like(batch["tgt_ext"][:, 1:], token)
            terms = stream_losses(model.generator, output, attention, batch["src_map"], targets)
            total += terms.generation.neg().exp()
    real = total[batch["tgt_ext"][:, 1:] != WORDS.index("<blank>")]
    torch.testing.assert_close(real, torch.ones_like(real), atol=1e-5, rtol=0)


def test_each_position_is_what_it_is_for_the_document_alone(model: Any, vocabs: dict[str, Any]) -> None:
    together = losses(model, make_batch(vocabs, DOCUMENTS))
    for row, document in enumerate(DOCUMENTS):
        alone = losses(model, make_batch(vocabs, [document]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=0)
        assert together[row, len(alone) :].eq(0).all()


def test_padding_is_never_attended_to(model: Any, vocabs: dict[str, Any]) -> None:
    batch = make_batch(vocabs, DOCUMENTS)
    _, attention = decode(model, batch)
    is_padding = torch.arange(batch["src"].size(1)) >= batch["srclen"].unsqueeze(1)
    assert attention.masked_select(is_padding.unsqueeze(1)).eq(0).all()


def test_a_batch_carries_extended_ids(vocabs: dict[str, Any]) -> None:
    batch = make_batch(vocabs, [DOCUMENTS[0], DOCUMENTS[1]])
    size, pad = len(WORDS), WORDS.index("<blank>")
    assert batch["src_map"][0].tolist()[2] == size and batch["src_map"][0].tolist()[-1] == size
    assert batch["src_map"][1].tolist() == [WORDS.index("graph")] + [pad] * 7
    assert batch["tgt_ext"][0].tolist()[5] == size
    assert batch["src_ex_vocab"] == [["zuvoka"], []]


@pytest.mark.parametrize("name", ["rnn", "exhird", "catseqd", "catseqcorr", "transformer"])
def test_the_loss_is_that_of_the_documents_and_reported_beside_the_exclusive_one(
    name: str, vocabs: dict[str, Any]
) -> None:
    opt = options(name, "-exclusive_loss_window", "2", "-exclusive_loss_weight", "0.5", "-gpu_ranks")
    model = build(opt, vocabs).eval()
    batch = make_batch(vocabs, DOCUMENTS)
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    compute = onmt.trainer.LossCompute.from_opts(opt, model, vocabs["tgt"])
    loss, stats = compute(batch, output, attentions)
    expected = losses(model, batch).sum().item()
    assert stats.loss == pytest.approx(expected, rel=1e-5)
    assert stats.losses["exclusive"] > 0
    assert loss.item() == pytest.approx(expected + 0.5 * stats.losses["exclusive"], rel=1e-5)
    assert (stats.n_sents, stats.n_words) == (7, int((batch["tgt_ext"][:, 1:] != 1).sum()))

    valid = onmt.trainer.LossCompute.from_opts(opt, model, vocabs["tgt"], train=False)
    loss, stats = valid(batch, output, attentions)
    assert loss.item() == pytest.approx(expected, rel=1e-5) and stats.losses == {}


def test_accuracy_counts_the_most_probable_tokens(vocabs: dict[str, Any]) -> None:
    model = build(options("rnn"), vocabs).eval()
    batch = make_batch(vocabs, DOCUMENTS[:3])
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    compute = onmt.trainer.LossCompute.from_opts(options("rnn"), model, vocabs["tgt"], train=False)
    _, stats = compute(batch, output, attentions)
    correct = 0
    for row, column in (batch["tgt_ext"][:, 1:] != 1).nonzero().tolist():
        source = batch["src_map"][row : row + 1]
        mixture = model.generator.log_mixture(
            output[row, column][None], attentions["copy"][row, column][None], source, 18
        )
        correct += int(mixture.argmax() == batch["tgt_ext"][row, column + 1])
    assert stats.n_correct == correct and stats.n_judged == stats.n_words


def test_coverage_loss_ignores_padding_and_other_documents(vocabs: dict[str, Any]) -> None:
    opt = options("rnn", "-coverage_attn", "-lambda_coverage", "1")
    model = build(opt, vocabs).eval()
    compute = onmt.trainer.LossCompute.from_opts(opt, model, vocabs["tgt"])

    def total(documents: list[tuple[str, str]]) -> float:
        batch = make_batch(vocabs, documents)
        output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
        return compute(batch, output, attentions)[0].item()

    assert total(DOCUMENTS) == pytest.approx(sum(total([document]) for document in DOCUMENTS), rel=1e-5)


def test_a_truncated_target_has_the_loss_of_its_part(vocabs: dict[str, Any]) -> None:
    opt = options("rnn", "-truncated_decoder", "5")
    model = build(opt, vocabs).eval()
    batch = make_batch(vocabs, DOCUMENTS)
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    compute = onmt.trainer.LossCompute.from_opts(opt, model, vocabs["tgt"])
    part = {name: attention[:, 3:7] for name, attention in attentions.items()}
    loss, stats = compute(batch, output[:, 3:7], part, trunc_start=3, trunc_size=5)
    assert loss.item() == pytest.approx(losses(model, batch)[:, 3:7].sum().item(), rel=1e-5)
    assert (stats.n_sents, stats.n_batchs) == (0, 0)  # counted with the first part


def test_without_copying_the_stock_decoder_is_as_it_was(vocabs: dict[str, Any]) -> None:
    opt = options("rnn")
    opt.copy_attn = False
    model = build(opt, vocabs).eval()
    stock = InputFeedRNNDecoder.from_opt(opt, model.decoder.embeddings).eval()
    stock.load_state_dict(model.decoder.state_dict())
    batch = make_batch(vocabs, DOCUMENTS)
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    states, final, _ = model.encoder(batch["src"], batch["srclen"])
    stock.init_state(batch["src"], states, final)
    expected, theirs = stock(batch["tgt"][:, :-1], states, src_len=batch["srclen"])
    assert (opt.enc_layers, opt.dec_layers) == (2, 1)  # ours would start from the last layer, upstream's from the first
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(attentions["std"], theirs["std"].transpose(0, 1))


@pytest.mark.parametrize("name", ["rnn", "transformer"])
def test_what_ours_does_not_know_goes_on_as_upstream_does(name: str, vocabs: dict[str, Any]) -> None:
    opt, vocabs = options(name, "-copy_attn_force"), dict(vocabs)
    model = build(opt, vocabs).eval()
    assert type(model.generator) is CopyGenerator
    rows = []
    for index, (source, target) in enumerate(DOCUMENTS):
        example = {"src": {"src": source}, "tgt": {"tgt": target}, "cid": "c", "cid_line_number": index}
        rows.append((numericalize(vocabs, text_utils._addcopykeys(vocabs, example)), index))
    batch = tensorify(vocabs, rows, torch.device("cpu"))
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    totals = []
    for kind in (onmt.trainer.LossCompute, onmt.utils.loss.LossCompute):
        loss, _ = kind.from_opts(opt, model, vocabs["tgt"])(batch, output, attentions)
        totals.append(loss.item())
    assert totals[0] == totals[1] > 0
