"""Ray Data: ``dataset.map_batches(GenerateKeyphrases, ...)``, and ``exhird generate --engine ray``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from onmt_exhird.bulk.answering import Load, Loader
from onmt_exhird.bulk.parquet import found_columns
from onmt_exhird.engines import BATCH, FOUND, Answerer, Cluster, check_address
from onmt_exhird.errors import ExhirdError


def load_ray() -> Any:
    """Ray with its Data."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ExhirdError(f"--engine ray needs Ray ({error}): pip install 'onmt-exhird[ray]'") from error
    return ray


class GenerateKeyphrases:
    """A callable for `map_batches`: rows with ``abstract`` or ``text``, and a ``title`` if there is one, get columns.

    What was found is in ``keyphrases`` and ``truncated``, or a reason in ``error``. All other columns stay.
    docs/bulk.md has an example.
    """

    def __init__(self, load: Load | None = None) -> None:
        self.answer = Answerer(load or Loader())

    def __call__(self, batch: Any) -> Any:
        """A `pyarrow.Table` for another."""
        import pyarrow

        found = self.answer(batch.to_pylist())
        batch = batch.drop_columns([name for name in FOUND if name in batch.column_names])
        for column in found_columns():
            batch = batch.append_column(column, pyarrow.array([row[column.name] for row in found], column.type))
        return batch


class RayEngine(Cluster):
    """A Ray of this machine, or the one at an address. Who is lost is started again, and its batch goes to another.

    jobs   actors; default: one for each core but one
    """

    def __init__(self, load: Load, jobs: int | None = None, address: str | None = None) -> None:
        self.load, self.ray = load, load_ray()
        self._connect(address)
        cores = int(self.ray.cluster_resources().get("CPU", 1))
        self.jobs = jobs or max(1, cores - 1)
        # Actors that take all cores leave none for the tasks that read, and wait for these for ever.
        self.share = min(1.0, max(cores - 1, 0.5) / self.jobs)

    def _connect(self, address: str | None) -> None:
        if address and ":" in address:
            check_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            self.ray.init(address, include_dashboard=None if address else False, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            what = f"be reached at '{address}'" if address else "be started on this machine"
            raise ExhirdError(f"Ray cannot {what}: {reason}; give --address HOST:PORT of one that runs") from error
        self.ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)

    def answer(self, rows: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        answered = self.ray.data.from_items(rows, override_num_blocks=-(-len(rows) // BATCH)).map_batches(
            GenerateKeyphrases,
            fn_constructor_args=(self.load,),
            batch_format="pyarrow",
            batch_size=BATCH,
            num_cpus=self.share,
            compute=self.ray.data.ActorPoolStrategy(size=self.jobs),
        )
        for batch in answered.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from batch.to_pylist()
