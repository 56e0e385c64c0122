"""Spark: ``frame.mapInPandas(generate_keyphrases(), schema_with(frame))``, and ``exhird generate --engine spark``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from onmt_exhird.bulk.answering import Load, Loader
from onmt_exhird.engines import BATCH, FOUND, Answerer, Cluster, check_address
from onmt_exhird.errors import ExhirdError

SCHEMA = (
    "keyphrases array<struct<text:string,surface:string,present:boolean,score:double,spans:array<array<bigint>>>>, "
    "truncated boolean, error string"
)
RETRIES = 4  # of a task whose worker was lost; a local Spark would give up at once


def load_spark() -> Any:
    """The module of Spark's sessions."""
    try:
        import pandas, pyarrow, pyspark.sql  # noqa: E401, F401, I001
    except ImportError as error:
        raise ExhirdError(f"--engine spark needs Spark ({error}): pip install 'onmt-exhird[spark]'") from error
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise ExhirdError("Spark needs Java, and there is none: apt-get install default-jre-headless")
    return pyspark.sql


@cache
def _answerer(load: Load) -> Answerer:
    """The one of this process; in what Spark copies into each task it would be another every time."""
    return Answerer(load)


def generate_keyphrases(load: Load | None = None) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for `mapInPandas`: rows with ``abstract`` or ``text``, and a ``title`` if there is one, get columns.

    What was found is in ``keyphrases`` and ``truncated``, or a reason in ``error``. All other columns stay.
    """
    loader = load or Loader()

    def answer(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            found = _answerer(loader)(frame.to_dict("records"))
            yield frame.assign(**{name: [row[name] for row in found] for name in FOUND})

    return answer


def schema_with(frame: Any) -> Any:
    """The schema of what `generate_keyphrases` makes of a frame."""
    from pyspark.sql.types import StructType

    return StructType([*frame.drop(*FOUND).schema.fields, *StructType.fromDDL(SCHEMA).fields])


class SparkEngine(Cluster):
    """A Spark of this machine, or the one of a master.

    jobs   tasks at once; default: as the master says, on this machine one for each core
    """

    def __init__(self, load: Load, jobs: int | None = None, master: str | None = None) -> None:
        self.load, sessions = load, load_spark()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = master or f"local[{jobs or '*'},{RETRIES}]"
        if not master.startswith(("local", "spark://", "k8s://", "yarn")):
            raise ExhirdError(f"'{master}' is no master of Spark: give --master spark://HOST:PORT, yarn or local[N]")
        if master.startswith("spark://"):
            check_address(master)
        elif master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = (
            sessions.SparkSession.builder.master(master)
            .appName("exhird generate")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "OFF")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH))
        )
        try:
            self.session = builder.getOrCreate()
        except Exception as error:  # Java's, as Python sees it
            reason = str(error).strip().partition("\n")[0]
            raise ExhirdError(
                f"no Spark at '{master}': {reason}; give --master spark://HOST:PORT or local[N]"
            ) from error
        self.jobs = jobs or self.session.sparkContext.defaultParallelism

    def answer(self, rows: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        import pyarrow

        frame = self.session.createDataFrame(pyarrow.Table.from_pylist(rows)).repartition(-(-len(rows) // BATCH))
        answered = frame.mapInPandas(generate_keyphrases(self.load), schema_with(frame))
        yield from answered.drop("title", "text").toArrow().to_pylist()
