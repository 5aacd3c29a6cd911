"""Histograms, rejection, matrices and magnitudes: counted again the slow way."""

import numpy as np
import pytest
from hypothesis import given

from openset import Scores, UndefinedMetricError, metrics, report
from openset.magnitudes import measure
from tests.property.strategies import scores_and_threshold
from tests.report.studies import scores
from tests.report.test_display import TWO
from tests.test_magnitudes import outputs  # noqa: F401  # a fixture


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


def test_magnitudes_have_their_histogram_and_table(outputs):  # noqa: F811
    frame = report.feature_magnitudes(outputs, bins=10).to_frame()
    np.testing.assert_allclose(frame.groupby("group")["share"].sum(), 1.0)
    found = measure(outputs)
    rows = {row[0]: row for row in report.feature_magnitudes(found).brief.rows}
    assert rows["far"][1:3] == (50, pytest.approx(found.of("far").mean()))
    assert rows["far"][4] == found.longer("far")
    assert rows["far"][6] == found.auroc(divided=True, group="far")
    assert rows["known"][4:] == ("–", "–", "–")


def test_rejection_counts_what_a_loop_counts():
    one = scores(7)
    shown = report.per_class_rejection(one, 0.9, classes=["cat", "dog", "eel"])
    found = dict(zip(shown.columns["name"], shown.columns["rejected"], strict=True))
    slow = {}
    for label, group, known in zip(one.labels, one.groups, one.known, strict=True):
        name = group if label < 0 else ("cat", "dog", "eel")[label]
        slow[name] = slow.get(name, 0) + int(known < 0.9)
    assert found == slow


def regions(shown):
    """Return the matrices of a display by region."""
    return {
        region: part["count"].to_numpy().reshape(len(set(part["true"])), -1)
        for region, part in shown.to_frame().groupby("region")
    }


@given(scores_and_threshold())
def test_regions_keep_every_sample_and_give_the_four_scores(pair):
    one, threshold = pair
    shown = report.confusion_regions(one, threshold)
    made, values = regions(shown), {row[0]: row[1] for row in shown.brief.rows}
    assert made["overall"].sum() == made["outer"].sum() == len(one)
    assert made["inner"].sum() == made["halfpoint"].sum() == one.n_known
    assert values.pop("inner") == pytest.approx(metrics.inner_score(one))
    for name, value in values.items():
        (row,) = [row for row in metrics.table() if row.key == f"{name}_score"]
        assert value == pytest.approx(row.value(one, threshold))


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
    assert len(shown.columns["count"]) == (n + 1) ** 2


ONE_SET = "scores must be one Scores, got dict. Show several"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: report.histogram(TWO), TypeError, f"histogram: {ONE_SET}"),
        (lambda: report.per_class_rejection(TWO, 1.0), TypeError, ONE_SET),
        (lambda: report.confusion_matrix(TWO, 1.0), TypeError, ONE_SET),
        (lambda: report.confusion_regions(TWO, 1.0), TypeError, ONE_SET),
        (lambda: report.histogram(scores(1), bins=0), ValueError, "bins must be"),
        (
            lambda: report.histogram(scores(1).take(scores(1).labels >= 0)),
            UndefinedMetricError,
            "histogram: undefined without unknown",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
