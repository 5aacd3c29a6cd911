"""The table of metrics: its order, its bounds, and what it refuses."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, metrics
from openset.metrics import Metric

TABLE = metrics.table()
BUILT_IN = [row for row in TABLE if row.function.__module__.startswith("openset.")]


def test_rows_are_shown_in_this_order():
    assert [row.key for row in BUILT_IN if row.kind not in {"curve", "oracle"}] == [
        *["openauc", "auroc", "accuracy", "oosa", "osa", "ccr", "urr", "fpr_at_tpr"],
        *["aupr", "f_score", "halfpoint_score", "overall_score", "inner_score"],
        *["outer_score", "ccr_at_fpr_0.1", "ccr_at_fpr_0.01", "partial_openauc"],
        *["ccr_at_fpr_0.001", "aupr_unknown", "fpr_at_tpr_unknown", "error_at_tpr"],
        *["f_score_micro", "f_score_macro_f", "halfpoint_k_plus_1"],
        *["error_at_tpr_unknown_pooled", "youden", "youden_binary"],
        *["normalized_accuracy", "normalized_accuracy_recall", "acc_times_auroc"],
        *["acc_plus_auroc", "openauc_strict", "openauc_optimistic", "aurc", "augrc"],
        *["aurc_known", "augrc_known", "scod_risk", "oaa", "imbalance_ratio"],
    ]
    assert [row.key for row in BUILT_IN if row.kind == "oracle"] == [
        *["osa_best", "f_score_best", "halfpoint_score_best", "overall_score_best"],
        *["f_score_micro_best", "youden_best", "normalized_accuracy_best"],
    ]


def test_no_two_numbers_claim_the_same_place():
    """Else the order of tables would depend on which module is imported first."""
    for is_oracle in (False, True):
        placed = [
            row.order
            for row in BUILT_IN
            if (row.kind == "oracle") == is_oracle and row.kind not in {"curve", "data"}
        ]
        assert len(set(placed)) == len(placed)
    last = Metric(len, label="mine", better="neither").order
    assert last >= max(row.order for row in BUILT_IN)


def test_oracles_come_last_under_their_own_heading():
    is_oracle = [row.kind == "oracle" for row in TABLE]
    assert is_oracle == sorted(is_oracle)
    found = metrics.sections(["osa_best", "osa", "accuracy", "imbalance_ratio", "ccr"])
    assert {title: [row.key for row in rows] for title, rows in found.items()} == {
        "Closed set": ["accuracy"],
        "At the threshold": ["osa", "ccr"],
        "Best over all thresholds (oracle)": ["osa_best"],
        "Test data": ["imbalance_ratio"],
    }
    assert list(found) == [
        *["Closed set", "At the threshold", "Best over all thresholds (oracle)"],
        "Test data",
    ]


PERFECT = Scores(
    labels=[0, 0, 1, 1, -1, -1],
    predicted=[0, 0, 1, 1, 0, 1],
    known=[6.0, 5, 4, 3, 2, 1],
)
REVERSED = Scores(
    labels=[0, 0, 1, 1, -1, -1],
    predicted=[1, 1, 0, 0, 0, 1],
    known=[1.0, 2, 2, 1, 4, 3],
)


def value(row, scores):
    if row.kind == "operational":
        return row.function(scores, PERFECT.with_known([7.0, 6, 5, 3, 2, 1]))
    return row.value(scores, 2.5)


BOUNDED = [row for row in BUILT_IN if row.bounds is not None]

# A mean over K + 1 classes, of which one is always 0; areas up to full coverage, where
# unknown samples are accepted, too.
BELOW_THE_BEST = {"halfpoint_k_plus_1", "aurc", "augrc"}


@pytest.mark.parametrize(
    "row",
    [row for row in BOUNDED if row.key not in BELOW_THE_BEST],
    ids=lambda row: row.key,
)
def test_a_perfect_detector_reaches_the_bound(row):
    low, high = row.bounds
    assert value(row, PERFECT) == approx(high if row.better == "higher" else low)


# Samples of other classes count as true negatives, precision is at least the base
# rate, the detection error is read where nearly all knowns are accepted, and rejecting
# misclassified knowns is right by OAA.
ABOVE_THE_WORST = {
    "aupr", "aupr_unknown", "youden", "normalized_accuracy", "oaa",
    "normalized_accuracy_recall", "error_at_tpr", "error_at_tpr_unknown_pooled",
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [r for r in BOUNDED if r.kind != "oracle" and r.key not in ABOVE_THE_WORST],
    ids=lambda row: row.key,
)
def test_the_worst_detector_reaches_the_other_bound(row):
    low, high = row.bounds
    worst = high if row.better == "lower" else low
    assert value(row, REVERSED) == approx(worst)


def test_prevalence_moves_what_says_so():
    """Every unknown sample twice: only rows that say so change."""
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, 200)
    scores = Scores(
        labels=labels,
        predicted=np.where(rng.random(200) < 0.8, np.maximum(labels, 0), 1),
        known=rng.normal(size=200) + (labels >= 0),
    )
    twice = Scores.concat([scores, scores.take(scores.is_unknown)])
    for row in BUILT_IN:
        if row.kind in {"closed", "ranking", "threshold"}:
            values = [row.value(part, 0.4) for part in (scores, twice)]
        elif row.kind == "operational":
            values = [row.function(part, PERFECT) for part in (scores, twice)]
        else:
            continue
        is_moved = values[0] != approx(values[1])
        assert is_moved == row.moves_with_prevalence, row.key


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"function": "auroc"}, TypeError, "function must be a function, got 'auroc'"),
        ({"label": ""}, TypeError, "label must be a text, got ''"),
        ({"label": 3}, TypeError, "label must be a text, got 3"),
        ({"better": "more"}, ValueError, "better must be one of 'higher', 'lower'"),
        ({"kind": "rank"}, ValueError, "kind must be one of 'closed', 'ranking'"),
    ],
)
def test_a_row_that_says_nonsense_is_refused(change, error, words):
    with pytest.raises(error, match=f"^Metric: {words}"):
        Metric(**({"function": len, "label": "mine", "better": "higher"} | change))


def test_a_row_has_a_key_and_a_short_label_of_its_own_if_given():
    plain = Metric(len, label="Mine", better="higher")
    assert (plain.key, plain.short, plain.kind) == ("len", "Mine", "ranking")
    named = Metric(len, label="Mine", better="higher", key="it", short="M")
    assert (named.key, named.short, named.name) == ("it", "M", "len")
    assert not plain.moves_with_prevalence
    assert metrics.get(plain) is plain


def test_only_metrics_are_registered():
    with pytest.raises(TypeError, match=r"^metrics\.register: metric must be a Metric"):
        metrics.register(len)
    with pytest.raises(ValueError, match=r"^metrics\.get: name must be one of "):
        metrics.get("acuracy")
    with pytest.raises(ValueError, match=r"^me: it must be one of .*got 3"):
        metrics.get(3, caller="me", argument="it")


def test_a_name_stands_for_its_first_row():
    assert metrics.get("ccr_at_fpr").key == "ccr_at_fpr_0.1"
    assert metrics.get("osa").kind == "threshold"
    assert not [name for name in metrics.names() if name.endswith("_best")]
    assert len(set(metrics.names())) == len(metrics.names())
