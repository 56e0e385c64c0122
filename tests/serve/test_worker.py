"""The thread that owns the model: batches, the bound of the queue, clients that go away, stopping."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.serve_fakes import until

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
    assert loaded.wait(10)
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
        assert answer.result(10) == [generator.one(f"a{n}"), generator.one(f"b{n}")]
    assert [len(documents) for documents, _ in generator.batches] == [1, 4, 4]


def test_one_who_is_alone_waits_for_nobody(worker, generator):
    for _ in range(3):
        worker.generate(["alone"], {}, stays)
    assert [documents for documents, _ in generator.batches] == [["alone"]] * 3


def test_an_answer_does_not_wait_for_its_neighbours_long_texts(worker, generator, pool, busy):
    """The generator is lazy: what is answered can be sent while the rest of the batch is generated."""
    longest = threading.Event()

    def generate(documents, *, batch_size, **options):
        for document in documents:
            assert document != "long" or longest.wait(20)
            yield generator.one(document)

    short = send(pool, worker, ["short"], {})
    long = send(pool, worker, ["long"], {})
    generator.generate = generate
    generator.gate.set()
    assert short.result(10) == [generator.one("short")]
    assert not long.done()
    longest.set()
    assert long.result(10) == [generator.one("long")]


def test_only_equal_options_share_a_batch_and_the_first_come_is_served_first(worker, generator, pool, busy):
    options = [{"window": 0}, {"window": 1}, {"window": 0}]
    answers = [send(pool, worker, [f"document {n}"], option) for n, option in enumerate(options)]
    generator.gate.set()
    for n, (answer, option) in enumerate(zip(answers, options, strict=True)):
        assert answer.result(10) == [generator.one(f"document {n}", **option)]
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
    assert all(len(answer.result(10)) == 4 for answer in answers)
    assert worker.generate(["b"], {}, stays)


def test_more_requests_than_threads_are_turned_away_though_there_is_room_for_their_documents(generator, pool):
    loaded = threading.Event()
    worker = Worker(lambda: generator, Limits(requests=3), Metrics(), loaded.set)
    worker.start()
    assert loaded.wait(10)
    generator.gate.clear()
    taken = [pool.submit(worker.generate, ["first"], {}, stays)]
    until(lambda: len(generator.batches) == 1)
    taken += [send(pool, worker, ["waits"], {}) for _ in range(2)]
    with pytest.raises(Problem) as told:
        worker.generate(["one too many"], {}, stays)
    assert told.value.status == 429
    generator.gate.set()
    assert all(one.result(10) for one in taken)
    worker.stop()


def test_a_client_that_has_gone_costs_no_generation(worker, generator, pool, busy):
    gone = send(pool, worker, ["gone"], {}, gone=lambda: True)
    there = send(pool, worker, ["there"], {})
    generator.gate.set()
    assert there.result(10)
    with pytest.raises(ClientGone):
        gone.result(10)
    assert [documents for documents, _ in generator.batches] == [["first"], ["there"]]
    assert "exhird_abandoned_documents_total 1" in worker.metrics.render({})


def test_those_who_have_gone_make_room(worker, generator, pool, busy):
    left = threading.Event()
    gone = [send(pool, worker, ["gone"] * 4, {}, gone=left.is_set) for _ in range(3)]
    left.set()
    there = pool.submit(worker.generate, ["there"], {}, stays)
    generator.gate.set()
    assert there.result(10)
    assert all(isinstance(one.exception(10), ClientGone) for one in gone)


@pytest.mark.parametrize(("text", "status"), [("BREAK", 500), ("REFUSE", 422)])
def test_one_request_s_trouble_is_not_its_neighbours_(worker, generator, pool, busy, text, status):
    answers = [send(pool, worker, [one], {}) for one in ("before", text, "after")]
    generator.gate.set()
    assert answers[0].result(10) == [generator.one("before")]
    assert answers[2].result(10) == [generator.one("after")]
    with pytest.raises(Problem) as told:
        answers[1].result(10)
    assert told.value.status == status


def test_a_long_request_is_given_up_when_its_client_goes(worker, generator):
    """The generator is lazy: what has not been generated when the client goes is not generated."""
    left, made = threading.Event(), []

    def generate(documents, *, batch_size, **options):
        for document in documents:
            made.append(document)
            yield generator.one(document)
            left.set()

    generator.generate = generate
    with pytest.raises(ClientGone):
        worker.generate(["a", "b", "c", "d"], {}, left.is_set)
    assert made == ["a", "b"]
    assert worker.generate(["e"], {}, stays)


def test_a_wide_beam_is_many_documents_work(worker, generator):
    sizes = []

    def generate(documents, *, batch_size, beam_size=1):
        sizes.append(batch_size)
        return map(generator.one, documents)

    generator.generate = generate
    for options in ({}, {"beam_size": 2}, {"beam_size": 9}):
        worker.generate(["a"] * 5, options, stays)
    assert sizes == [5, 2, 1]


def test_stopping_answers_what_was_taken_and_takes_no_more(worker, generator, pool, busy):
    taken = send(pool, worker, ["taken"], {})
    worker.stop()
    with pytest.raises(Problem) as told:
        worker.generate(["late"], {}, stays)
    assert told.value.status == 503
    assert not worker.idle
    generator.gate.set()
    assert busy.result(10) and taken.result(10)
    until(lambda: worker.idle and not worker.alive)


def test_what_is_abandoned_is_told_so(worker, generator, pool, busy):
    queued = send(pool, worker, ["queued"], {})
    worker.stop()
    worker.abandon()
    for one in (busy, queued):
        with pytest.raises(Problem) as told:
            one.result(10)
        assert told.value.status == 503
    generator.gate.set()  # the batch ends, and its results, for nobody, do no harm
    until(lambda: not worker.alive)
    assert len(generator.batches) == 1
