# Few commands, the same here and in CI. Each makes .venv and installs what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.ready-run
READY := $(VENV)/.ready
THOROUGH := $(VENV)/.ready-thorough
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
PEERS := benchmarks/.venv/.ready
ADAPTERS := .venv-adapters
DOCS := .venv-docs
DIST := .venv-dist
OUT ?= out
SEEDS ?= 1000
SIDE_BY_SIDE := -n auto --dist loadfile --no-loadscope-reorder
unexport PYTHONDONTWRITEBYTECODE  # Python compiles what is imported once, not in every process; so pip need not

.PHONY: run test test-thorough test-adapters test-browser docs brokers chromium install bench torture dist clean lint types layers pytest

run: $(RUNNABLE)  ## reproduce the paper and write the report
	$(BIN)/siag reproduce --out $(OUT)

test: lint  ## what a change must pass first; layers, then types, which take one core, beside the tests
	$(MAKE) --no-print-directory --jobs=2 pytest layers types

test-adapters: $(ADAPTERS)/.ready brokers  ## what needs torch, JAX and others, in an environment of its own
	$(ADAPTERS)/bin/python -m pytest -o addopts='-q --strict-markers --strict-config --doctest-modules --ignore-glob=*conftest.py' \
		tests/adapters src/siag/adapters

test-browser: $(ADAPTERS)/.ready chromium  ## the dashboard, in a browser
	$(ADAPTERS)/bin/python -m pytest -o addopts='-q --strict-markers --strict-config' tests/browser

chromium:  # from the packages of Debian
	@if ! command -v chromium > /dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
		else echo "make test-browser needs chromium; install with: apt-get install chromium" >&2; exit 1; fi; fi

brokers:  # that adapters are tested with, from the packages of Debian
	@missing=$$(for each in redis-server mosquitto; do \
		PATH=$$PATH:/usr/sbin command -v $$each > /dev/null || printf ' %s' $$each; done); \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; \
	elif [ -n "$$missing" ]; then \
		echo "make test-adapters needs$$missing; install with: apt-get install$$missing" >&2; exit 1; fi

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports

pytest: install
	$(BIN)/python -m pytest -m 'not ray and not thorough' $(SIDE_BY_SIDE)

test-thorough: $(THOROUGH)  ## what takes long; those on Ray, which mostly wait, run beside the others, and are shown after them
	@log=$$(mktemp); $(BIN)/python -m pytest -m ray tests/live tests/streams tests/test_documents.py > $$log 2>&1 & ray=$$!; \
	$(BIN)/python -m pytest -m 'thorough and not ray' $(SIDE_BY_SIDE) tests; others=$$?; \
	wait $$ray; ray=$$?; cat $$log; rm $$log; exit $$((others | ray))

torture: install  ## the live system in virtual time under faults: SEEDS=10000 of them, or SEED=123 alone
	$(BIN)/python -m tests.torture $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

dist: $(DIST)/.ready  ## sdist and wheel, checked, the wheel tried in a clean environment; EVERY=1 for the large extras
	$(DIST)/bin/python scripts/dist.py $(if $(EVERY),--every-extra)

bench: $(THOROUGH) $(if $(QUICK),,$(PEERS))  ## side by side with peers, which have an environment of their own; QUICK=1: without, in two minutes
	$(BIN)/python -m benchmarks$(if $(QUICK),.quick)

$(PEERS): benchmarks/peers/requirements.txt
	$(PYTHON) -m venv benchmarks/.venv
	benchmarks/.venv/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	benchmarks/.venv/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	touch $@

$(ADAPTERS)/.ready: pyproject.toml constraints.txt tests/adapters/constraints.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check torch==2.13.0
	$(ADAPTERS)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		-c constraints.txt -c tests/adapters/constraints.txt -e '.[adapters,ray,examples,dashboard]' pytest hypothesis flax equinox playwright axe-playwright-python
	touch $@

docs: $(DOCS)/.ready  ## the site, out/docs/index.html; warnings are errors, and links within it are checked
	$(DOCS)/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --fresh-env --quiet -d $(OUT)/docs-cache docs $(OUT)/docs
	$(DOCS)/bin/python docs/links.py $(OUT)/docs
	@echo "Written: $(OUT)/docs/index.html"

$(DOCS)/.ready: pyproject.toml constraints.txt docs/constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		-c constraints.txt -c docs/constraints.txt -e '.[docs]'
	touch $@

$(DIST)/.ready: Makefile
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check build==1.6.1 twine==7.0.0
	touch $@

install: $(READY)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"siag needs Python 3.11 or newer, this is {v[0]}.{v[1]}; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(RUNNABLE): pyproject.toml constraints.txt | $(VENV)/bin/python  # siag and its page in the browser: all that README shows
	$(PIP) -c constraints.txt -e '.[dashboard]'
	touch $@

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/python  # with linters and what else tests need
	$(PIP) -c constraints.txt -e '.[dev]'
	touch $(RUNNABLE) $@

$(THOROUGH): $(READY)  # with Ray, Jupyter and scikit-learn
	$(PIP) -c constraints.txt -e '.[thorough]'
	touch $@

clean:  ## remove what was made here, the environment included
	rm -rf $(VENV) $(ADAPTERS) $(DOCS) $(DIST) benchmarks/.venv docs/made $(OUT) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -exec rm -rf {} +
	find src -name '*.egg-info' -type d -exec rm -rf {} +
