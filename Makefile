# Everything runs in .venv, made from pyproject.toml and constraints.txt; nothing else is needed
# but Python >= 3.11 (choose it with `make PYTHON=python3.12 ...`).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup lint test test-all demo docs layers editors format clean
.DELETE_ON_ERROR:

help:
	@echo "make test      format, lint, types and the fast tests"
	@echo "make test-all  the same with the slow tests"
	@echo "make demo      a grammar checked, compiled, proved, trained and used; demo/index.html"
	@echo "make docs      the documentation site; build/site/html/index.html"
	@echo "make layers    draw docs/layers.svg, the picture in CONTRIBUTING.md"
	@echo "make editors   package the extension for VS Code (needs npm)"
	@echo "make format    rewrite the sources in the house style"
	@echo "make clean     remove .venv, caches and everything built"

setup: $(STAMP)

# torch goes first and alone, so that the build the machine offers (CPU or CUDA) is taken.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,draw]"
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2

test-all: lint $(DOCS_STAMP)
	$(BIN)/pytest -n 2 -m "slow or not slow"

demo: $(STAMP)
	$(BIN)/python -m examples.demo --out demo

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	@touch $@

docs: $(DOCS_STAMP)
	$(BIN)/python -m docs.site

layers: $(STAMP)
	$(BIN)/python docs/layers.py

editors:
	cp LICENSE editors/vscode/
	cd editors/vscode && npm install --no-audit --no-fund && npm run package

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
	find fgg compiler runtime grammars tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
