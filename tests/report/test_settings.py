"""Means over settings, epochs and problems."""

import numpy as np
import pytest

from openset import report, stats, thresholds
from tests.report.studies import scores


def test_learning_curves_are_means_over_runs():
    runs = {"a": [[{"m": 0.0}, {"m": 1.0}], [{"m": 1.0}, {"m": 2.0}]]}
    frame = report.learning_curves(runs).to_frame()
    assert frame["mean"].tolist() == [0.5, 1.5]
    assert frame["spread"].tolist() == pytest.approx([0.5**0.5] * 2)
    runs["b"] = [[{"m": 0.0, "n": 3.0}]]  # what only one method has is shown of it
    frame = report.learning_curves(runs, metrics=["n"]).to_frame()
    assert frame[["name", "mean"]].to_numpy().tolist() == [["b", 3.0]]


def test_powers_stand_at_equal_distances():
    pytest.importorskip("matplotlib", reason="the extra report")
    shown = report.sensitivity({0.1: [0.8, 0.9], 1: 0.7, 10: 0.5}, parameter="C")
    axes = shown.plot().axes[0]
    assert axes.lines[0].get_xdata().tolist() == [0, 1, 2]
    assert [one.get_text() for one in axes.get_xticklabels()] == ["0.1", "1", "10"]
    assert axes.get_xlabel() == "C"


def test_an_alpha_sweep_is_one_operation_after_the_other():
    frame = report.alpha_sweep(scores(5), scores(6), alphas=[0.2, 0.8]).to_frame()
    for row in frame.to_dict("records"):
        alpha = row.pop("alpha")
        done = thresholds.operate(scores(5), scores(6), alpha=alpha, alpha_test=0.5)
        assert row.items() <= done.to_dict().items()
    assert len(frame) == 2


def test_the_diagram_joins_what_does_not_differ():
    rng = np.random.default_rng(0)
    table = {name: rng.normal(i / 2, 1, 20) for i, name in enumerate("abcde")}
    ranks = stats.ranks(table)
    shown = report.critical_difference(ranks)
    frame = dict(zip(shown.columns["name"], shown.columns["mean_rank"], strict=True))
    assert frame == ranks.mean
    for name, _, text in shown.brief.rows:
        for other in ranks.mean:
            alike = any({name, other} <= set(group) for group in ranks.alike)
            assert (other in text) == (alike and other != name)
