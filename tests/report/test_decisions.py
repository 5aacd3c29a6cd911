"""Histograms, rejection, matrices and magnitudes: counted again the slow way."""

import numpy as np
import pytest

from openset import Outputs, Scores, metrics, report
from tests.report.studies import scores


def test_histograms_add_up_to_one_whatever_the_scores():
    known = np.where(np.arange(400) % 7 == 0, np.inf, scores(4).known)
    frame = report.histogram(scores(4).with_known(known), bins=11).to_frame()
    np.testing.assert_allclose(frame.groupby("group")["share"].sum(), 1.0)
    assert set(frame["group"]) == {"known", "unknown: near", "unknown: far"}


def test_small_groups_are_one():
    groups = np.repeat([f"g{i}" for i in range(8)], range(1, 9))
    n = len(groups)
    one = Scores(
        labels=[0, *[-1] * n], predicted=[0] * (n + 1), known=np.arange(n + 1),
        groups=["", *groups],
    )  # fmt: skip
    counts = {row[0]: row[1] for row in report.histogram(one).brief.rows}
    largest = {f"unknown: g{i}": i + 1 for i in (4, 5, 6, 7)}
    assert counts == {"known": 1, **largest, "4 other groups": 10}


def test_magnitudes_are_compared_pair_by_pair(rng):
    sizes = [40, 30, 20, 25]
    labels = np.repeat([0, 1, -1, -1], sizes)
    groups = np.repeat(["a", "b", "near", "known"], sizes)
    features = rng.normal(size=(115, 4)) * (1 + (groups == "near"))[:, None]
    one = Outputs(
        logits=features[:, :2], features=features, labels=labels, groups=groups
    )
    shown = report.feature_magnitudes(one, bins=10)
    np.testing.assert_allclose(
        shown.to_frame().groupby("group")["share"].sum(), np.ones(3)
    )
    length, top = np.linalg.norm(features, axis=1), features[:, :2].max(axis=1)
    known = labels >= 0

    def pairs(of, than):
        return pytest.approx(
            np.mean([(a > b) + (a == b) / 2 for a in of for b in than])
        )

    rows = {row[0]: row[1:] for row in shown.brief.rows}
    for name, mine in (
        ("near", groups == "near"),
        ("unknown: known", groups == "known"),
    ):
        n, mean, median, longer, before, after = rows[name]
        assert (n, mean) == (mine.sum(), pytest.approx(length[mine].mean()))
        assert median == pytest.approx(np.median(length[mine]))
        assert longer == pairs(length[mine], length[known])
        assert before == pairs(top[known], top[mine])
        assert after == pairs((top / length)[known], (top / length)[mine])
    assert rows["known"][3:] == ("–", "–", "–")
    bare = Outputs(features=features, labels=labels)
    assert len(report.feature_magnitudes({"x": bare}).brief.header) == 5


def test_rejection_counts_what_a_loop_counts():
    one = scores(7)
    shown = report.per_class_rejection(one, 0.9, classes=["cat", "dog", "eel"])
    found = dict(zip(shown.columns["name"], shown.columns["rejected"], strict=True))
    slow = {}
    for label, group, known in zip(one.labels, one.groups, one.known, strict=True):
        name = group if label < 0 else ("cat", "dog", "eel")[label]
        slow[name] = slow.get(name, 0) + int(known < 0.9)
    assert found == slow


def test_the_matrix_shows_classes_with_errors_that_occur():
    n, occur = 30, [3, 8, 21]
    labels = np.repeat([*occur, -1], 12)
    wrong = [0, 1, 2, 4, 5]  # of these there is no sample
    predicted = [one for c in (*occur, 9) for one in ([c] * 7 + wrong)]
    one = Scores(labels=labels, predicted=predicted, known=labels, n_classes=n)
    shown = report.confusion_matrix(one, -1.0)
    header, rows = shown.brief
    assert len(rows) == 15
    assert {"3", "8", "21", "17 other classes", "unknown"} <= set(header)
    assert sum(sum(row[1:]) for row in rows) == len(one)
    every = metrics.confusion(one, -1.0).matrix.ravel()
    assert shown.columns["count"].tolist() == every.tolist()
