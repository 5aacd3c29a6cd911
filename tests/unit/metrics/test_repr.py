"""What a notebook shows of a value with long arrays fits on a line."""

import numpy as np
import pytest

from openset import Scores, metrics


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, 400)
    return Scores(labels=labels, predicted=abs(labels), known=rng.normal(size=400))


@pytest.mark.parametrize("name", ["oscr_curve", "osa_curve", "risk_coverage_curve"])
def test_a_curve_names_its_points(scores, name):
    assert f"Curve(points={400 + 1}, " in repr(getattr(metrics, name)(scores))


def test_a_curve_shows_its_own_summary(scores):
    assert f"area={metrics.openauc(scores):.4f})" in repr(metrics.oscr_curve(scores))
    best = metrics.osa_optimum(scores, alpha=0.25).value
    assert f"best={best:.4f}, alpha=0.25)" in repr(
        metrics.osa_curve(scores, alpha=0.25)
    )
    risk = 1 - (scores.labels == scores.predicted).mean()
    shown = repr(metrics.risk_coverage_curve(scores))
    assert f"risk without rejection {risk:.4f})" in shown


def test_a_sweep_and_an_accumulator_say_their_size(scores):
    assert repr(metrics.sweep(scores)) == "Sweep(thresholds=401, metrics=13)"
    collected = metrics.Accumulator()
    collected.update(scores)
    assert repr(collected) == "Accumulator(n=400)"
