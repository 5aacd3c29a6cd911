"""The report of a folder of `openset train`, and matrices of classes that occur."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Scores, datasets, evaluate, protocols, report
from openset.cli import app
from openset.report._confusion_matrix import pooled

pytest.importorskip("jinja2", reason="an extra")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train two tiny networks, one per split of a protocol."""
    pytest.importorskip("torch", reason="an extra")
    folder = tmp_path_factory.mktemp("trained")
    digits = datasets.load("digits")
    protocols.holdout(digits, 6, 4, 2, rng=0).save(folder / "draws.json")
    words = "train -m softmax --data digits --recipe arpl --epochs 3 --lr 0.02"
    places = ["--protocol", str(folder / "draws.json"), "--out", str(folder / "runs")]
    done = CliRunner().invoke(app, [*words.split(), "--all-splits", *places])
    assert done.exit_code == 0, done.output
    return folder / "runs"


def test_it_shows_learning_curves_and_the_scores(trained, tmp_path):
    folder = trained / "split0-seed0"
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(out)])
    assert done.exit_code == 0, done.output
    page = out.read_text("utf-8")
    assert "Learning curves" in page
    lines = (folder / "log.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert f"{last['loss']:.4f}" in page
    assert "training accuracy" in page
    for name in ("published", "maxlogit", "msp"):
        scores = Scores.load(folder / "scores" / f"{name}.npz")
        assert f"{evaluate(scores)['openauc']:.4f}" in page
    record = json.loads((folder / "trained.json").read_text())
    for name in record["spec"]["protocol"]["known"]:
        assert f">{name}</text>" in page


def test_splits_and_seeds_above_are_repeats(trained):
    page = report.render(trained)
    assert "2 runs of each" in page
    values = [
        evaluate(Scores.load(path / "scores" / "published.npz"))["openauc"]
        for path in sorted(trained.glob("split*"))
    ]
    assert len(values) == 2
    assert f"{np.mean(values):.4f}" in page
    assert f"{np.std(values, ddof=1):.4f}" in page
    assert "Learning curves" in page


def test_the_matrix_shows_classes_that_occur():
    n = 30
    matrix = np.zeros((n + 1, n + 1), np.int64)
    occur = [3, 8, 21]
    for c in occur:
        matrix[c, c] = 5
        matrix[c, :10] += 2  # mistaken for classes of which there is no sample
    names = [str(c) for c in range(n)] + ["unknown"]
    small, shown = pooled(matrix, names, most=4)
    assert shown == ["3", "8", "21", "27 other classes", "unknown"]
    assert small.sum() == matrix.sum()


def test_names_of_classes_in_a_file_are_shown(tmp_path):
    labels = ["cat", "cat", "dog", "unknown", "unknown"]
    predicted = ["cat", "dog", "dog", "cat", "dog"]
    scores = Scores(labels=labels, predicted=predicted, known=[3, 2, 4, 1, 2.5])
    page = report.render(Path(scores.save(tmp_path / "named.npz")))
    assert ">cat</text>" in page
    assert ">dog</text>" in page
