# `make help` lists what can be made. Everything sets itself up: Python 3.11 is all that is needed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
PINNED ?= .venv-pinned
ENGINES ?= .venv-engines
BIN = $(VENV)/bin
ALL_CORES = OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadfile
# On a busy machine the threads of a matrix product would spin for each other: docs/reliability.md.
ifndef OMP_WAIT_POLICY
export GOMP_SPINCOUNT ?= 1000
endif

.PHONY: help setup test lint unit demo docs test-models test-browser test-engines test-faults test-mutants test-package \
	test-pinned test-processors test-random test-upstream clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: $(VENV)/.ready  ## install everything into .venv, once

$(VENV)/.ready: requirements.lock setup.py pyproject.toml tools/build_backend.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "Python 3.11 is needed: install it, or say where it is with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test: lint unit  ## lint, types and all tests

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck -x recipes/*.sh recipes/*/run.sh tools/checks/*.sh

unit: $(VENV)/.ready
	$(ALL_CORES) --cov --cov-report=term:skip-covered

demo: $(VENV)/.ready  ## train on a small corpus made on the spot, and show what the model has learned
	PATH="$(CURDIR)/$(BIN):$$PATH" recipes/demo/run.sh

test-models: $(VENV)/.ready  ## train every model: to a sensible score on the demo's corpus, and in two processes (minutes)
	$(BIN)/pytest -v -s -m models tests/recipes/test_models.py tests/bridge/test_distributed.py

# What other machines have: torch's instructions, oneDNN's.
PROCESSORS = avx2:AVX2 default:SSE41
NUMBERS = $(filter-out $(WORDS_ONLY:%=tests/bridge/test_%.py),$(wildcard tests/bridge/test_*.py)) \
	tests/nn tests/search tests/generator tests/serve tests/tools
WORDS_ONLY = upstream guest options configs install transform

test-processors: $(VENV)/.ready  ## the tests that touch numbers, as on older processors, on one thread and on two
	@set -e; for isa in $(PROCESSORS); do for threads in 1 2; do \
		echo "== ATEN_CPU_CAPABILITY=$${isa%:*} DNNL_MAX_CPU_ISA=$${isa#*:}, threads: $$threads"; \
		ATEN_CPU_CAPABILITY=$${isa%:*} DNNL_MAX_CPU_ISA=$${isa#*:} OMP_NUM_THREADS=$$threads \
			$(BIN)/pytest -q $(NUMBERS); \
	done; done

test-upstream: $(VENV)/.ready  ## OpenNMT-py's own tests, and a table of its commands, without and with the plug-in
	$(BIN)/python tools/checks/upstream.py

test-browser: $(VENV)/.ready  ## drive the page in a browser (a minute; installs Debian's chromium if there is none)
	command -v chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps playwright==1.65.0 greenlet==3.5.6
	$(BIN)/pytest -v -m browser tests/serve/test_browser.py

test-faults: $(VENV)/.ready  ## kill trainings at random moments, fill the disk, cut checkpoints short (minutes)
	$(BIN)/pytest -v -s -m faults tests/bridge/test_faults.py

test-random: $(VENV)/.ready  ## what holds for all texts and numbers, with other ones each time
	$(ALL_CORES) -m hypothesis --hypothesis-profile random

MUTATE = onmt_exhird  # a module, or a folder of them; SAMPLE=20: so many changes of each

test-mutants: $(VENV)/.ready  ## change the code in one place after the other: a test must fail (MUTATE=..., SAMPLE=...)
	$(BIN)/python tools/checks/mutants.py $(MUTATE) $(SAMPLE:%=--sample %)

docs: $(VENV)/.ready  ## run what the documentation and the notebooks show, and write its output anew
	$(BIN)/python tests/helpers/blocks.py README.md docs/*.md
	$(BIN)/python tests/helpers/notebooks.py notebooks/*.ipynb

test-package: $(VENV)/.ready  ## a wheel and a source distribution, each in an empty environment (minutes)
	PATH="$(CURDIR)/$(BIN):$$PATH" PYTHON=$(PYTHON) tools/checks/package.sh

test-pinned: $(PINNED)/.ready  ## the tests with OpenNMT-py's own pins: torch 2.2, numpy 1 (a large download)
	$(PINNED)/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	$(PINNED)/bin/pytest -q tests

$(PINNED)/.ready: setup.py pyproject.toml tools/build_backend.py
	$(PYTHON) -m venv $(PINNED)
	$(PINNED)/bin/pip install --quiet --disable-pip-version-check . pytest hypothesis setuptools wheel
	@touch $@

test-engines: $(ENGINES)/.ready  ## a local Ray and a local Spark, and Parquet (minutes; installs Debian's Java if there is none)
	command -v java >/dev/null || { apt-get update && apt-get install -y --no-install-recommends default-jre-headless; }
	$(ENGINES)/bin/pytest -v -m engines tests/engines/test_engines.py

$(ENGINES)/.ready: requirements.lock requirements-engines.lock setup.py pyproject.toml tools/build_backend.py
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock -r requirements-engines.lock
	$(ENGINES)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

clean:  ## remove what was made
	rm -rf $(VENV) $(PINNED) $(ENGINES) run build *.egg-info
