"""A new detector or metric touches four files: module, one line, test, changelog.

The line is the import in the package's ``__init__.py``. What else names every detector
or metric (lists, tables, the command line, contracts, graphs) must find it by itself:
here a toy of each kind is added to a copy of the package, and all tests that loop over
detectors or metrics are run on it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY = '''"""Toy: the largest logit less the mean logit."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector


@dataclass(frozen=True, kw_only=True)
class Toy(Detector):
    """Largest logit less the mean logit."""

    score_cost = "C"
    paper = "nobody"

    def _score(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)
        return batch.top_logit - xp.mean(batch.logits, axis=1)

    def write_onnx(self, sample):
        return sample.top_logit - sample.logits.sum() / sample.n_classes
'''
LINE = "from openset.detectors.vim import ViM\n"
# Everything that loops over detectors or metrics, or lists them.
TESTS = [
    "tests/contract/test_detectors.py",
    "tests/contract/test_metrics.py",
    "tests/unit/detectors/test_detector.py",
    "tests/unit/integrations/test_onnx.py",
    "tests/unit/integrations/test_torch.py",
    "tests/unit/cli/test_widths.py",
    "tests/unit/bench/test_read.py",
]
CHOSEN = "toy or registry or table or rows or row or docs or alias"


def copy_of_the_project(folder):
    for name in ("src", "tests", "docs", "examples"):
        # With the compiled modules, but not those that are just being written.
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc.*")
        )
    for name in ("pyproject.toml", "conftest.py", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    return folder / "src" / "openset"


def python(folder, *words):
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


METRIC = '''"""The AUROC, halved."""

from openset.metrics.ranking import auroc
from openset.metrics.registry import metric


@metric("Toy of all toys", short="toy", bounds=(0.0, 0.5))
def toy_score(scores):
    """Half of the AUROC, as a toy.

    Examples
    --------
    >>> from openset import Scores
    >>> toy_score(Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0]))
    0.5
    """
    return auroc(scores) / 2
'''

USE_THE_TOYS = """
import sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import openset
from openset import Scores, bench, checks, evaluate, metrics, report, stats
from openset.cli import app

assert Path(openset.__file__).is_relative_to(Path.cwd()), openset.__file__
rng = np.random.default_rng(0)
labels = rng.integers(-1, 3, 200)
predicted = np.maximum(labels, 0)
for name in ("a", "b"):
    known = rng.normal(size=200) + (labels >= 0)
    Scores(labels=labels, predicted=predicted, known=known).save(f"{name}.npz")
scores = Scores.load("a.npz")
result = evaluate(scores, bootstrap=20)
assert result["toy_score"] == result["auroc"] / 2
assert result["toy_score"] in result.intervals["toy_score"]
assert "toy_score" in metrics.names()
assert metrics.toy_score is metrics.get("toy_score").function
assert stats.compare(scores, Scores.load("b.npz"), "toy_score").metric == "toy_score"
assert stats.direction("toy_score") == "higher"
assert [f.status for f in checks.run(headline="toy_score") if f.code == "OSR003"]


def said(*words):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


assert " toy " in said("detectors")
assert "Toy of all toys" in said("evaluate", "a.npz")
assert "Toy of all toys $" in said("evaluate", "a.npz", "--latex")
assert "toy_score,0." in said("evaluate", "a.npz", "--csv")
compared = said("compare", "a.npz", "b.npz", "--metric", "toy_score")
assert "differences in toy_score" in compared
report.write("a.npz", "a.html")
assert ">toy<" in Path("a.html").read_text()
study = b'''
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: logistic}]
detectors: [msp]
headline: toy_score
metrics: [toy_score, auroc]'''
Path("study.yaml").write_bytes(study)
done = said("bench", "study.yaml", "--out", "run", "--backend", "sequential")
assert "toy ↑" in done
report.write("run", "run.html")
assert "toy" in Path("run.html").read_text()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a copy of the project to which both toys were added."""
    folder = tmp_path_factory.mktemp("toys")
    package = copy_of_the_project(folder)
    (package / "detectors" / "toy.py").write_text(TOY)
    front = package / "detectors" / "__init__.py"
    added = "from openset.detectors.toy import Toy as Toy\n"
    front.write_text(front.read_text().replace(LINE, added + LINE))
    (package / "metrics" / "toy.py").write_text(METRIC)
    with (package / "metrics" / "__init__.py").open("a") as stream:
        stream.write("from openset.metrics.toy import toy_score as toy_score\n")
    return folder


def test_the_toys_are_used_everywhere(place):
    pytest.importorskip("jinja2", reason="the extra report")
    pytest.importorskip("yaml", reason="the extra bench")
    (place / "use.py").write_text(USE_THE_TOYS)
    python(place, "use.py")


def test_the_toys_pass_all_tests_that_loop(place):
    python(place, "docs/metrics_table.py")
    assert "`toy_score`" in (place / "docs" / "metrics.md").read_text("utf-8")
    python(place, "-m", "pytest", "-q", "-n", "0", *TESTS, "-k", CHOSEN)
