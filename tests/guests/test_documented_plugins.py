"""The metric, training method and data set of docs/plugins.md, used as it says."""

import re

import pytest

from openset import Scores
from tests.guests.packages import environment, openset, python
from tests.guests.test_detector_package import PAGE, block

MODULES = {
    "mymetrics.py": "def gap(",
    "mylosses.py": "class Focal(",
    "mydata.py": "def wine(",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the three modules of the page and some scores."""
    folder = tmp_path_factory.mktemp("plugins")
    for name, mark in MODULES.items():
        (folder / name).write_text(block("python", mark), "utf-8")
    scores = Scores(
        labels=[0, 1, 1, -1, -1], predicted=[0, 1, 0, 0, 1], known=[9, 4, 6, 5, 1]
    )
    scores.save(folder / "scores.npz")
    return folder


def commands(mark):
    """Return the words of each command of a block."""
    return [line.split()[1:] for line in block("sh", mark).splitlines()]


def test_the_metric_is_reported_by_name(place):
    (words,) = commands("mymetrics:GAP")
    said = openset(*words, cwd=place, env=environment())
    # (9 + 4 + 6) / 3 - (5 + 1) / 2
    assert re.search(r"Gap between the means +3\.3333", said)


def test_the_metric_is_registered(place):
    code = f"""
import openset
scores = openset.Scores.load("scores.npz")
{block("python", "ops.metrics.register")}
assert "gap" in openset.evaluate(scores)
print(openset.metrics.get("gap").label)
"""
    said = python(code, cwd=place, env=environment(place))
    assert said.startswith("Gap between the means\n")


def test_the_data_set_is_registered(place):
    code = block("python", "ops.datasets.register")
    said = python(code, cwd=place, env=environment(place))
    assert "table, n=178, classes=3" in said


def test_the_method_trains_on_the_data_set(place):
    pytest.importorskip("torch", reason="an extra")
    for words in commands("mylosses:Focal"):
        openset(*words, cwd=place, env=environment())
    scores = Scores.load(place / "runs" / "focal" / "scores" / "published.npz")
    assert scores.n_known > 0
    assert scores.n_unknown > 0
    code = """
from typer.testing import CliRunner
from openset.cli import app
words = ["extract", "runs/focal", "mydata:wine", "--out", "wine.npz"]
refused = CliRunner().invoke(app, words)
assert "saved as mylosses:Focal" in str(refused.exception), refused.output
done = CliRunner().invoke(app, [*words, "--plugin", "mylosses:Focal"])
assert done.exit_code == 0, done.output
"""
    python(code, cwd=place, env=environment(place))
    assert (place / "wine.npz").exists()


def test_the_page_names_every_group():
    for group in ("detectors", "metrics", "methods", "datasets"):
        assert f"`openset.{group}`" in PAGE
