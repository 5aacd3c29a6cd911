# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
# Each installs once; the stamp files below make the second run start at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check lint types layers tests docs site coverage lowest wheel mutation bench clean

demo: .venv/.installed
	$(BIN)/openset demo
	@echo 'To run openset yourself: source $(BIN)/activate'

test: check

# `make check` is exactly what continuous integration runs.
check: lint types layers tests site

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The second time as on Windows: a name of `os`, `signal` or `socket` that it lacks is an
# error.
types: .venv/.installed-dev
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32

layers: .venv/.installed-dev
	$(BIN)/lint-imports

# Tests start many processes: without compiled files each compiles the package anew.
tests: .venv/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n auto --dist worksteal

# Tables and a picture of the documentation that come from the code (the picture needs
# chromium and chromedriver).
docs: .venv/.installed-dev
	$(BIN)/python docs/metrics_table.py
	$(BIN)/python docs/paper_pages.py
	$(BIN)/python docs/sitegen/screenshot.py

# The documentation site, into build/site: open build/site/index.html. Strict: a link, a
# name, a formula or an example that does not work is an error. (Not --quiet: strict counts
# only warnings that are shown.)
site: .venv/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Lines and branches of the core that its own tests reach.
CORE := scores outputs metrics thresholds rejector
coverage: .venv/.installed-dev
	$(BIN)/pytest -q -n auto $(foreach one,$(CORE),--cov=openset.$(one)) \
	  --cov-report=term-missing:skip-covered \
	  src/openset/scores src/openset/outputs src/openset/metrics \
	  src/openset/thresholds src/openset/rejector \
	  tests/unit/test_scores.py tests/unit/test_outputs.py tests/unit/test_wrong_types.py \
	  tests/unit/test_class_names.py tests/unit/test_npz.py \
	  tests/unit/metrics tests/unit/thresholds tests/rejector \
	  tests/contract/test_metrics.py tests/property tests/golden

# The tests of the core with the lowest versions pyproject.toml allows (Python 3.11).
# Old versions warn of each other's future; that is not ours to mend.
LOWEST_EXTRAS := tables torch faiss report bench serve vision onnx torchmetrics
lowest: .venv-lowest/.installed
	.venv-lowest/bin/pytest -q -n auto -W ignore::DeprecationWarning @.ci/core-tests.txt

# Wheel and source distribution, into dist; the wheel is built from the latter, and used in
# fresh environments, without extras and with some (all that .ci/test_wheel.py knows:
# make wheel EXTRAS="tables report bench torch onnx serve"). Minutes, and downloads.
EXTRAS ?= tables report
wheel: .venv-wheel/bin/python
	.venv-wheel/bin/python .ci/check_release.py
	rm -rf dist
	.venv-wheel/bin/python -m build --outdir dist
	.venv-wheel/bin/python .ci/test_wheel.py dist/*.whl $(EXTRAS)

.venv-wheel/bin/python:
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check build

# Does a test notice if an operator, a number or a statement changes?
MODULES ?= src/openset/metrics src/openset/thresholds
mutation: .venv/.installed-dev
	$(BIN)/python benchmarks/mutation.py $(MODULES)

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

.venv-lowest/.installed: pyproject.toml constraints.txt .ci/lowest.py
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python .ci/lowest.py $(LOWEST_EXTRAS) >.venv-lowest/versions.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints.txt -r .venv-lowest/versions.txt -e . pytest \
	  pytest-xdist hypothesis httpx array-api-strict
	@touch $@

clean:
	rm -rf .venv .venv-lowest .venv-wheel dist build demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
