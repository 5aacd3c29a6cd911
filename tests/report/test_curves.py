"""Curves: their numbers are those of the metrics, point by point."""

import numpy as np
import pytest

from openset import metrics, report, thresholds
from tests.report.studies import scores


def rate_at(one, fpr):
    """Return the CCR at an FPR: the slow, obvious way."""
    curve = metrics.oscr_curve(one)
    before = max(i for i, x in enumerate(curve.fpr) if x <= fpr)
    if before == len(curve.fpr) - 1 or curve.fpr[before] == fpr:
        return curve.ccr[before]
    x0, x1 = curve.fpr[before : before + 2]
    y0, y1 = curve.ccr[before : before + 2]
    return y0 + (y1 - y0) * (fpr - x0) / (x1 - x0)


def drawn(display):
    """Return the first panel."""
    pytest.importorskip("matplotlib", reason="the extra report")
    return display.plot().axes[0]


def test_oscr_holds_the_curve_of_the_metrics():
    one = scores(3)
    shown = report.oscr(one)
    curve = metrics.oscr_curve(one)
    np.testing.assert_array_equal(shown.columns["ccr"], curve.ccr)
    np.testing.assert_array_equal(shown.columns["threshold"], curve.thresholds)
    assert dict(shown.brief.rows)["0.1"] == metrics.ccr_at_fpr(one, 0.1)
    assert drawn(shown).lines[0].get_label() == f"OpenAUC {metrics.openauc(one):.4f}"


def test_roc_agrees_with_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics", reason="a foreign oracle")
    one = scores(3)
    shown = report.roc(one)
    fpr, tpr, _ = sklearn.roc_curve(~one.is_unknown, one.known, drop_intermediate=False)
    np.testing.assert_allclose(shown.columns["fpr"], fpr)
    np.testing.assert_allclose(shown.columns["tpr"], tpr)


@pytest.mark.parametrize("log_fpr", [False, True])
def test_repeats_are_a_mean_with_a_band(log_fpr):
    repeats = [scores(seed) for seed in range(3)]
    shown = report.oscr({"a": repeats, "b": scores(3)}, log_fpr=log_fpr)
    frame = shown.to_frame()
    mine = frame[frame["name"] == "a"].reset_index()
    for i in range(0, len(mine), 50):
        rates = [rate_at(one, mine["fpr"][i]) for one in repeats]
        assert mine["ccr"][i] == pytest.approx(np.mean(rates))
        assert mine["spread"][i] == pytest.approx(np.std(rates, ddof=1))
    assert set(mine["n"]) == {3}
    assert frame[frame["name"] == "b"]["spread"].isna().all()
    axes = drawn(shown)
    assert len(axes.collections) == 1  # one band
    values = [metrics.openauc(one) for one in repeats]
    area = f"OpenAUC {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}  a"
    assert axes.lines[0].get_label() == area
    if log_fpr:  # reaches one of about 160 unknown samples
        assert axes.get_xlim() == (1e-3, 1.0)
        x, y = axes.lines[1].get_data()
        assert (x[0], y[0]) == (1e-3, pytest.approx(rate_at(scores(3), 1e-3)))


def test_risk_over_coverage_shows_the_curve_and_its_mean():
    one = scores(1)
    shown = report.risk_coverage(one)
    curve = metrics.risk_coverage_curve(one)
    np.testing.assert_array_equal(shown.columns["coverage"], curve.coverage)
    np.testing.assert_array_equal(shown.columns["risk"], curve.risk)
    assert drawn(shown).lines[0].get_label() == f"AURC {metrics.aurc(one):.4f}"
    # the risk at full coverage is the share of all errors
    assert shown.brief.rows[-1] == ("1", pytest.approx(np.mean(~one.is_correct)))


def test_osa_over_urr_marks_what_operate_reports():
    done = thresholds.operate(scores(1), scores(2), alpha=0.5)
    chosen = {"msp": scores(2)}
    shown = report.osa_over_urr(chosen, thresholds=done.threshold)
    frame = shown.to_frame().groupby("kind")[["urr", "osa"]]
    curve, best = metrics.osa_curve(scores(2)), metrics.osa_optimum(scores(2))
    np.testing.assert_array_equal(frame.get_group("curve")["osa"], curve.osa)
    found = {kind: frame.get_group(kind).to_numpy().tolist() for kind in frame.groups}
    assert found["operational"] == [[done.urr, pytest.approx(done.oosa)]]
    assert found["best"] == [[metrics.urr(scores(2), best.threshold), done.oracle]]
    assert shown.brief.header[1] == "OSA (α = 0.5) in use"
    by_name = report.osa_over_urr(chosen, thresholds={"msp": done.threshold.value})
    np.testing.assert_array_equal(by_name.columns["osa"], shown.columns["osa"])


@pytest.mark.parametrize("alpha", [0.5, "counts"])
def test_the_dot_of_a_metric_is_its_best_threshold(alpha):
    one = scores(8)
    found = report.metric_against_unknown_tpr(one, metrics=["osa"], alpha=alpha)
    ((_, name, threshold, value, at),) = found.brief.rows
    assert value == pytest.approx(metrics.osa(one, threshold, alpha=alpha))
    assert at == pytest.approx(metrics.urr(one, threshold))
    assert ("share of known" in name) == (alpha == "counts")
