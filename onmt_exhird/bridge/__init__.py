"""Everything that knows OpenNMT-py: what is registered with it, and what of it is replaced and why.

`install` is called by the one-line module that the wheel puts beside OpenNMT-py's own transforms
(see tools/build_backend.py), so the stock commands have it, started as scripts or with ``python -m``, and so have
spawned workers. Transforms are the first of what OpenNMT-py imports from folders: only two of the modules changed
below are there by then.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import metadata
from types import TracebackType

from onmt_exhird.errors import ExhirdError

UPSTREAM = "OpenNMT-py"
SUPPORTED = "3.5.1"
SWITCH = "ONMT_EXHIRD"  # environment variable; "off" leaves OpenNMT-py as it is
HOOK = "onmt.transforms.exhird_plugin"


# Decoders: name for -decoder_type -> our class. Upstream calls -decoder_type rnn with input feeding "ifrnn".
DECODERS = {
    "exhird": "decoders.ExhirdDecoder",
    "ifrnn": "decoders.CopyingRNNDecoder",
    "catseqd": "baselines.CatSeqDDecoder",
    "catseqcorr": "baselines.CatSeqCorrDecoder",
}

# What of upstream is replaced: module -> our functions. The first line of each says what was wrong there.
SEAMS = {
    "onmt.decoders": ["seams.register_decoders"],
    "onmt.opts": ["options.add_options"],
    "onmt.utils.parse": [
        "configs.inherit_from_a_base",
        "strictness.say_what_is_unknown",
        "options.name_the_known_models",
        "data_checks.check_training_files",
        "data_checks.check_text_to_translate",
    ],
    "onmt.inputters.text_utils": ["batches.extended_ids_instead_of_source_maps"],
    "onmt.inputters.dynamic_iterator": [
        "batches.a_line_out_for_each_line_in",
        "batches.buckets_that_need_little_room",
        "places.training_data_that_goes_on",
        "corpora.lines_that_can_be_skipped",
        "data_checks.files_that_stay_as_they_are",
    ],
    "onmt.encoders.rnn_encoder": ["encoders.gru_with_its_own_gradient"],
    "onmt.model_builder": ["checkpoints.build_our_generator", "distributed.ranks_are_not_gpus"],
    "onmt.utils.misc": ["distributed.ranks_are_not_gpus"],
    "onmt.models.model_saver": ["checkpoints.load_without_running_code", "saving.save_whole_checkpoints"],
    "onmt.train_single": ["loading.go_on_from_a_whole_checkpoint", "distributed.processes_without_a_gpu"],
    "onmt.utils.distributed": ["distributed.tell_without_a_gpu"],
    "onmt.modules.embeddings": ["checkpoints.load_without_running_code", "embeddings.vectors_in_one_pass"],
    "onmt.bin.train": ["distributed.end_together", "resume.draw_a_seed"],
    "onmt.bin.translate": ["results.forget_what_is_written"],
    "onmt.bin.average_models": ["checkpoints.load_without_running_code"],
    "onmt.bin.release_model": ["checkpoints.load_without_running_code"],
    "onmt.utils.optimizers": [
        "plateau.learning_rate_with_plateau",
        "adam.adam_in_one_pass",
        "finite.skip_steps_that_are_not_finite",
        "resume.optimizer_that_brings_the_state",
    ],
    "onmt.trainer": [
        "loss.report_every_loss",
        "loss.loss_over_extended_ids",
        "loop.loop_that_loses_nothing",
        "memory.trainer_that_keeps_freed_memory",
    ],
    "onmt.scorers": ["scorer.register_scorer"],
    "onmt.inference_engine": ["data_checks.check_files_to_translate"],
    "onmt.translate.translator": ["translator.search_over_extended_ids", "output_layer.lay_out_for_search"],
    "onmt.translate.translation": ["translation.copied_words_as_themselves"],
}


def switched_off() -> bool:
    return os.environ.get(SWITCH, "").lower() in {"0", "off", "no", "false"}


def check_version(found: str) -> None:
    """The seams fit one release; with another they would fail in strange places."""
    if found != SUPPORTED:
        raise ExhirdError(
            f"onmt_exhird works with {UPSTREAM} {SUPPORTED}, but {found} is installed: "
            f"run 'pip install {UPSTREAM}=={SUPPORTED}', or set {SWITCH}=off to use {UPSTREAM} without the plug-in"
        )


def _show_without_stack_trace() -> None:
    """Upstream's commands let exceptions through; a user's mistake needs its sentence, not the stack."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, ExhirdError):
            print(f"error: {error}", file=sys.stderr)
        elif isinstance(error, KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
        else:
            show(kind, error, trace)

    sys.excepthook = excepthook


def _silence_upstream() -> None:
    """Upstream uses names that a current torch calls old, which its users can do nothing about.

    A filter of the user's own, such as ``-W error``, comes first.
    """
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"onmt\.", append=True)


def install() -> None:
    """Register the plug-in with the OpenNMT-py that is being imported."""
    if switched_off():
        return
    _silence_upstream()
    _show_without_stack_trace()
    check_version(metadata.version(UPSTREAM))
    from onmt_exhird.bridge import seams

    seams.start(SEAMS)
    from onmt_exhird.bridge import transform  # noqa: F401  (it registers itself)
