# Two commands do all set-up on a fresh machine: `make demo` and `make test`. Each
# installs once; the stamp files below make the second run start at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check lint types layers tests docs wheel clean

demo: .venv/.installed
	$(BIN)/openset demo
	@echo 'To run openset yourself: source $(BIN)/activate'

# Exactly what continuous integration runs.
test check: lint types layers tests docs

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy

layers: .venv/.installed-dev
	$(BIN)/lint-imports

# Tests start many processes: without compiled files each compiles the package anew.
tests: .venv/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n auto --dist worksteal

# Into build/site: open build/site/index.html, no server needed.
docs: .venv/.installed-dev
	$(BIN)/sphinx-build -q --keep-going docs build/site

# Wheel and source distribution, into dist; the wheel is used in fresh environments.
wheel: .venv/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/test_wheel.py dist/*.whl tables report bench onnx,torch serve

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -c constraints.txt -e '.[report]'
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@ .venv/.installed

clean:
	rm -rf .venv dist build demo-output docs/api docs/gallery .*_cache .hypothesis
