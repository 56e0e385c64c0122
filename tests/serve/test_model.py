"""``exhird serve`` with a real, small model, as a command."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from helpers.generator_models import make, texts
from helpers.serve_fakes import EXHIRD, ask, command, post
from helpers.waiting import PATIENCE, until

from onmt_exhird import KeyphraseGenerator
from onmt_exhird.cli import main
from onmt_exhird.generator.api import CONSTRAINTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model folder, of a model made by hand."""
    folder = tmp_path_factory.mktemp("serve") / "model"
    KeyphraseGenerator(make()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As the servers started here have, and as a model of a few hundred numbers wants."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def generator(folder) -> KeyphraseGenerator:
    return KeyphraseGenerator.from_pretrained(folder)


@pytest.fixture(scope="module")
def server(folder):
    with command("--model", folder) as server:
        yield server
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0


def plain(result) -> dict:
    return json.loads(json.dumps({"id": None} | result.to_dict()))


def test_answers_equal_the_python_call_s_whatever_was_in_the_batch_beside_them(server, generator):
    """Requests of several sizes and options at once; each answer is that of the document alone."""
    rng = random.Random(3)
    options = [{}, {"window": 0}, {"window": "all"}, {"max_phrases": 2}, {"beam_size": 3}, {"attention": True}]
    orders = [(texts(rng.randint(1, 9), seed=number), options[number % 6]) for number in range(24)]

    def ask(order):
        while True:
            answer = post(server, {"documents": order[0]} | order[1])
            if answer[0] != 429:  # on a slow machine so many at once may be more than wait at a time
                return answer
            time.sleep(0.2)

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(ask, orders))
    for (asked, chosen), (status, _, answer) in zip(orders, answers, strict=True):
        assert status == 200 and answer["model"] == "made-exhird"
        assert answer["results"] == [plain(generator(text, **chosen)) for text in asked]
    assert any(result["keyphrases"] for result in answers[0][2]["results"])


@pytest.mark.parametrize(
    "document",
    ["", " ", "\0", "\ud800", "中文 文本", "?" * 5000, {"title": "fast graph"}, {"title": "", "text": ""}, "a " * 2000],
)
def test_any_text_is_answered(server, generator, document):
    status, _, answer = post(server, {"documents": [document]})
    assert status == 200
    assert answer["results"] == [plain(generator(document))]


def test_the_model_is_told(server, generator):
    status, _, facts = ask(server, "GET", "/v1/model")
    assert status == 200
    assert facts["name"] == "made-exhird" and facts["card"] == generator.card
    assert facts["config"] == json.loads(json.dumps(generator.config))


def test_eight_requests_that_wait_are_answered_when_it_is_told_to_stop(folder, generator):
    asked = texts(8)
    expected = [plain(result) for result in generator(asked, attention=True)]

    def waiting():
        lines = ask(server, "GET", "/metrics")[2].decode().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("exhird_waiting_documents ")))

    with command("--model", folder) as server, ThreadPoolExecutor(10) as pool:
        orders = [{"documents": texts(29), "beam_size": 9}, {"documents": texts(30), "beam_size": 10}]
        before = [pool.submit(post, server, order) for order in orders]
        until(lambda: waiting() in (29, 30))  # one is under way, the other waits, and so will all others
        answers = [pool.submit(post, server, {"documents": asked, "attention": True}) for _ in range(8)]
        until(lambda: waiting() in (64, 64 + 29, 64 + 30))  # all eight, whether or not the other still waits
        server.process.send_signal(signal.SIGTERM)
        for answer in answers:
            status, _, body = answer.result(PATIENCE)
            assert status == 200 and body["results"] == expected
        assert [answer.result(PATIENCE)[0] for answer in before] == [200, 200]
        stdout, stderr = server.process.communicate(timeout=PATIENCE)
        assert server.process.returncode == 0
    assert stdout.endswith("exhird serve: stopped\n")
    assert "Traceback" not in stderr and asked[0] not in stderr


def test_a_model_that_is_not_there_is_said_in_a_sentence(tmp_path):
    done = subprocess.run(
        [EXHIRD, "serve", "--port", "0", "--model", tmp_path / "none"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("exhird serve: error: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize("size", ["0", "-1", "nan", "2000"])
def test_a_size_that_makes_no_sense_is_refused(capsys, size):
    assert main(["serve", f"--max-megabytes={size}"]) == 2
    assert "--max-megabytes" in capsys.readouterr().err


def test_the_size_of_a_request_can_be_chosen(folder):
    with command("--model", folder, "--max-megabytes", "0.01") as server:
        status, _, problem = post(server, {"documents": ["x" * 10_000]})
        assert status == 413 and "10,000 bytes" in problem["detail"]


def test_options_that_clients_think_up_do_not_fill_the_memory(generator):
    for most in range(1, CONSTRAINTS + 5):
        generator("fast graph", max_phrases=most)
    assert len(generator._constraints) == CONSTRAINTS
