"""``exhird generate --output-dir``: shards, their manifest, workers that die and documents that kill them."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.bulk_fakes import count_documents, die, texts_of
from helpers.fake_generator import FakeGenerator
from helpers.files import TESTS
from helpers.waiting import PATIENCE, until

import onmt_exhird.generator
from onmt_exhird.bulk import shards
from onmt_exhird.bulk.answering import Loader
from onmt_exhird.bulk.progress import Progress
from onmt_exhird.bulk.shards import cut
from onmt_exhird.bulk.workers import Pool
from onmt_exhird.cli import main
from onmt_exhird.documents.items import Item
from onmt_exhird.errors import ExhirdError

COMMAND = [sys.executable, str(TESTS / "helpers" / "fake_generator.py"), "generate"]
COUNT = 53


class Deadly(FakeGenerator):
    """Dies of documents with a word, once of others, raises at a third kind; notes each process that loads it."""

    def answer(self, text: str) -> Any:
        if "poison" in text or ("once" in text and not Path("died").exists()):
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if "broken" in text:
            raise RuntimeError("no such layer")
        return super().answer(text)

    @classmethod
    def from_pretrained(cls, model: str | None = None, *, device: str = "cpu") -> FakeGenerator:
        with Path("loaded").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return cls()


@pytest.fixture(autouse=True)
def deadly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(onmt_exhird.generator, "KeyphraseGenerator", Deadly, raising=False)
    monkeypatch.chdir(tmp_path)


def write_input(count: int = COUNT, name: str = "a.jsonl", **texts: str) -> None:
    """Records d0, d1, ...; every third has no id; some with other texts."""
    with Path(name).open("w") as file:
        for number in range(count):
            record = {"text": texts.get(f"d{number}", f"Planar graphs of {'colour ' * (number % 5)}")}
            file.write(json.dumps(record | ({"id": f"d{number}"} if number % 3 else {})) + "\n")


def generate(*arguments: str) -> int:
    return main(["generate", "a.jsonl", "--output-dir", "out", "--shard-size", "10", "--batch-size", "4", *arguments])


def plain() -> bytes:
    assert main(["generate", "a.jsonl", "--output", "plain.jsonl"]) == 0
    return Path("plain.jsonl").read_bytes()


def written(folder: str = "out") -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(folder).glob("shard-*")))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_the_shards_are_what_the_plain_call_writes(jobs: str) -> None:
    write_input()
    assert generate("--jobs", jobs) == 0
    assert written() == plain()
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert [shard["documents"] for shard in manifest["shards"]] == [10, 10, 10, 10, 10, 3]
    assert (manifest["documents"], manifest["failed"]) == (COUNT, 0)
    assert sorted(os.listdir("out")) == [".lock", "manifest.json", *(f"shard-{n:06}.jsonl" for n in range(6))]
    assert Path("loaded").read_text().split() == [str(os.getpid())] * 2  # once here for all, once for the plain call


def test_compressed_shards_hold_the_same_and_the_same_bytes_each_time() -> None:
    write_input()
    assert generate("--format", "jsonl.gz") == 0
    assert b"".join(gzip.decompress(path.read_bytes()) for path in sorted(Path("out").glob("*.gz"))) == plain()
    first = content(Path("out"))
    Path("out").rename("before")
    assert generate("--format", "jsonl.gz", "--jobs", "2") == 0
    assert content(Path("out")) == first


def test_a_second_call_does_only_what_is_missing() -> None:
    write_input()
    assert generate() == 0
    before = content(Path("out"))
    times = {path: path.stat().st_mtime_ns for path in Path("out").iterdir() if path.name != ".lock"}
    Path("loaded").unlink()
    assert generate("--jobs", "2") == 0
    assert not Path("loaded").exists()
    assert {path: path.stat().st_mtime_ns for path in times} == times
    Path("out/shard-000002.jsonl").unlink()
    Path("out/shard-000004.jsonl").write_bytes(before["shard-000004.jsonl"][:-9])  # cut short by someone
    assert generate() == 0
    assert content(Path("out")) == before
    again = {path.name for path, then in times.items() if path.stat().st_mtime_ns != then}
    assert again == {"shard-000002.jsonl", "shard-000004.jsonl", "manifest.json"}


def test_a_folder_made_otherwise_is_refused_with_the_difference(capfd: Any) -> None:
    write_input()
    assert generate("--top", "2") == 0
    before = content(Path("out"))
    assert generate("--window", "all") == 2
    assert 'made otherwise: options window: null there, "all" now; options top: 2 there, null now' in (
        capfd.readouterr().err
    )
    write_input(COUNT + 1)
    assert generate("--top", "2") == 2
    assert re.search(r"inputs 1 bytes: \d+ there, \d+ now", capfd.readouterr().err)
    write_input(d0="Other graphs of ")
    assert generate("--top", "2") == 2
    assert "inputs 1 sha256:" in capfd.readouterr().err
    assert content(Path("out")) == before
    for text, sentence in (("{}", "not written by this version"), ("{", "no JSON")):
        Path("out/manifest.json").write_text(text)
        assert generate("--top", "2") == 2
        assert sentence in capfd.readouterr().err
    Path("out/manifest.json").unlink()
    assert generate("--top", "2") == 2
    assert "has shard-000000.jsonl, and no manifest.json" in capfd.readouterr().err


def test_a_killed_worker_s_shard_is_done_again(capfd: Any) -> None:
    write_input(d17="Graphs once")
    assert generate("--jobs", "2") == 0
    assert "a worker process died (signal 9, SIGKILL) on shard 1; it is done again" in capfd.readouterr().err
    assert written() == plain()


def test_a_document_that_kills_workers_is_set_aside_and_the_rest_is_done(capfd: Any) -> None:
    write_input(d13="Graphs poison", d16="Graphs poison again", d29="broken thing", d30="")
    assert generate("--jobs", "2") == 3
    err = capfd.readouterr().err
    assert err.count("it is done again") == 4 and err.count("set aside") == 2  # two deaths in company, one alone, each
    assert "3 of 53 records failed" in err
    records = [json.loads(line) for line in written().splitlines()]
    assert [record["id"] for record in records] == [f"d{n}" if n % 3 else n + 1 for n in range(COUNT)]
    failed = {record["id"]: record["error"] for record in records if "error" in record}
    assert failed.keys() == {"d13", "d16", "d29"}
    assert failed["d13"].startswith("a.jsonl, line 14: set aside, since the process that worked on it died 3 times")
    assert failed["d29"] == "a.jsonl, line 30: the model failed on it: RuntimeError: no such layer"
    Path("b.jsonl").write_text("".join(line + "\n" for line in Path("a.jsonl").read_text().splitlines()))
    sound = [line for line in Path("a.jsonl").read_text().splitlines() if not re.search("poison|broken", line)]
    Path("a.jsonl").write_text("\n".join(sound))
    others = [json.loads(line)["keyphrases"] for line in plain().splitlines()]
    assert [record["keyphrases"] for record in records if "error" not in record] == others
    Path("b.jsonl").rename("a.jsonl")
    assert generate() == 3  # nothing is left to do; that some failed is told again
    assert "3 of 53 records failed" in capfd.readouterr().err


def test_bad_records_are_refused_before_any_work_or_become_error_records(capfd: Any) -> None:
    write_input()
    with Path("a.jsonl").open("a") as file:
        file.write('{"id": "bad"}\n')
    assert generate() == 2
    assert "a.jsonl, line 54: " in capfd.readouterr().err
    assert not Path("loaded").exists() and not list(Path("out").glob("shard*"))
    assert generate("--keep-going") == 3
    last = json.loads(written().splitlines()[-1])
    assert last["id"] == "bad" and last["error"].startswith("a.jsonl, line 54: ")


def test_workers_that_die_before_they_begin_end_the_run() -> None:
    shard = next(cut([Item("a", "Planar")], 5))
    told = r"3 worker processes died \(signal 9, SIGKILL\) before they began"
    with Pool(die, count_documents, 2, share=False, say=print) as pool, pytest.raises(ExhirdError, match=told):
        list(pool.run([shard]))


def test_workers_can_load_the_model_themselves(tmp_path: Path) -> None:
    from helpers.generator_models import make, texts

    from onmt_exhird.generator.api import KeyphraseGenerator

    generator = KeyphraseGenerator(make())
    generator.save_pretrained("model")
    documents = texts(23)
    loader = Loader("model", options=(("max_phrases", 4),))
    for share in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(onmt_exhird.generator, "KeyphraseGenerator", KeyphraseGenerator)
            with Pool(loader, texts_of, 2, share, print) as pool:
                for _ in range(2):  # the workers stay for a second run
                    items = [Item("", document) for document in documents]
                    found = dict(pool.run(cut(items, 6)))
                assert [one for number in sorted(found) for one in found[number]] == [
                    result.texts for result in generator.generate(documents, max_phrases=4)
                ]


@contextmanager
def full_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that has no room for a shard."""
    write_whole = shards.write_whole

    def write(path: Path, data: bytes) -> None:
        if path.name == f"shard-{number:06}.jsonl":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_whole", write)
        yield


def test_a_full_disk_ends_the_run_with_a_sentence_and_what_is_done_stays(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    write_input()
    with full_at(3, monkeypatch):
        assert generate("--jobs", "1") == 2
    assert "shard-000003.jsonl: cannot be written: No space left on device" in capfd.readouterr().err
    assert len(list(Path("out").glob("shard-*.jsonl"))) == 3
    assert generate() == 0
    assert written() == plain()


def test_what_is_noted_after_a_line_that_was_cut_short_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    write_input()
    with full_at(2, monkeypatch):
        assert generate("--jobs", "1") == 2
    with Path("out/shards.jsonl").open("a") as file:
        file.write('{"number": 2, "na')
    with full_at(4, monkeypatch):
        assert generate("--jobs", "1") == 2
    noted = [json.loads(line)["number"] for line in Path("out/shards.jsonl").read_text().splitlines()]
    assert noted == [0, 1, 2, 3]
    assert generate() == 0
    assert written() == plain()


def test_long_documents_make_small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "LETTERS", 100)
    items = [Item("", "a" * 60), Item("", ("b" * 30, "c" * 40)), Item("", "d"), Item("", fault="bad")]
    assert [len(shard.asked) for shard in cut(items, 3)] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-", "--output-dir", "out"], "--output-dir reads files"),
        (["a.jsonl", "--jobs", "2"], "--jobs is about --output-dir"),
        (["a.jsonl", "--format", "parquet"], "name one with --output-dir"),
        (["a.jsonl", "--output-dir", "out", "--format", "csv"], "--output-dir writes jsonl, jsonl.gz, parquet"),
        (["a.jsonl", "--output-dir", "out", "--output", "b"], "leave one of them out"),
        (["a.jsonl", "--output-dir", "out", "--highlight"], "--highlight is for people, --output-dir for programs"),
        (["a.jsonl", "--output-dir", "a.jsonl"], "a.jsonl: cannot be written into"),
        (["a.jsonl", "--output-dir", "out", "--model", "none"], "there is no model 'none'"),
    ],
)
def test_mistakes_are_told(arguments: list[str], sentence: str, capfd: Any) -> None:
    write_input(1)
    assert main(["generate", *arguments]) == 2
    assert sentence in capfd.readouterr().err


@pytest.mark.parametrize(("address", "what"), [(None, "be started on this machine"), ("auto", "be reached at 'auto'")])
def test_a_ray_that_does_not_come_is_told_with_the_remedy(
    address: str | None, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray, data = ModuleType("ray"), ModuleType("ray.data")

    def init(*_: object, **__: object) -> None:
        raise RuntimeError("no room\nfor it")

    ray.init, ray.data = init, data  # type: ignore[attr-defined]
    for module in (ray, data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    from onmt_exhird.engines.ray import RayEngine

    with pytest.raises(ExhirdError, match=f"^Ray cannot {what}: no room; give --address HOST:PORT of one that runs$"):
        RayEngine(Loader(), 1, address)


def test_an_empty_input_has_an_empty_folder() -> None:
    write_input(0)
    assert generate() == 0
    assert json.loads(Path("out/manifest.json").read_text())["shards"] == []


def test_progress_tells_the_speed_and_the_time_left(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    now = iter([100.0, 110.0, 140.0, 150.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    progress = Progress(1000, 100)
    progress.watch(50)  # too early for a log
    progress.done += 200
    progress.watch(100)
    progress.end()
    assert capfd.readouterr().err == (
        "exhird generate: 400 of 1,000 documents, 7.5 a second, 1 min 20 s left\n"
        "exhird generate: 200 documents in 50 s, 4.0 a second\n"
    )


def start(seconds: str, *arguments: str) -> subprocess.Popen[bytes]:
    options = ["a.jsonl", "--output-dir", "out", "--shard-size", "50", "--batch-size", "10", "--jobs", "2"]
    return subprocess.Popen(
        [*COMMAND, *options, *arguments], env=os.environ | {"FAKE_SECONDS": seconds}, stderr=subprocess.PIPE
    )


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(number) for number in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.fixture
def begun() -> Iterator[subprocess.Popen[bytes]]:
    """A run that has two workers and a shard."""
    write_input(1000)
    process = start("0.4")  # long enough for a busy machine to start another one meanwhile
    until(lambda: len(workers_of(process)) == 2 and list(Path("out").glob("shard-*.jsonl")))
    yield process
    process.kill()


def test_the_workers_of_a_killed_run_end_too_and_the_next_call_goes_on(begun: subprocess.Popen[bytes]) -> None:
    workers = workers_of(begun)
    busy = subprocess.run([*COMMAND, "a.jsonl", "--output-dir", "out", "--shard-size", "50", "--batch-size", "10"],
                          capture_output=True)  # fmt: skip
    assert busy.returncode == 2 and b"another exhird generate writes into it" in busy.stderr
    begun.kill()
    begun.wait()
    Path("out/.shard-000009.jsonl.1.part").write_bytes(b"half")
    assert start("0").wait() == 0  # at once: nobody has to wait for the workers of the one before
    until(lambda: not any(map(alive, workers)))
    assert written() == plain() and not list(Path("out").glob(".*.part"))


def test_ctrl_c_ends_all_at_once(begun: subprocess.Popen[bytes]) -> None:
    workers = workers_of(begun)
    begun.send_signal(signal.SIGINT)
    assert begun.wait(timeout=PATIENCE) == 130
    assert begun.stderr is not None and begun.stderr.read().endswith(b"exhird generate: interrupted\n")
    assert not any(map(alive, workers))
    assert start("0").wait() == 0
    assert written() == plain()


def test_killed_at_random_and_resumed_the_bytes_are_the_same() -> None:
    write_input(4000)
    rng = random.Random(5)
    for victim in ("run", "worker", "run", "worker", "worker"):
        process = start("0.02")
        until(lambda: len(workers_of(process)) == 2)  # noqa: B023
        time.sleep(rng.uniform(0.05, 0.4))
        if victim == "worker":
            os.kill(rng.choice(workers_of(process)), signal.SIGKILL)
            time.sleep(0.1)
        process.kill()
        process.wait()
    assert start("0").wait() == 0
    assert written() == plain()
    interrupted = content(Path("out"))
    Path("out").rename("before")
    assert start("0").wait() == 0
    assert content(Path("out")) == interrupted


@pytest.mark.parametrize(
    ("module", "arguments", "sentence"),
    [
        ("pyarrow", ["--format", "parquet"], "Parquet needs pyarrow: pip install 'onmt-exhird[parquet]'"),
        ("ray", ["--engine", "ray"], "pip install 'onmt-exhird[ray]'"),
        ("pyspark", ["--engine", "spark"], "pip install 'onmt-exhird[spark]'"),
        ("none", ["--engine", "spark", "--address", "a:1"], "--address is about --engine ray"),
        ("none", ["--master", "local"], "--master is about --engine spark"),
        ("none", ["--device", "xyz"], "--device xyz cannot be used"),
        ("pyspark", ["--engine", "spark", "--device", "xyz"], "pip install 'onmt-exhird[spark]'"),
    ],
)
def test_what_is_not_installed_is_named_with_its_remedy(
    module: str, arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    for name in (module, f"{module}.sql", f"{module}.data"):
        monkeypatch.setitem(sys.modules, name, None)
    write_input(1)
    assert generate(*arguments) == 2
    assert sentence in capfd.readouterr().err
    assert not Path("out").exists()
