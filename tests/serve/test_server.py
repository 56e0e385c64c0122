"""The server on a real socket: clients that leave, dawdle or lie, load, stopping."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.serve_fakes import FakeGenerator, ask, post, serving
from helpers.waiting import PATIENCE, until

from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.server import Server


@pytest.fixture
def pool():
    with ThreadPoolExecutor(200) as pool:
        yield pool


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def raw(body: bytes, length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    head = (
        f"POST /v1/keyphrases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}"
    )
    return f"{head}\r\n\r\n".encode() + body


def healthy(server: Server) -> bool:
    return ask(server, "GET", "/healthz")[0] == 200


def test_a_client_that_closes_its_connection_while_it_waits_costs_no_generation(server, generator, pool):
    generator.gate.clear()
    first = pool.submit(post, server, {"documents": ["first"]})
    until(lambda: len(generator.batches) == 1)
    with connect(server) as leaving:
        leaving.sendall(raw(b'{"documents": ["leaving"]}'))
        until(lambda: server.worker.waiting == 1)
    waiting = pool.submit(post, server, {"documents": ["waiting"]})
    until(lambda: server.worker.waiting == 2)
    until(lambda: any(job.gone() for job in server.worker._queue))
    generator.gate.set()
    assert first.result(PATIENCE)[0] == waiting.result(PATIENCE)[0] == 200
    assert [documents for documents, _ in generator.batches] == [["first"], ["waiting"]]


def test_health_answers_while_all_that_may_wait_wait_and_the_rest_is_turned_away(server, generator, pool):
    generator.gate.clear()
    limits = server.worker.limits
    first = pool.submit(post, server, {"documents": ["first"]})
    until(lambda: len(generator.batches) == 1)
    others = [pool.submit(post, server, {"documents": [f"text {n}"]}) for n in range(limits.requests - 1)]
    until(lambda: server.worker.waiting == limits.requests - 1)
    status, headers, problem = post(server, {"documents": ["one too many"]})
    assert status == 429 and int(headers["retry-after"]) >= 1 and "waiting" in problem["detail"]
    assert healthy(server)
    assert f"exhird_waiting_documents {limits.requests - 1}" in ask(server, "GET", "/metrics")[2].decode().splitlines()
    generator.gate.set()
    for answer in (first, *others):
        assert answer.result(PATIENCE)[0] == 200
    assert max(len(documents) for documents, _ in generator.batches) == limits.batch


def test_what_is_under_way_when_it_stops_is_answered(generator, pool):
    with serving(generator) as server:
        generator.gate.clear()
        answers = [pool.submit(post, server, {"documents": ["text 0"]})]
        until(lambda: len(generator.batches) == 1)
        answers += [pool.submit(post, server, {"documents": [f"text {n}"]}) for n in range(1, 8)]
        until(lambda: server.worker.waiting == 7)
        server.stop()
        until(lambda: not server.worker.ready)
        assert ask(server, "GET", "/readyz")[0] == 503
        assert ask(server, "GET", "/healthz")[0] == 200
        assert post(server, {"documents": ["late"]})[0] == 503
        generator.gate.set()
        for n, answer in enumerate(answers):
            status, _, body = answer.result(PATIENCE)
            assert status == 200
            assert body["results"][0]["keyphrases"] == json.loads(
                json.dumps(generator.one(f"text {n}").to_dict()["keyphrases"])
            )
    with pytest.raises(OSError):
        connect(server)


def test_a_model_that_never_ends_does_not_keep_the_server_from_stopping(generator, pool, monkeypatch):
    monkeypatch.setattr("onmt_exhird.serve.server.DRAIN_SECONDS", 0.2)
    with serving(generator) as server:
        generator.gate.clear()
        answers = [pool.submit(post, server, {"documents": ["first"]})]
        until(lambda: len(generator.batches) == 1)
        answers.append(pool.submit(post, server, {"documents": ["second"]}))
        until(lambda: server.worker.waiting == 1)
        server.stop()
        for answer in answers:
            status, _, problem = answer.result(PATIENCE)
            assert status == 503 and "stopped" in problem["detail"]


def test_a_model_that_cannot_be_loaded_ends_the_server_with_the_reason():
    def load():
        raise ExhirdError("there is no model here; train one")

    with pytest.raises(ExhirdError, match="train one"):
        Server(load, "127.0.0.1", 0, Limits()).run()


def test_alive_but_not_ready_while_the_model_is_loaded(generator):
    loaded = threading.Event()

    def load():
        assert loaded.wait(PATIENCE)
        return generator

    with serving(generator, load=load) as server:
        assert ask(server, "GET", "/healthz")[0] == 200
        assert ask(server, "GET", "/readyz")[0] == 503
        assert post(server, {"documents": ["a"]})[0] == 503
        loaded.set()
        until(lambda: ask(server, "GET", "/readyz")[0] == 200)


def test_a_port_that_is_taken_is_said_with_the_remedy(server):
    with pytest.raises(ExhirdError, match=f"port {server.port} .*choose another --port"):
        Server(FakeGenerator, "127.0.0.1", server.port, Limits())
    with pytest.raises(ExhirdError, match="no address of this machine"):
        Server(FakeGenerator, "no.such.name.invalid", 0, Limits())
    with pytest.raises(ExhirdError, match="choose another --port"):
        Server(FakeGenerator, "127.0.0.1", 70_000, Limits())


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--allow-host", "https://example.org", "give the name alone"),
        ("--allow-host", "example.org:8443", "give the name alone"),
        ("--max-megabytes", "0", "is not between 0.001 and 1000"),
        ("--port", "70000", "there is no port 70000"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_at_once(option, value, sentence, capsys):
    assert main(["serve", option, value]) == 2
    said = capsys.readouterr().err
    assert said.startswith("exhird serve: error: ") and sentence in said


def test_bodies_that_are_too_large_are_refused_and_the_server_stays(server):
    status, _, problem = post(server, b" " * 10_000_000)
    assert status == 413 and "1,000,000 bytes" in problem["detail"]
    with connect(server) as client:  # this one is not even read
        client.sendall(raw(b"", length=10**12))
        answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413") and b"application/problem+json" in answer
    assert healthy(server)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (raw(b"{}").replace(b"Content-Length: 2", b"Content-Length: -2"), 400),
        (raw(b"{}").replace(b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 3"), 400),
        (raw(b"{}").replace(b"Content-Length: 2", b"Transfer-Encoding: gzip"), 501),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n\r\n", 403),
    ],
)
def test_what_is_not_http_is_a_problem_too(server, sent, status):
    with connect(server) as client:
        client.sendall(sent)
        answer = client.recv(65536)
    assert answer.startswith(f"HTTP/1.1 {status}".encode()) or answer.startswith(f"HTTP/1.0 {status}".encode())
    assert b"application/problem+json" in answer
    assert healthy(server)


def test_two_hundred_connections_and_half_bodies_leave_it_healthy(server, generator):
    idle = [connect(server) for _ in range(200)]
    for client in idle[:100]:
        client.sendall(raw(b'{"documents": ', length=500))
    try:
        assert healthy(server)
        assert post(server, {"documents": ["a text"]})[0] == 200
    finally:
        for client in idle:
            client.close()
    assert healthy(server)
    assert len(generator.batches) == 1


def test_a_slow_sender_is_answered_when_it_is_done(server):
    with connect(server) as client:
        for byte in raw(b'{"documents": ["slow text"]}'):
            client.sendall(bytes([byte]))
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_connection_serves_several_requests(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.connect()
    opened = connection.sock
    for _ in range(3):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()
    assert connection.sock is opened
    connection.close()
