"""The baselines inside OpenNMT-py: their own losses in training only, checkpoints, every search."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onmt.trainer
import pytest
import torch
from helpers.bridge_models import DOCUMENTS, VOCABS, WORDS, build, losses, make_batch, make_vocabs, options
from helpers.stock import run_stock, translate
from onmt.bin import train
from onmt.model_builder import build_base_model
from safetensors.torch import save_file

from onmt_exhird import stream
from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.catseq import CatSeqStep
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.orthogonal import orthogonal_loss
from onmt_exhird.nn.target_encoder import DRAWN

Made = Callable[[str], Path]
BASELINES = ["catseqd", "catseqcorr"]
END_ID = WORDS.index(";")


def run(model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor], Any]:
    """The outputs, the attentions, and what the pure model made."""
    seen: list[Any] = []
    hook = model.decoder.sequence.register_forward_hook(lambda module, inputs, output: seen.append(output))
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    hook.remove()
    return output, attentions, seen[0]


def fill_queue(model: Any, batch: dict[str, Any]) -> None:
    while len(model.decoder.queue.held()) < DRAWN:
        run(model, batch)


def test_the_orthogonal_loss_is_of_the_states_that_predict_the_end_of_a_phrase() -> None:
    model = build(options("catseqd"))
    batch = make_batch(VOCABS, DOCUMENTS)
    _, _, decoded = run(model, batch)
    expected = 0.0
    for row in range(len(DOCUMENTS)):
        states = decoded.hidden[row][batch["tgt_ext"][row, 1:] == END_ID]  # by target, not by input
        assert len(states) == DOCUMENTS[row][1].split().count(";")
        expected += orthogonal_loss(states[None], torch.ones(1, len(states), dtype=torch.bool)).item()
    assert model.decoder.auxiliary["orthogonal"].item() == pytest.approx(expected, rel=1e-5)


def test_the_target_encoder_is_judged_where_it_has_read_whole_phrases() -> None:
    model = build(options("catseqd"))
    batch = make_batch(VOCABS, DOCUMENTS)
    fill_queue(model, batch)
    _, _, decoded = run(model, batch)
    has_read = batch["tgt"][:, :-1, 0] == END_ID
    _, final, _ = model.encoder(batch["src"], batch["srclen"])
    document = torch.cat([final[-2], final[-1]], 1)
    expected = model.decoder.sequence.target_encoder.recognition_loss(
        decoded.target, has_read, document, model.decoder.others
    )
    assert model.decoder.others.shape == (7, DRAWN, 8)
    assert model.decoder.auxiliary["target_encoder"].item() == pytest.approx(expected.sum().item(), rel=1e-5)


def test_a_document_is_not_drawn_against_itself() -> None:
    model = build(options("catseqd"))
    fill_queue(model, make_batch(VOCABS, DOCUMENTS[:3]))
    run(model, make_batch(VOCABS, DOCUMENTS[3:]))
    apart = (model.decoder.others - model.decoder.document.unsqueeze(1)).abs().amax(2)  # (4, drawn)
    assert apart.min() > 1e-4
    assert torch.equal(model.decoder.queue.vectors[-4:], model.decoder.document)


def test_there_is_no_loss_of_the_target_encoder_while_few_documents_were_seen() -> None:
    model = build(options("catseqd"))
    run(model, make_batch(VOCABS, DOCUMENTS))
    assert list(model.decoder.auxiliary) == ["orthogonal"]


@pytest.mark.parametrize(
    ("more", "weights"), [([], (0.03, 0.03)), (["-orthogonal_weight", "0.5", "-target_encoder_weight", "2"], (0.5, 2))]
)
def test_training_minimises_all_losses_and_reports_that_of_generation(more: list[str], weights: tuple) -> None:
    opt = options("catseqd", *more)
    model = build(opt)
    batch = make_batch(VOCABS, DOCUMENTS)
    fill_queue(model, batch)
    output, attentions, _ = run(model, batch)
    extra = model.decoder.auxiliary
    assert set(extra) == {"orthogonal", "target_encoder"} and all(value > 0 for value in extra.values())
    compute = onmt.trainer.LossCompute.from_opts(opt, model, VOCABS["tgt"])
    loss, stats = compute(batch, output, attentions)
    assert stats.losses == pytest.approx({name: value.item() for name, value in extra.items()})
    added = weights[0] * extra["orthogonal"] + weights[1] * extra["target_encoder"]
    assert loss.item() == pytest.approx(stats.loss + added.item(), rel=1e-5)
    assert stats.loss == pytest.approx(losses(model.eval(), batch).sum().item(), rel=1e-5)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.decoder.parameters())


def test_validation_knows_the_generation_loss_alone() -> None:
    opt = options("catseqd")
    model = build(opt)
    batch = make_batch(VOCABS, DOCUMENTS)
    fill_queue(model, batch)
    held = model.decoder.queue.held()
    output, attentions, _ = run(model.eval(), batch)
    assert model.decoder.auxiliary == {} and torch.equal(model.decoder.queue.held(), held)
    compute = onmt.trainer.LossCompute.from_opts(opt, model, VOCABS["tgt"], train=False)
    loss, stats = compute(batch, output, attentions)
    assert loss.item() == pytest.approx(stats.loss)


def test_a_model_without_copying_has_the_losses_too() -> None:
    opt = options("catseqd")
    opt.copy_attn = False
    model = build(opt)
    batch = make_batch(VOCABS, DOCUMENTS)
    output, attentions, _ = run(model, batch)
    compute = onmt.trainer.LossCompute.from_opts(opt, model, VOCABS["tgt"])
    loss, stats = compute(batch, output, attentions)
    assert loss.item() == pytest.approx(stats.loss + 0.03 * model.decoder.auxiliary["orthogonal"].item(), rel=1e-5)


def test_random_draws_follow_the_seed() -> None:
    batch = make_batch(VOCABS, DOCUMENTS)
    values = []
    for _ in range(2):
        model = build(options("catseqd"))
        fill_queue(model, batch)
        run(model, batch)
        values.append(model.decoder.auxiliary["target_encoder"].item())
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("name", "beside"), [("catseqd", {"decoder.queue.vectors", "decoder.queue.filled"}), ("catseqcorr", set())]
)
def test_checkpoints_hold_parameters_and_the_queue(name: str, beside: set[str]) -> None:
    model = build(options(name))
    run(model, make_batch(VOCABS, DOCUMENTS))
    assert set(model.state_dict()) == {parameter for parameter, _ in model.named_parameters()} | beside


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("format", ["pt", "safetensors"])
def test_models_pass_through_the_loaders_of_upstream(name: str, format: str, tmp_path: Path) -> None:
    opt = options(name)
    model = build(opt)
    batch = make_batch(VOCABS, DOCUMENTS)
    run(model, batch)
    other = build_base_model(opt, VOCABS)
    if format == "pt":
        state = model.state_dict()
        body = {key: tensor for key, tensor in state.items() if "generator" not in key}
        other.load_state_dict({"model": body, "generator": model.generator.state_dict()})
    else:
        save_file({key: tensor.clone() for key, tensor in model.state_dict().items()}, tmp_path / "m.0.safetensors")
        other.load_safe_state_dict(str(tmp_path / "m"))
    torch.testing.assert_close(losses(other.eval(), batch), losses(model.eval(), batch))
    if name == "catseqd":
        assert len(other.decoder.queue.held()) == 7
        assert torch.equal(other.decoder.queue.held(), model.decoder.queue.held())


def queue_of(checkpoint: Path) -> torch.Tensor:
    """The vectors of the documents that a checkpoint has in its queue."""
    model = load_harmless(checkpoint)["model"]
    return model["decoder.queue.vectors"][model["decoder.queue.filled"] > 0]


def test_a_resumed_run_goes_on_with_the_queue(workshop: Path) -> None:
    common = ["-config", "catseqd.yaml", "-save_model", "queue", "-valid_steps", 9]
    run_stock("onmt_train", *common, "-train_steps", 3, cwd=workshop)
    before = queue_of(workshop / "queue_step_3.pt")
    assert len(before) == 60  # three batches of 20, less than there is room for
    resume = ["-train_steps", 5, "-train_from", "queue_step_3.pt", "-report_every", 1]
    log = run_stock("onmt_train", *common, *resume, cwd=workshop).stderr
    assert re.search(r"Step +4/.* orthogonal: \d\S* target_encoder: \d", log)  # at once: the queue was not empty
    after = queue_of(workshop / "queue_step_5.pt")
    assert len(after) == 100 and torch.equal(after[:60], before)


@pytest.mark.parametrize("name", BASELINES)
def test_a_truncated_target_goes_on_from_the_detached_state(name: str) -> None:
    model = build(options(name))
    batch = make_batch(VOCABS, DOCUMENTS)
    whole, _ = model(batch["src"], batch["tgt"], batch["srclen"])
    first, _ = model(batch["src"], batch["tgt"][:, :5], batch["srclen"])
    model.decoder.detach_state()
    assert not any(tensor.requires_grad for tensor in model.decoder.state["model"])
    second, _ = model(batch["src"], batch["tgt"][:, 4:], batch["srclen"], bptt=True)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)


@pytest.mark.parametrize("name", BASELINES)
def test_dropout_can_be_changed_in_training(name: str) -> None:
    model = build(options(name))
    model.update_dropout(0.4, None)
    output, _, decoded = run(model, make_batch(VOCABS, DOCUMENTS))
    assert output.eq(0).any() and not decoded.attentional.eq(0).any()


def test_a_vocabulary_without_ends_is_named() -> None:
    words = [word for word in WORDS if word != ";"]
    with pytest.raises(ExhirdError, match=r"the target vocabulary lacks ;: build it from .*'exhird prepare'"):
        build_base_model(options("catseqd"), make_vocabs(words))


def test_catseq_is_the_stock_decoder_started_from_the_encoders_last_layer() -> None:
    opt = options("rnn")
    assert (opt.enc_layers, opt.dec_layers) == (2, 1)
    model = build(opt)
    batch = make_batch(VOCABS, DOCUMENTS)
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    states, final, _ = model.encoder(batch["src"], batch["srclen"])
    decoder = model.decoder
    ours = CatSeqStep(opt.tgt_word_vec_size, opt.dec_hid_size)
    stock = decoder.rnn.layers[0]
    # Stock cells read [x; h~] and combine [context; h]; ours [h~; x] and [h; context].
    x, h_tilde = stock.weight_ih.split([opt.tgt_word_vec_size, opt.dec_hid_size], 1)
    context, h = decoder.attn.linear_out.weight.chunk(2, 1)
    ours.load_state_dict(
        {
            "cell.weight_ih": torch.cat([h_tilde, x], 1),
            "cell.weight_hh": stock.weight_hh,
            "cell.bias_ih": stock.bias_ih,
            "cell.bias_hh": stock.bias_hh,
            "attention": decoder.attn.linear_in.weight.T,
            "combine": torch.cat([h, context], 1),
        }
    )
    hidden, attentional = torch.cat([final[-2], final[-1]], 1), torch.zeros(len(DOCUMENTS), opt.dec_hid_size)
    memory = Memory.of(states, batch["srclen"])
    for position, embedded in enumerate(decoder.embeddings(batch["tgt"][:, :-1]).unbind(1)):
        hidden, attentional, attention = ours(embedded, memory, hidden, attentional)
        torch.testing.assert_close(output[:, position], attentional, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(attentions["copy"][:, position], attention, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("option", ["orthogonal_weight", "target_encoder_weight"])
def test_a_negative_weight_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    needed = ["-data", "{}", "-src_vocab", "v", "-save_model", "m"]
    with pytest.raises(SystemExit):
        train._get_parser().parse_args([*needed, f"-{option}=-1"])
    assert "-1 is less than 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize(
    ("options", "n_best"),
    [
        (["-beam_size", 3, "-n_best", 3], 3),
        (["-random_sampling_topk", 5, "-beam_size", 1, "-seed", 3], 1),
        (["-random_sampling_topp", 0.9, "-beam_size", 3, "-n_best", 2, "-seed", 3], 2),
    ],
    ids=["n-best", "top-k", "nucleus"],
)
def test_every_search_writes_streams_without_repeated_first_words(
    name: str, options: list, n_best: int, workshop: Path, made: Made
) -> None:
    exclusive = ["-exclusive_search", "-exclusive_window", "all"]
    lines = translate(workshop, made(name), "test.src", *options, *exclusive)
    assert len(lines) == 23 * n_best
    for line in lines:
        first_words = [phrase.words[0] for phrase in stream.parse(line)]
        assert len(first_words) == len(set(first_words)) >= 1
