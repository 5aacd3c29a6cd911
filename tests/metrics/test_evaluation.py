"""`evaluate`: its intervals, notes, records and files."""

import json

import numpy as np
import pytest

from openset import Scores, UndefinedMetricError, evaluate, metrics
from openset.metrics import Accumulator, Metric
from openset.metrics.counts import ranking_counts
from openset.metrics.intervals import on_logit_scale, percentile, replicates, wilson


def draw(seed=0, n=90, decimals=1):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, n)
    return Scores(
        labels=labels,
        predicted=np.where(rng.random(n) < 0.8, np.maximum(labels, 0), 1),
        known=(rng.normal(size=n) + 1.5 * (labels >= 0)).round(decimals),
        groups=np.where(rng.random(n) < 0.5, "near", "far"),
    )


def test_shares_have_wilsons_interval_and_areas_one_on_the_logit_scale():
    scores = draw()
    result = evaluate(scores, 0.5, 0.9)
    n_known, n_unknown = scores.n_known, scores.n_unknown
    hits = int(scores.is_correct.sum())
    assert result.intervals["accuracy"] == wilson(hits, n_known, 0.9)
    hits = int((scores.is_correct & (scores.known >= 0.5)).sum())
    assert result.intervals["ccr"] == wilson(hits, n_known, 0.9)
    hits = int((scores.is_unknown & (scores.known < 0.5)).sum())
    assert result.intervals["urr"] == wilson(hits, n_unknown, 0.9)
    counts = ranking_counts(scores)
    areas = {"auroc", "openauc"}
    for key in areas:
        variance = metrics.get(key).variance(counts)
        assert result.intervals[key] == on_logit_scale(result[key], variance, 0.9)
    assert set(result.intervals) == {"accuracy", "ccr", "urr"} | areas
    assert (result.level, result.threshold) == (0.9, 0.5)


@pytest.mark.parametrize("clusters", [None, "groups"])
def test_the_bootstrap_fills_in_what_has_no_formula(clusters):
    scores = draw()
    keys = ["auroc", "fpr_at_tpr", "urr", "osa", "osa_best", "imbalance_ratio"]
    result = evaluate(
        scores, 0.5, 0.9, metrics=keys, bootstrap=30, clusters=clusters, rng=4
    )
    drawn = keys[:4] if clusters else ["fpr_at_tpr", "osa"]
    rows = {key: metrics.get(key) for key in drawn}
    values = replicates(
        scores, rows, threshold=0.5, resamples=30, clusters=clusters, rng=4
    )
    for key in drawn:
        assert result.intervals[key] == percentile(values[key], 0.9)
    assert set(result.intervals) == set(keys[:4])
    assert ("bootstrap" in result.intervals["auroc"].method) == bool(clusters)
    by_default = evaluate(scores, metrics=["aupr"], bootstrap=30)
    assert by_default.level == 0.95
    seeded = evaluate(scores, metrics=["aupr"], bootstrap=30, rng=0)
    assert by_default.intervals == seeded.intervals


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, None])
def test_a_level_lies_between_nought_and_one(level):
    with pytest.raises(
        ValueError, match=r"^evaluate: level must be a number in \(0, 1"
    ):
        evaluate(draw(), level=level)


def test_an_evaluation_is_a_mapping_with_its_curves():
    scores = draw()
    result = evaluate(scores, 0.5)
    assert list(result) == list(dict(result))
    assert len(result) == len(list(result))
    assert list(result)[-1].endswith("_best")
    n_known, n_unknown = scores.n_known, scores.n_unknown
    assert repr(result) == (
        f"Evaluation(n_known={n_known}, n_unknown={n_unknown}, "
        f"openauc={result['openauc']:.4f}, auroc={result['auroc']:.4f}, "
        f"accuracy={result['accuracy']:.4f}, ...{len(result)} metrics)"
    )
    curve = metrics.oscr_curve(scores)
    assert result.oscr_curve.ccr.tolist() == curve.ccr.tolist()
    assert result.oscr_curve.fpr.tolist() == curve.fpr.tolist()
    assert result.sweep.best("f_score") == metrics.sweep(scores).best("f_score")


def test_records_have_the_interval_of_what_has_one():
    result = evaluate(
        draw(), np.inf, metrics=["accuracy", "aupr", "urr", "f_score_best"]
    )
    rows = {row["metric"]: row for row in result.rows()}
    assert list(rows) == ["accuracy", "aupr", "urr", "f_score_best"]
    span = result.intervals["accuracy"]
    assert rows["accuracy"] == {
        "metric": "accuracy",
        "value": result["accuracy"],
        "low": span.low,
        "high": span.high,
        "method": "Wilson",
    }
    nothing = {"low": None, "high": None, "method": None}
    assert rows["aupr"] == {"metric": "aupr", "value": result["aupr"], **nothing}
    document = json.loads(result.to_json())
    assert document["threshold"] == "inf"
    assert document["metrics"]["aupr"] == {"value": result["aupr"]}
    assert set(document["metrics"]["accuracy"]) == {"value", "low", "high", "method"}
    assert (document["level"], document["notes"]) == (0.95, list(result.notes))
    assert (document["n_known"], document["n_unknown"]) == (
        *(result.scores.n_known, result.scores.n_unknown),
    )
    assert result.to_frame().loc["accuracy", "low"] == span.low


def test_notes_tell_of_ties_and_of_rates_too_small_for_the_data():
    def note(n_unknown, n_tied=0):
        known = np.r_[np.arange(10.0) + 100, -np.arange(n_unknown)]
        known[10 : 10 + n_tied] = 100.0
        labels = np.repeat([0, -1], [10, n_unknown])
        scores = Scores(
            labels=labels, predicted=np.zeros(labels.size, int), known=known
        )
        return evaluate(scores).notes

    assert note(10) == (
        "with only 10 unknown samples, ccr_at_fpr at 0.01, 0.001 accepts none of them",
    )
    assert "at 0.1, 0.01, 0.001 accepts" in note(9)[0]
    assert "at 0.001 accepts" in note(100)[0]
    assert note(1000) == ()
    assert note(1000, 5) == (
        "0.05% of the known-unknown pairs are tied: OpenAUC is between openauc_strict "
        "and openauc_optimistic",
    )


@pytest.mark.parametrize("threshold", [-np.inf, -2.5, -2, 0.5, 3, 3.5])
def test_a_threshold_outside_of_the_scores_is_questioned(threshold):
    known = [3.0, 2.0, -2.0, 1.0]
    scores = Scores(labels=[0, 0, -1, -1], predicted=[0, 0, 0, 0], known=known)
    notes = " ".join(evaluate(scores, threshold).notes)
    is_outside = not -2 <= threshold <= 3
    assert ("is outside of the scores, -2 to 3: is it on" in notes) == is_outside


def test_a_note_asks_for_the_sign_where_unknown_samples_score_higher():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, -1], 200)
    known = rng.normal(size=400) + (labels == 0)

    def notes(known):
        scores = Scores(labels=labels, predicted=np.zeros(400, int), known=known)
        return [note for note in evaluate(scores).notes if "Is the sign right?" in note]

    assert notes(known) == []
    assert notes(known * (labels == -1)) == []  # half of the pairs: no doubt yet
    assert len(notes(-known)) == 1


def test_the_rows_asked_for_are_reported_in_their_order():
    keys = ["urr", "auroc", "ccr_at_fpr_0.01", "accuracy"]
    assert list(evaluate(draw(), 0.5, metrics=keys)) == keys
    assert list(evaluate(draw(), metrics=keys)) == keys[1:]

    def spread(scores):
        return np.ptp(scores.known)

    mine = Metric(spread, label="Spread", better="neither")
    assert evaluate(draw(), metrics=[mine])["spread"] == np.ptp(draw().known)
    for bad in ("high", np.nan, True):
        with pytest.raises(ValueError, match=r"^evaluate: threshold must be a number"):
            evaluate(draw(), bad)


def test_each_group_is_evaluated_with_the_same_options():
    scores = draw()
    options = {"metrics": ["openauc", "aupr", "urr"], "bootstrap": 20, "rng": 3}
    found = metrics.by_group(scores, 0.5, 0.8, **options)
    assert list(found) == ["far", "near"]
    for name, result in found.items():
        part = scores.take(~scores.is_unknown | (scores.groups == name))
        expected = evaluate(part, 0.5, 0.8, **options)
        assert result.to_json() == expected.to_json()
        assert result.level == 0.8
    assert metrics.by_group(scores)["far"].level == 0.95
    plain = Scores(labels=scores.labels, predicted=scores.predicted, known=scores.known)
    with pytest.raises(
        ValueError, match=r"^by_group: scores must have groups, got none"
    ):
        metrics.by_group(plain)
    unknown = scores.take(scores.is_unknown)
    with pytest.raises(UndefinedMetricError, match=r"^by_group: undefined"):
        metrics.by_group(unknown)


def test_an_accumulator_evaluates_as_it_is_asked():
    scores = draw()
    collected = Accumulator()
    for part in (slice(0, 40), slice(40, None)):
        collected.update(scores.take(part), ids=np.arange(len(scores))[part])
    assert len(collected) == len(scores)
    found, expected = collected.compute(0.5, 0.8), evaluate(scores, 0.5, 0.8)
    assert dict(found) == dict(expected)
    assert found.intervals == expected.intervals
    assert collected.compute().level == 0.95
    for ids in (np.arange(3), np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match=r"Accumulator\.update: .*must"):
            collected.update(scores, ids=ids)
    with pytest.raises(TypeError, match=r"Accumulator\.update: ids must be strings or"):
        collected.update(scores, ids=scores.known)


def test_ids_clash_where_label_prediction_or_score_differ():
    one = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    for change in (
        {"labels": [1, -1]},
        {"predicted": [0, 1]},
        {"known": [2.0, 1.5]},
    ):
        other = {"labels": one.labels, "predicted": one.predicted, "known": one.known}
        collected = Accumulator()
        collected.update(one, ids=["a", "b"])
        collected.update(Scores(**(other | change)), ids=["a", "b"])
        clash = "b" if change.get("labels") is None else "a"
        with pytest.raises(ValueError, match=f"for id {clash}"):
            collected.compute()
