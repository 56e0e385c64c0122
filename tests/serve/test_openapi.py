"""The hand-written description is true: schemathesis makes requests of it, right and wrong ones, and checks answers."""

from __future__ import annotations

import threading

import pytest
from helpers.serve_fakes import FakeGenerator
from helpers.waiting import PATIENCE
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from onmt_exhird.serve.app import create_app
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.metrics import Metrics
from onmt_exhird.serve.worker import Worker

schemathesis = pytest.importorskip("schemathesis")


def make_app():
    loaded = threading.Event()
    worker = Worker(FakeGenerator, Limits(), Metrics(), loaded.set)
    worker.start()
    assert loaded.wait(PATIENCE)
    return create_app(worker)


schema = schemathesis.openapi.from_wsgi("/openapi.json", make_app())
OPERATIONS = {operation.label: operation for operation in (found.ok() for found in schema.get_all_operations())}


def check(operation, mode, examples):
    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def run(data):
        case = data.draw(operation.as_strategy(generation_mode=mode))
        response = case.call_and_validate()
        wrong = mode == schemathesis.GenerationMode.NEGATIVE
        assert response.status_code in ((400, 415, 422) if wrong else (200,))

    run()


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_the_description_allows_is_answered_as_it_says(name):
    check(OPERATIONS[name], schemathesis.GenerationMode.POSITIVE, 60 if name.startswith("POST") else 1)


def test_what_it_does_not_allow_is_refused_as_it_says():
    check(OPERATIONS["POST /v1/keyphrases"], schemathesis.GenerationMode.NEGATIVE, 100)
