"""A generator without a model, and a server around it."""

from __future__ import annotations

import pytest
from helpers.serve_fakes import FakeGenerator, serving


@pytest.fixture
def generator():
    return FakeGenerator()


@pytest.fixture
def server(generator):
    with serving(generator) as server:
        yield server
