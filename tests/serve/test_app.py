"""The routes of the service, without a socket."""

from __future__ import annotations

import json
import logging

import pytest
from helpers.serve_fakes import FakeGenerator
from helpers.waiting import PATIENCE

from onmt_exhird.serve.app import HERE, create_app
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.metrics import Metrics
from onmt_exhird.serve.worker import Worker

PATHS = ["/", "/v1/model", "/healthz", "/readyz", "/metrics", "/openapi.json", "/favicon.ico", "/static/script.js"]


@pytest.fixture
def worker(generator):
    import threading

    loaded = threading.Event()
    worker = Worker(lambda: generator, Limits(bytes=2000), Metrics(), loaded.set)
    worker.start()
    assert loaded.wait(PATIENCE)
    yield worker
    worker.stop()


@pytest.fixture
def client(worker):
    return create_app(worker, ["papers.example.org"]).test_client()


def post(client, body, **options):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post("/v1/keyphrases", data=data, **({"content_type": "application/json"} | options))


def is_problem(response, status):
    assert response.status_code == status
    assert response.content_type == "application/problem+json"
    problem = json.loads(response.data)
    assert problem["status"] == status and problem["title"]
    assert problem["detail"].endswith((".", "?"))
    return problem["detail"]


def test_answers_are_what_the_generator_gives_with_ids_in_order(client, generator):
    documents = ["Neural machines", {"id": "b", "title": "On graphs", "text": "Planar graphs."}, {"id": 7, "text": ""}]
    response = post(client, {"documents": documents})
    given = [generator.one("Neural machines"), generator.one({"title": "On graphs", "text": "Planar graphs."})]
    assert response.status_code == 200 and response.content_type == "application/json"
    answer = json.loads(response.data)
    assert answer["model"] == "fake"
    assert [result.pop("id") for result in answer["results"]] == [None, "b", 7]
    assert answer["results"][:2] == [json.loads(json.dumps(one.to_dict())) for one in given]


def test_a_single_document_needs_no_list(client):
    assert post(client, {"documents": "Neural"}).data == post(client, {"documents": ["Neural"]}).data
    single = json.loads(post(client, {"documents": {"id": "x", "text": "Neural"}}).data)
    assert [result["id"] for result in single["results"]] == ["x"]


def test_options_reach_the_generator_and_no_others(client, generator):
    post(client, {"documents": ["a"], "window": "all", "max_phrases": 3.0, "beam_size": 2, "attention": True})
    post(client, {"documents": ["a"]})
    assert [options for _, options in generator.batches] == [
        {"window": "all", "max_phrases": 3, "beam_size": 2, "attention": True},
        {},
    ]


def test_text_that_is_no_proper_unicode_comes_back_as_json(client):
    response = post(
        client, b'{"documents": [{"id": "\\ud800", "text": "gr\\u00fcnes \\ud83d\\ude00 \\udc00bad\\u0000"}]}'
    )
    result = json.loads(response.data.decode("utf-8"))["results"][0]
    assert result["id"] == "\ud800"
    assert "grünes" in response.data.decode("utf-8")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b'{"documents": ["\xff"]}', "not UTF-8"),
        (b'{"documents": [], "window": NaN}', "out of range"),
        (b"[" * 1990, "out of range"),
    ],
)
def test_what_is_not_json_is_a_bad_request(client, body, says):
    assert says in is_problem(post(client, body), 400)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "JSON object"),
        ({}, "1 to 32 documents"),
        ({"documents": None}, "1 to 32 documents"),
        ({"documents": []}, "1 to 32 documents"),
        ({"documents": ["a"] * 33}, "1 to 32 documents"),
        ({"documents": [3]}, "Document 0 must be a string"),
        ({"documents": ["a", None]}, "Document 1 must be a string"),
        ({"documents": [{"id": "a"}]}, "neither 'text' nor 'title'"),
        ({"documents": [{"text": 3}]}, "'text' of document 0"),
        ({"documents": [{"text": "a", "id": True}]}, "'id' of document 0"),
        ({"documents": [{"text": "a", "id": 1.5}]}, "'id' of document 0"),
        ({"documents": [{"txt": "a"}]}, "did you mean 'text'"),
        ({"documents": ["a"], "windows": 1}, "did you mean 'window'"),
        ({"documents": ["a"], "file": "/etc/passwd"}, "known are documents"),
        ({"documents": ["a"], "window": -1}, "0 (off) to 100"),
        ({"documents": ["a"], "window": True}, "0 (off) to 100"),
        ({"documents": ["a"], "window": "ALL"}, "'all'"),
        ({"documents": ["a"], "max_phrases": 0}, "1 to 50"),
        ({"documents": ["a"], "max_phrases": 1.5}, "1 to 50"),
        ({"documents": ["a"], "beam_size": "2"}, "1 to 16"),
        ({"documents": ["a"], "attention": 1}, "true or false"),
        ({"documents": ["REFUSE"]}, "is refused; send another."),
        ({"documents": ["a" * 101, {"text": "b" * 100}], "attention": True}, "200 characters"),
        ({"documents": ["a" * 501], "beam_size": 4}, "500 characters"),
        ({"documents": [{"title": "a" * 26, "text": "b" * 25}], "beam_size": 4, "attention": True}, "50 characters"),
    ],
)
def test_what_cannot_be_done_is_said(client, body, says):
    assert says in is_problem(post(client, body), 422)


def test_other_kinds_of_body_are_refused(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert "application/json" in is_problem(post(client, {"documents": ["a"]}, content_type=kind), 415)
    is_problem(post(client, {"documents": ["a"]}, headers={"Content-Encoding": "gzip"}), 415)
    assert post(client, {"documents": ["a"]}, content_type="application/json; charset=utf-8").status_code == 200


def test_a_body_above_the_limit_is_refused_and_the_limit_named(client):
    frame = len(json.dumps({"documents": [""]}))
    assert post(client, {"documents": ["x" * (2000 - frame)]}).status_code == 200
    assert "2,000 bytes" in is_problem(post(client, {"documents": ["x" * (2001 - frame)]}), 413)


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/static/../app.py", "/static/%2e%2e/app.py", "/etc/passwd"])
def test_nothing_else_is_there(client, path):
    is_problem(client.get(path), 404)


@pytest.mark.parametrize("path", [*PATHS[:-1], "/v1/keyphrases"])
def test_other_methods_are_refused_and_the_right_one_named(client, path):
    wrong = "GET" if path == "/v1/keyphrases" else "POST"
    for method in (wrong, "DELETE", "OPTIONS"):
        response = client.open(path, method=method)
        is_problem(response, 405)
        assert wrong not in response.headers["Allow"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_keeps_a_browser_from_mischief(client, path):
    response = client.get(path)
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize(
    ("host", "origin", "allowed"),
    [
        ("127.0.0.1:8000", None, True),
        ("localhost:8000", "http://localhost:8000", True),
        ("[::1]:8000", "http://[::1]:8000", True),
        ("192.168.0.7:8000", "http://192.168.0.7:8000", True),
        ("papers.example.org", "https://papers.example.org", True),
        ("PAPERS.example.org", None, True),
        ("127.0.0.1:8000", "https://papers.example.org", True),  # a proxy that puts its own Host
        ("evil.example.com", None, False),  # a name made to mean 127.0.0.1
        ("evil.example.com:8000", "http://evil.example.com:8000", False),
        ("localhost.evil.example.com", None, False),
        ("", None, False),
        ("127.0.0.1:8000@evil.example.com", None, False),
        ("127.0.0.1:8000", "http://evil.example.com", False),
        ("127.0.0.1:8000", "http://127.0.0.1:9000", False),  # another server of the same machine
        ("127.0.0.1:8000", "null", False),
        ("127.0.0.1:8000", "http://[", False),
    ],
)
def test_a_foreign_page_cannot_use_the_server(client, generator, host, origin, allowed):
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    response = post(client, {"documents": ["a"]}, headers=headers)
    assert response.status_code == (200 if allowed else 403)
    assert bool(generator.batches) == allowed
    if not allowed:
        assert "--allow-host" in is_problem(response, 403)


def test_no_text_of_a_document_is_logged(client, caplog):
    caplog.set_level(logging.DEBUG)
    post(client, {"documents": ["BREAK xyzzy"]})
    post(client, {"documents": ["REFUSE xyzzy"]})
    post(client, {"documents": ["xyzzy"], "xyzzy": 1})
    client.get("/xyzzy?xyzzy")
    assert "ValueError" in caplog.text and "serve_fakes.py" in caplog.text
    assert "POST /v1/keyphrases 500" in caplog.text and "GET none 404" in caplog.text
    assert "xyzzy" not in caplog.text


def test_a_failure_shows_no_trace_and_the_next_request_is_answered(client):
    response = post(client, {"documents": ["BREAK this"]})
    assert "log says where" in is_problem(response, 500)
    assert b"secret" not in response.data and b"Traceback" not in response.data
    assert post(client, {"documents": ["fine"]}).status_code == 200


def test_the_model_tells_its_facts(client):
    facts = json.loads(client.get("/v1/model").data)
    assert facts["name"] == "fake" and facts["card"] == FakeGenerator.card and facts["config"] == FakeGenerator.config
    assert facts["limits"]["documents"] == 32 and facts["limits"]["bytes"] == 2000


def test_ready_until_stopping_alive_throughout(client, worker):
    assert client.get("/readyz").status_code == 200
    worker.stop()
    assert "is stopping" in is_problem(client.get("/readyz"), 503)
    assert client.get("/healthz").status_code == 200
    stopped = post(client, {"documents": ["a"]})
    assert is_problem(stopped, 503) and int(stopped.headers["Retry-After"]) >= 1


def test_not_ready_before_the_model_is_loaded():
    client = create_app(Worker(FakeGenerator, Limits(), Metrics(), lambda: None)).test_client()
    for response in (client.get("/readyz"), client.get("/v1/model"), post(client, {"documents": ["a"]})):
        assert "load" in is_problem(response, 503)
    assert client.get("/healthz").status_code == 200


def test_metrics_count_requests_documents_and_time(client):
    for documents in (["a"], ["a", "b"]):
        post(client, {"documents": documents})
    client.get("/nothing")
    client.open("/healthz", method="PROPFIND")
    lines = client.get("/metrics").data.decode().splitlines()
    assert 'exhird_requests_total{route="/v1/keyphrases",method="POST",status="200"} 2' in lines
    assert 'exhird_requests_total{route="none",method="GET",status="404"} 1' in lines
    assert any('method="other",status="405"' in line for line in lines)
    assert "exhird_documents_total 3" in lines
    assert "exhird_waiting_documents 0" in lines and "exhird_ready 1" in lines
    assert 'exhird_request_seconds_bucket{route="/v1/keyphrases",le="+Inf"} 2' in lines
    assert 'exhird_request_seconds_count{route="/v1/keyphrases"} 2' in lines


def test_metrics_do_not_grow_with_what_is_asked(client):
    def size():
        return len(client.get("/metrics").data.decode().splitlines())

    for turn in range(3):
        client.get(f"/{turn}")
        client.open("/healthz", method=f"M{turn}")
    size()  # from now on /metrics counts itself too
    before = size()
    for turn in range(30):
        client.get(f"/more{turn}?{turn}", headers={"X": str(turn)})
        client.open("/healthz", method=f"N{turn}")
    assert size() == before


def test_the_description_names_the_limits_that_hold():
    description = json.loads((HERE / "openapi.json").read_text())
    order = description["components"]["schemas"]["Order"]["properties"]
    limits = Limits()
    assert order["documents"]["anyOf"][1]["maxItems"] == limits.documents
    assert order["window"]["anyOf"][0]["maximum"] == limits.window
    assert order["max_phrases"]["maximum"] == limits.max_phrases
    assert order["beam_size"]["maximum"] == limits.beam_size
    body = description["paths"]["/v1/keyphrases"]["post"]["requestBody"]
    assert f"{limits.bytes:,} bytes" in body["description"]
