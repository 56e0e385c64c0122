"""The thread that owns the model: batches, the bound of the queue, clients that go away, stopping."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.waiting import PATIENCE, until

from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.metrics import Metrics
from onmt_exhird.serve.problems import ClientGone, Problem
from onmt_exhird.serve.worker import Worker


def stays() -> bool:
    return False


@pytest.fixture
def worker(generator):
    loaded = threading.Event()
    worker = Worker(lambda: generator, Limits(batch=5, waiting=12), Metrics(), loaded.set)
    worker.start()
    assert loaded.wait(PATIENCE)
    yield worker
    generator.gate.set()
    worker.stop()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(30) as pool:
        yield pool


@pytest.fixture
def busy(worker, generator, pool):
    """A batch is under way until the gate is opened."""
    generator.gate.clear()
    first = pool.submit(worker.generate, ["first"], {}, stays)
    until(lambda: len(generator.batches) == 1)
    return first


def send(pool, worker, documents, options, gone=stays):
    """Submit, and wait until it is in the queue, so that the order is known."""
    before = worker.waiting
    sent = pool.submit(worker.generate, documents, options, gone)
    until(lambda: worker.waiting == before + len(documents))
    return sent


def test_what_has_come_is_taken_at_once_up_to_a_batch(worker, generator, pool, busy):
    answers = [send(pool, worker, [f"a{n}", f"b{n}"], {}) for n in range(4)]
    generator.gate.set()
    for n, answer in enumerate(answers):
        assert answer.result(PATIENCE) == [generator.one(f"a{n}"), generator.one(f"b{n}")]
    assert [len(documents) for documents, _ in generator.batches] == [1, 5, 3]


def test_one_who_is_alone_waits_for_nobody(worker, generator):
    for _ in range(3):
        worker.generate(["alone"], {}, stays)
    assert [documents for documents, _ in generator.batches] == [["alone"]] * 3


def test_an_answer_does_not_wait_for_its_neighbours_long_texts(worker, generator, pool, busy):
    """What is finished is sent while the rest is generated, whatever came first."""
    longest = threading.Event()

    def generate(arrivals, **options):
        documents = next(arrivals)
        for number in reversed(range(len(documents))):
            assert documents[number] != "long" or longest.wait(PATIENCE)
            yield number, generator.one(documents[number])

    long = send(pool, worker, ["long"], {"window": 0})
    short = send(pool, worker, ["short"], {"window": 0})
    generator.generate_as_finished = generate
    generator.gate.set()
    assert short.result(PATIENCE) == [generator.one("short")]
    assert not long.done()
    longest.set()
    assert long.result(PATIENCE) == [generator.one("long")]


def test_those_who_come_join_those_who_are_under_way(worker, generator, pool):
    """But for those with other options, which wait for the end, and whom nobody overtakes then."""
    go_on, asked = threading.Semaphore(0), []

    def generate(arrivals, **options):
        waiting, count = [], 0
        for documents in arrivals:
            asked.append((documents, options))
            waiting += enumerate(documents, start=count)
            count += len(documents)
            assert go_on.acquire(timeout=PATIENCE)
            number, document = waiting.pop(0)
            yield number, generator.one(document, **options)

    generator.generate_as_finished = generate
    first = pool.submit(worker.generate, ["a", "b"], {}, stays)
    until(lambda: len(asked) == 1)
    joins = send(pool, worker, ["c"], {})
    go_on.release()
    until(lambda: len(asked) == 2)
    other = send(pool, worker, ["d"], {"window": 0})
    late = send(pool, worker, ["e"], {})
    for _ in range(4):
        go_on.release()
    assert first.result(PATIENCE) == [generator.one("a"), generator.one("b")]
    assert joins.result(PATIENCE) and other.result(PATIENCE) == [generator.one("d", window=0)] and late.result(PATIENCE)
    assert asked == [(["a", "b"], {}), (["c"], {}), ([], {}), (["d"], {"window": 0}), (["e"], {})]


def test_only_equal_options_share_a_batch_and_the_first_come_is_served_first(worker, generator, pool, busy):
    options = [{"window": 0}, {"window": 1}, {"window": 0}]
    answers = [send(pool, worker, [f"document {n}"], option) for n, option in enumerate(options)]
    generator.gate.set()
    for n, (answer, option) in enumerate(zip(answers, options, strict=True)):
        assert answer.result(PATIENCE) == [generator.one(f"document {n}", **option)]
    assert generator.batches[1:] == [
        (["document 0", "document 2"], {"window": 0}),
        (["document 1"], {"window": 1}),
    ]


def test_a_full_queue_turns_away_and_says_for_how_long(worker, generator, pool, busy):
    answers = [send(pool, worker, ["a"] * 4, {}) for _ in range(3)]
    with pytest.raises(Problem) as told:
        worker.generate(["b"], {}, stays)
    assert told.value.status == 429 and told.value.retry_after >= 1
    generator.gate.set()
    assert all(len(answer.result(PATIENCE)) == 4 for answer in answers)
    assert worker.generate(["b"], {}, stays)


def test_more_requests_than_threads_are_turned_away_though_there_is_room_for_their_documents(generator, pool):
    loaded = threading.Event()
    worker = Worker(lambda: generator, Limits(requests=3), Metrics(), loaded.set)
    worker.start()
    assert loaded.wait(PATIENCE)
    generator.gate.clear()
    taken = [pool.submit(worker.generate, ["first"], {}, stays)]
    until(lambda: len(generator.batches) == 1)
    taken += [send(pool, worker, ["waits"], {}) for _ in range(2)]
    with pytest.raises(Problem) as told:
        worker.generate(["one too many"], {}, stays)
    assert told.value.status == 429
    generator.gate.set()
    assert all(one.result(PATIENCE) for one in taken)
    worker.stop()


def test_a_client_that_has_gone_costs_no_generation(worker, generator, pool, busy):
    gone = send(pool, worker, ["gone"], {}, gone=lambda: True)
    there = send(pool, worker, ["there"], {})
    generator.gate.set()
    assert there.result(PATIENCE)
    with pytest.raises(ClientGone):
        gone.result(PATIENCE)
    assert [documents for documents, _ in generator.batches] == [["first"], ["there"]]
    assert "exhird_abandoned_documents_total 1" in worker.metrics.render({})


def test_those_who_have_gone_make_room(worker, generator, pool, busy):
    left = threading.Event()
    gone = [send(pool, worker, ["gone"] * 4, {}, gone=left.is_set) for _ in range(3)]
    left.set()
    there = pool.submit(worker.generate, ["there"], {}, stays)
    generator.gate.set()
    assert there.result(PATIENCE)
    assert all(isinstance(one.exception(10), ClientGone) for one in gone)


@pytest.mark.parametrize(("text", "status"), [("BREAK", 500), ("REFUSE", 422)])
def test_one_request_s_trouble_is_not_its_neighbours_(worker, generator, pool, busy, text, status):
    answers = [send(pool, worker, [one], {}) for one in ("before", text, "after")]
    generator.gate.set()
    assert answers[0].result(PATIENCE) == [generator.one("before")]
    assert answers[2].result(PATIENCE) == [generator.one("after")]
    with pytest.raises(Problem) as told:
        answers[1].result(PATIENCE)
    assert told.value.status == status


def test_a_long_request_is_given_up_when_its_client_goes(worker, generator):
    """Whether the model has just finished something or asks for more: what is left is not generated."""
    left, made = threading.Event(), []

    def generate(arrivals, **options):
        for number, document in enumerate(next(arrivals)):
            made.append(document)
            yield number, generator.one(document)
            left.set()

    def ask(arrivals, **options):
        made.extend(next(arrivals))
        left.set()
        next(arrivals)
        yield 0, generator.one("never")

    plain = generator.generate_as_finished
    for generator.generate_as_finished, expected in ((generate, ["a", "b"]), (ask, ["a", "b", "c", "d"])):
        with pytest.raises(ClientGone):
            worker.generate(["a", "b", "c", "d"], {}, left.is_set)
        assert made == expected
        left.clear()
        made.clear()
    generator.generate_as_finished = plain
    assert worker.generate(["e"], {}, stays)


def test_a_wide_beam_is_many_documents_work(worker, generator):
    for options in ({}, {"beam_size": 2}, {"beam_size": 9}):
        assert len(worker.generate(["a"] * 5, options, stays)) == 5
    assert [len(documents) for documents, _ in generator.batches] == [5, 2, 2, 1, 1, 1, 1, 1, 1]


def test_stopping_answers_what_was_taken_and_takes_no_more(worker, generator, pool, busy):
    taken = send(pool, worker, ["taken"], {})
    worker.stop()
    with pytest.raises(Problem) as told:
        worker.generate(["late"], {}, stays)
    assert told.value.status == 503
    assert not worker.idle
    generator.gate.set()
    assert busy.result(PATIENCE) and taken.result(PATIENCE)
    until(lambda: worker.idle and not worker.alive)


def test_what_is_abandoned_is_told_so(worker, generator, pool, busy):
    queued = send(pool, worker, ["queued"], {})
    worker.stop()
    worker.abandon()
    for one in (busy, queued):
        with pytest.raises(Problem) as told:
            one.result(PATIENCE)
        assert told.value.status == 503
    generator.gate.set()  # the batch ends, and its results, for nobody, do no harm
    until(lambda: not worker.alive)
    assert len(generator.batches) == 1
