"""A local Ray, a local Spark and Parquet files give what the plain call gives. For ``make test-engines``."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.bulk_fakes import load
from helpers.fake_generator import FakeGenerator
from helpers.files import TESTS
from helpers.waiting import until

from onmt_exhird.bulk.folder import Folder
from onmt_exhird.bulk.run import fill
from onmt_exhird.bulk.shards import Writer
from onmt_exhird.cli import main
from onmt_exhird.cli.answers import Answer, JsonlForm, Selection
from onmt_exhird.documents.items import Item
from onmt_exhird.engines import Cluster

pytestmark = pytest.mark.engines
ENGINES = ("ray", "spark")
EXHIRD = str(Path(sys.executable).parent / "exhird")
DOCUMENTS = 20_000


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))  # of the engines' workers, too
    return tmp_path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records, a small model, and what the plain call finds for them."""
    from helpers.generator_models import make, texts

    from onmt_exhird.generator.api import KeyphraseGenerator

    path = tmp_path_factory.mktemp("corpus")
    KeyphraseGenerator(make()).save_pretrained(path / "model")
    with (path / "a.jsonl").open("w") as file:
        for number, text in enumerate(texts(DOCUMENTS, longest=12)):
            title = {"title": "On graphs"} if number % 3 else {}
            file.write(json.dumps({"id": f"d{number}", "text": text} | title) + "\n")
    command = ["generate", str(path / "a.jsonl"), "--model", str(path / "model"), "--output", str(path / "plain.jsonl")]
    assert main(command) == 0
    return path


def written(pattern: str = "out/shard-*") -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path().glob(pattern)))


def assert_same(corpus: Path) -> None:
    """The same ids, once each and in order, and the same phrases; scores may differ a little.

    A batch of other documents adds its numbers up in another order, and random weights let that grow to 6e-4; that
    it is rounding and nothing else is seen in `tests/generator/test_api.py`.
    """
    wanted = [json.loads(line) for line in (corpus / "plain.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in written().splitlines()]
    scores = [[phrase.pop("score") for one in some for phrase in one["keyphrases"]] for some in (found, wanted)]
    assert found == wanted
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def tree(pid: int) -> Iterator[int]:
    """A process and those that it has started, and so on."""
    yield pid
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from tree(int(child))
    except OSError:
        return


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def workers_of(pid: int, engine: str) -> list[int]:
    """The processes in which an engine calls us: Ray's actors; of Spark's, the children of the one that forks them."""
    names = {"ray": "ray::MapWorker", "spark": "pyspark.daemon"}
    found = [one for one in tree(pid) if names[engine] in command_of(one)]
    return found if engine == "ray" else found[1:]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_worker_is_killed_and_no_document_is_lost_or_doubled(engine: str, corpus: Path) -> None:
    command = [EXHIRD, "generate", str(corpus / "a.jsonl"), "--model", str(corpus / "model"), "--output-dir", "out"]
    options = ["--engine", engine, "--jobs", "2", "--shard-size", "1000"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE)
    until(lambda: workers_of(process.pid, engine) and process.poll() is None)
    time.sleep(random.Random(3).uniform(4, 6))  # it has loaded the model, and works
    victim = workers_of(process.pid, engine)[0]
    os.kill(victim, signal.SIGKILL)
    err = process.communicate()[1].decode()
    assert process.returncode == 0, err
    assert_same(corpus)
    Path("out/shard-000007.jsonl").unlink()
    assert subprocess.run([*command, "--shard-size", "1000"]).returncode == 0  # whoever goes on, it is the same folder
    assert_same(corpus)


def to_dict(item: Item, identity: Any, result: Any) -> dict[str, Any]:
    return JsonlForm(Selection()).to_dict(Answer(item, identity, result), result)


@pytest.mark.parametrize("engine", ENGINES)
def test_documents_that_kill_or_fail_become_error_records(engine: str) -> None:
    texts = [f"Planar graphs {number}" for number in range(1200)]
    texts[100], texts[101], texts[702] = "a poison", "another poison", "a broken one"
    items = [Item(f"line {number}", text) for number, text in enumerate(texts, start=1)]
    items.append(Item("line 1201", fault="no JSON"))

    def start() -> Cluster:
        from onmt_exhird.engines.ray import RayEngine
        from onmt_exhird.engines.spark import SparkEngine

        return RayEngine(load, 2) if engine == "ray" else SparkEngine(load, 2)

    with Folder(Path("out"), {}).opened() as folder:
        failed = fill(folder, lambda: items, 300, Writer(Path("out"), "jsonl", to_dict), start)
    assert failed == 4
    records = [json.loads(line) for line in written().splitlines()]
    errors = {record["id"]: record["error"] for record in records if "error" in record}
    assert errors.keys() == {101, 102, 703, 1201}
    assert "set aside" in errors[101] and "RuntimeError: no such layer" in errors[703]
    fake = FakeGenerator()
    for record, text in zip(records, texts, strict=False):
        if "error" not in record:
            assert record == {"id": record["id"]} | json.loads(json.dumps(fake.answer(text).to_dict()))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--engine", "ray", "--address", "127.0.0.1:9"], "nobody answers at '127.0.0.1:9'"),
        (["--engine", "ray", "--address", "nowhere"], "Ray cannot be reached at 'nowhere'"),
        (["--engine", "spark", "--master", "spark://127.0.0.1:9"], "nobody answers at 'spark://127.0.0.1:9'"),
        (["--engine", "spark", "--master", "nowhere"], "'nowhere' is no master of Spark"),
    ],
)
def test_wrong_addresses_are_told(arguments: list[str], sentence: str) -> None:
    Path("a.txt").write_text("Planar graphs\n")
    done = subprocess.run([EXHIRD, "generate", "a.txt", "--output-dir", "out", *arguments], capture_output=True)
    assert done.returncode == 2 and sentence in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_the_functions_for_other_people_s_programs_keep_ids_and_columns(corpus: Path) -> None:
    import pyspark.sql
    import ray

    from onmt_exhird.bulk.answering import Loader
    from onmt_exhird.engines.ray import GenerateKeyphrases, RayEngine
    from onmt_exhird.engines.spark import SparkEngine, generate_keyphrases, schema_with

    wanted = [json.loads(line) for line in (corpus / "plain.jsonl").read_text().splitlines()[:40]]
    rows = [json.loads(line) for line in (corpus / "a.jsonl").read_text().splitlines()[:40]]
    rows = [{"id": row["id"], "year": 1990 + n, "title": row.get("title"), "text": row["text"], "error": "old"}
            for n, row in enumerate(rows)]  # fmt: skip
    loader = Loader(str(corpus / "model"))
    ray.shutdown()
    RayEngine(loader)
    options = {"batch_format": "pyarrow", "compute": ray.data.ActorPoolStrategy(size=1), "num_cpus": 0.5}
    by_ray = ray.data.from_items(rows).map_batches(GenerateKeyphrases, fn_constructor_args=(loader,), **options)
    session: pyspark.sql.SparkSession = SparkEngine(loader, 2).session
    frame = session.createDataFrame(rows, "id string, year int, title string, text string, error string")
    by_spark = frame.mapInPandas(generate_keyphrases(loader), schema_with(frame))
    for found in (by_ray.take_all(), [row.asDict(recursive=True) for row in by_spark.collect()]):
        assert sorted(row["id"] for row in found) == sorted(row["id"] for row in rows)
        by_id = {row["id"]: row for row in found}
        for row, record in zip(rows, wanted, strict=True):
            one = by_id[row["id"]]
            assert [phrase["text"] for phrase in one["keyphrases"]] == [p["text"] for p in record["keyphrases"]]
            assert [phrase["spans"] for phrase in one["keyphrases"]] == [p["spans"] for p in record["keyphrases"]]
            assert (one["truncated"], one["error"]) == (False, None)
            assert (one["year"], one["text"]) == (row["year"], row["text"])


def test_parquet_in_and_out(corpus: Path) -> None:
    import datetime

    import pyarrow
    import pyarrow.parquet

    lines = (corpus / "a.jsonl").read_text().splitlines()[:700]
    rows = [{"title": None} | json.loads(line) | {"day": datetime.date(2020, 1, 1)} for line in lines]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "a.parquet")
    command = ["generate", "a.parquet", "--model", str(corpus / "model")]
    assert main([*command, "--output-dir", "out", "--format", "parquet", "--shard-size", "300", "--jobs", "2"]) == 0
    tables = [pyarrow.parquet.read_table(path) for path in sorted(Path("out").glob("shard-*.parquet"))]
    assert [table.num_rows for table in tables] == [300, 300, 100]
    wanted = [json.loads(line) for line in (corpus / "plain.jsonl").read_text().splitlines()[:700]]
    assert pyarrow.concat_tables(tables).to_pylist() == [record | {"error": None} for record in wanted]
    first = written()
    Path("out").rename("before")
    assert main([*command, "--output-dir", "out", "--format", "parquet", "--shard-size", "300"]) == 0
    assert written() == first
    assert main([*command, "--output", "b.jsonl", "--keep"]) == 0
    kept = json.loads(Path("b.jsonl").read_text().splitlines()[0])
    assert kept["day"] == "2020-01-01" and kept["keyphrases"] == wanted[0]["keyphrases"]


def test_odd_parquet_files(capfd: Any) -> None:
    import pyarrow
    import pyarrow.parquet

    Path("no.parquet").write_text("planar")
    assert main(["generate", "no.parquet"]) == 2
    assert "no.parquet: not a Parquet file" in capfd.readouterr().err
    pyarrow.parquet.write_table(pyarrow.table({"body": ["x"]}), "other.parquet")
    assert main(["generate", "other.parquet"]) == 2
    assert "other.parquet, row 1: " in capfd.readouterr().err
    assert main(["generate", "other.parquet", "--text-key", "body", "--output", "c.jsonl"]) == 0


def test_ids_and_broken_letters_in_parquet() -> None:
    import pyarrow.parquet

    from onmt_exhird.bulk.parquet import encode

    Path("a.parquet").write_bytes(encode([{"id": 7, "error": "half a letter: \ud800"}, {"id": "x", "keyphrases": []}]))
    rows = pyarrow.parquet.read_table("a.parquet").to_pylist()
    assert [row["id"] for row in rows] == ["7", "x"]
    assert rows[0]["error"] == "half a letter: \\ud800" and rows[1]["keyphrases"] == []
