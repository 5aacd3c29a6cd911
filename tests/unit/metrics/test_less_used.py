"""Options and views that the common tests do not reach."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, evaluate, metrics
from openset.metrics import _ranking_counts, _registry, consistency
from openset.metrics._class_counts import class_counts, closed_recall
from openset.metrics._osa import optimum
from openset.metrics._ranking_counts import ranking_counts
from openset.metrics._variance import partial_variance

# Five known samples, the fourth classified wrongly; three unknown. Threshold 3 accepts
# knowns 1, 2, 4 and the first unknown.
SCORES = Scores(
    labels=[0, 0, 1, 1, 1, -1, -1, -1],
    predicted=[0, 0, 1, 0, 1, 0, 1, 1],
    known=[5.0, 4.0, 2.0, 3.0, 1.0, 3.5, 0.5, 1.5],
    groups=["", "", "", "", "", "a", "a", "b"],
)


@pytest.mark.parametrize(
    ("score", "arguments", "share"),
    [
        (metrics.inner_score, (), 4 / 5),  # classified correctly, without rejection
        (metrics.outer_score, (3,), (3 + 2) / 8),  # accepted knowns, rejected unknowns
        (metrics.halfpoint_score, (3,), 2 / 5),  # known, accepted and correct
        (metrics.overall_score, (3,), (2 + 2) / 8),
    ],
)
def test_with_base_accuracy_the_scores_are_shares_of_samples(score, arguments, share):
    assert score(SCORES, *arguments, base="accuracy") == approx(share)


def test_classes_without_samples_are_skipped_in_counts_per_class():
    scores = Scores(labels=[0, 2, 2, -1], predicted=[0, 2, 0, 0], known=[1, 2, 3, 4])
    support, hits = closed_recall(scores)
    assert support.tolist() == [1, 2]
    assert hits.tolist() == [1, 1]


@pytest.mark.parametrize("aus", ["precision", "recall"])
def test_the_best_threshold_of_normalized_accuracy_is_the_best_of_all(aus):
    found = metrics.normalized_accuracy(SCORES, "best", aus=aus)
    tried = [metrics.normalized_accuracy(SCORES, t, aus=aus) for t in SCORES.known]
    assert found == approx(max(tried))


def test_scales_of_the_partial_area():
    area = metrics.partial_openauc(SCORES, 0.5, scale="area")
    assert metrics.partial_openauc(SCORES, 0.5) == approx(area / 0.5)
    # McClish: chance is 1/2, a perfect order 1; accuracy bounds both.
    perfect, chance = 0.5 * 4 / 5, 0.5**2 * 4 / 5 / 2
    scaled = metrics.partial_openauc(SCORES, 0.5, scale="mcclish")
    assert scaled == approx((1 + (area - chance) / (perfect - chance)) / 2)


def test_open_set_accuracy_weighs_the_rates():
    ccr, urr = metrics.ccr(SCORES, 3), metrics.urr(SCORES, 3)
    weighed = approx(0.3 * ccr + 0.7 * urr)
    assert metrics.osa(SCORES, 3, alpha=0.3) == weighed
    assert (
        metrics.get("osa").kernel(class_counts(SCORES, 3, caller="osa"), alpha=0.3)
        == weighed
    )


def test_partial_areas_are_the_same_in_small_blocks(monkeypatch):
    def found():
        table = ranking_counts(SCORES)
        return metrics.partial_openauc(SCORES, 0.9), *partial_variance(table, 0.9)

    whole = found()
    monkeypatch.setattr(_ranking_counts, "_BLOCK", 2)
    assert found() == approx(whole)


def test_a_weight_of_many_digits_finds_the_best_threshold():
    alpha = 0.12345678901234567  # as a fraction, its sums overflow 64 bits
    many = SCORES.take(np.tile(np.arange(8), 10))
    found = optimum(ranking_counts(many), alpha=alpha)
    tried = [metrics.osa(many, t, alpha=alpha) for t in (*SCORES.known, 9.0)]
    assert found.value == approx(max(tried))


def test_an_evaluation_has_its_curves_and_a_short_text():
    result = evaluate(SCORES)
    assert result.osa_optimum.value == approx(result.osa_curve.osa.max())
    curve, other = result.oscr_curve, metrics.oscr_curve(SCORES)
    assert curve.ccr.tolist() == other.ccr.tolist()
    assert repr(result).startswith("Evaluation(n_known=5, n_unknown=3, ")
    assert repr(result).endswith(f"...{len(result)} metrics)")


def test_an_infinite_threshold_is_text_in_json(tmp_path):
    path = tmp_path / "evaluation.json"
    text = evaluate(SCORES, np.inf).to_json(path)
    assert path.read_text() == text
    assert json.loads(text)["threshold"] == "inf"


def test_groups_are_needed_to_evaluate_by_group():
    assert set(metrics.by_group(SCORES)) == {"a", "b"}
    with pytest.raises(ValueError, match="scores must have groups, got none"):
        metrics.by_group(replace(SCORES, groups=None))


def test_tables_for_pandas():
    pytest.importorskip("pandas", reason="the extra tables")
    frame = metrics.confusion(SCORES, 3).to_frame()
    assert frame.loc["1", "unknown"] == 2
    assert list(frame.columns) == ["0", "1", "unknown"]
    sweep = metrics.sweep(SCORES)
    assert sweep.to_frame()["thresholds"].tolist() == sweep.thresholds.tolist()


def test_a_row_of_the_table_stands_for_its_name():
    row = metrics.get("auroc")
    assert metrics.get(row) is row


def test_a_curve_has_no_interval():
    with pytest.raises(ValueError, match=r"metric must be one of .*got 'oscr_curve'"):
        metrics.bootstrap(SCORES, "oscr_curve")


def test_one_sample_or_group_a_side_has_no_interval():
    one = SCORES.take([0, 1, 5])
    with pytest.raises(UndefinedMetricError, match="2 known and 1 unknown samples"):
        metrics.bootstrap(one, "auroc")
    with pytest.raises(UndefinedMetricError, match="1 known and 2 unknown groups"):
        metrics.bootstrap(SCORES, "auroc", clusters="groups")
    with pytest.raises(ValueError, match="must have groups for clusters, got none"):
        metrics.bootstrap(replace(SCORES, groups=None), "auroc", clusters="groups")


def test_a_stated_number_of_classes_stays_that_of_the_twin():
    stated = replace(SCORES, n_classes=4)
    assert consistency.twin(stated, "f_score", 3).scores.n_classes == 4


def test_an_entry_point_that_is_not_named_by_its_key_is_left_out(monkeypatch):
    monkeypatch.setitem(_registry._TABLE._values, "misnamed", metrics.get("auroc"))
    with pytest.warns(RuntimeWarning, match="entry point misnamed must be named by"):
        keys = [row.key for row in metrics.table()]
    assert keys.count("auroc") == 1
