# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
# Each installs once; the stamp files below make the second run start at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check lint types layers tests docs theory bench clean

demo: .venv/.installed
	$(BIN)/openset demo

test: check

# `make check` is exactly what continuous integration runs.
check: lint types layers tests

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy

layers: .venv/.installed-dev
	$(BIN)/lint-imports

tests: .venv/.installed-dev
	$(BIN)/pytest -q -n auto

# Tables of the documentation that come from the code.
docs: .venv/.installed-dev
	$(BIN)/python docs/metrics_table.py

# Every table in benchmarks/README.md, measured anew (minutes, wants a quiet machine).
bench: .venv/.installed-dev
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/detectors.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/bench_runner.py
	$(BIN)/python benchmarks/report.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -c constraints.txt -e '.[report]'
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@ .venv/.installed

clean:
	rm -rf .venv dist build demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
