"""Displays: their numbers are the metrics', and three pens can draw them."""

import importlib.util
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import (
    Scores,
    UndefinedMetricError,
    datasets,
    metrics,
    protocols,
    report,
    thresholds,
)
from tests.unit.report.studies import scores

HOSTILE = "</svg><script>alert(1)</script>\"'&\x00\u202e"
TWO = {"msp": scores(1), HOSTILE: scores(2, gap=3.0)}


def tables():
    done = thresholds.operate(scores(5), scores(6)).to_dict()
    return [{"alpha": alpha} | done for alpha in (0.2, 0.5, 0.8)], [
        {"surrogate": name} | done for name in ("far", "near")
    ]


def displays():
    by_alpha, by_surrogate = tables()
    runs = [[{"outer_score": 0.5}, {"outer_score": 0.7}]] * 2
    return {
        "oscr": report.oscr(TWO),
        "roc": report.roc(TWO),
        "risk": report.risk_coverage(TWO),
        "osa": report.osa_over_urr(TWO, thresholds={"msp": 1.0}, alpha=0.5),
        "histogram": report.histogram(scores(1), threshold=0.5),
        "rejection": report.per_class_rejection(scores(1), 1.0, classes=[HOSTILE]),
        "metrics": report.metric_against_unknown_tpr(TWO),
        "sensitivity": report.sensitivity(
            {HOSTILE: {0.1: [0.8, 0.9], 1: 0.7, 10: 0.5}}
        ),
        "learning": report.learning_curves({HOSTILE: runs}),
        "alpha": report.alpha_sweep({HOSTILE: by_alpha}),
        "surrogate": report.surrogate_sweep(by_surrogate),
    }


NAMES = sorted(displays())


@pytest.mark.parametrize("name", NAMES)
def test_the_small_drawing_is_xml_and_names_stay_text(name):
    drawn = displays()[name].svg()
    root = ET.fromstring(f"<div>{drawn}</div>")  # noqa: S314  # our own
    kinds = {element.tag.rsplit("}")[-1] for element in root.iter()}
    assert kinds <= {"div", "svg", "style", "path", "text", "title", "g", "circle"}
    assert "path" in kinds
    assert all(
        not attribute.lower().startswith("on")
        for element in root.iter()
        for attribute in element.attrib
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_the_same_every_time(name):
    assert displays()[name].svg() == displays()[name].svg()


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="the extra report"
)
@pytest.mark.parametrize("name", NAMES)
def test_matplotlib_draws_one_axes_per_chart(name, tmp_path):
    display = displays()[name]
    path = tmp_path / "figure.svg"
    figure = display.plot(path)
    drawn = [axes for axes in figure.axes if axes.axison]
    assert len(drawn) == len(display.charts)
    first = path.read_bytes()
    display.plot(path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("name", NAMES)
def test_frame_and_notebook_show_the_same_numbers(name):
    display = displays()[name]
    frame = display.to_frame()
    assert list(frame.columns) == list(display.columns)
    assert len(frame) > 0
    assert "<svg" in display._repr_html_()
    assert all(len(row) == len(display.brief.header) for row in display.brief.rows)


def test_oscr_holds_the_curve_of_the_metrics():
    one = scores(3)
    shown = report.oscr(one)
    curve = metrics.oscr_curve(one)
    np.testing.assert_array_equal(shown.columns["ccr"], curve.ccr)
    np.testing.assert_array_equal(shown.columns["threshold"], curve.thresholds)
    at = dict(shown.brief.rows)
    assert at["0.1"] == metrics.ccr_at_fpr(one, 0.1)


def test_roc_agrees_with_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics", reason="a foreign oracle")
    one = scores(3)
    shown = report.roc(one)
    fpr, tpr, _ = sklearn.roc_curve(~one.is_unknown, one.known, drop_intermediate=False)
    np.testing.assert_allclose(shown.columns["fpr"], fpr)
    np.testing.assert_allclose(shown.columns["tpr"], tpr)


def test_osa_over_urr_shows_operations_as_it_shows_their_scores():
    done = thresholds.operate(scores(1), scores(2), alpha=0.5)
    shown = report.osa_over_urr({"msp": done})
    of_kind = {
        kind: [shown.columns[c][shown.columns["kind"] == kind] for c in ("urr", "osa")]
        for kind in ("curve", "operational", "best")
    }
    np.testing.assert_array_equal(of_kind["curve"], [done.curve.urr, done.curve.osa])
    assert np.ravel(of_kind["operational"]).tolist() == [done.urr, done.oosa]
    assert np.ravel(of_kind["best"]).tolist() == [done.best.urr, done.oracle]
    from_scores = report.osa_over_urr(
        {"msp": scores(2)}, thresholds=done.threshold, alpha=0.5
    )
    assert (from_scores.columns["kind"] == shown.columns["kind"]).all()
    for column in ("urr", "osa"):
        np.testing.assert_allclose(from_scores.columns[column], shown.columns[column])
    other = thresholds.operate(scores(1), scores(2), alpha=0.25)
    with pytest.raises(ValueError, match=r"same α, got 0\.25, 0\.5"):
        report.osa_over_urr({"msp": done, "other": other})
    with pytest.raises(ValueError, match="given alone with operations"):
        report.osa_over_urr({"msp": done}, alpha=0.3)
    shown = report.osa_over_urr({"a": scores(1), "b": scores(2, 37)})
    assert shown.brief.header[1] == "OSA (α = 0.5) in use"


def test_histograms_add_up_to_one_whatever_the_scores():
    one = scores(4).with_known(
        np.where(np.arange(400) % 7 == 0, np.inf, scores(4).known)
    )
    shown = report.histogram(one, bins=11)
    frame = shown.to_frame()
    np.testing.assert_allclose(frame.groupby("group")["share"].sum(), 1.0)
    assert set(frame["group"]) == {"known", "unknown: near", "unknown: far"}


@pytest.mark.parametrize(
    "show", [report.histogram, report.per_class_rejection, report.confusion_regions]
)
def test_several_sets_are_refused_where_one_is_shown(show):
    more = () if show is report.histogram else (1.0,)
    rule = f"report.{show.__name__}: scores must be one Scores, got dict. Show several"
    with pytest.raises(TypeError, match=rule):
        show(TWO, *more)


def test_rejection_counts_what_a_loop_counts():
    one = scores(7)
    shown = report.per_class_rejection(one, 0.9, classes=["cat", "dog", "eel"])
    found = dict(zip(shown.columns["name"], shown.columns["rejected"], strict=True))
    groups = one.groups
    slow = {}
    for i in range(len(one)):
        label = int(one.labels[i])
        name = groups[i] if label < 0 else ("cat", "dog", "eel")[label]
        slow[name] = slow.get(name, 0) + int(one.known[i] < 0.9)
    assert found == slow


@pytest.mark.parametrize("name", ["wwwwwww", "wide" * 9])
def test_names_of_bars_are_not_cut_off_in_a_wide_font(name):
    drawn = report.per_class_rejection(scores(7), 0.9, classes=[name, "b", "c"]).svg()
    place, shown = re.search(r'<text x="([\d.]+)"[^>]*>(w[^<]+)</text>', drawn).groups()
    assert float(place) >= 7.5 * len(shown)


def test_the_dot_of_a_metric_is_its_best_threshold():
    one = scores(8)
    shown = report.metric_against_unknown_tpr(one, metrics=["f_score", "osa"])
    for row in shown.brief.rows:
        _, name, threshold, value, found = row
        (ours,) = [m for m in metrics.table() if m.label == name]
        assert value == pytest.approx(ours.value(one, threshold))
        assert found == pytest.approx(metrics.urr(one, threshold))


def test_learning_curves_are_means_over_runs():
    runs = {"a": [[{"m": 0.0}, {"m": 1.0}], [{"m": 1.0}, {"m": 2.0}]]}
    frame = report.learning_curves(runs).to_frame()
    assert frame["mean"].tolist() == [0.5, 1.5]
    assert frame["spread"].tolist() == pytest.approx([0.5**0.5] * 2)
    with pytest.raises(ValueError, match="metrics must be one of 'm'"):
        report.learning_curves(runs, metrics=["other"])


def test_thousands_of_points_make_a_small_drawing():
    drawn = report.oscr(scores(1, 20_000)).svg()
    assert len(drawn) < 20_000


@pytest.mark.parametrize(
    "show", [report.oscr, report.roc, report.histogram, report.osa_over_urr]
)
def test_data_without_unknowns_are_refused_by_name(show):
    known = Scores(labels=[0, 1], predicted=[0, 1], known=[1.0, 2.0])
    with pytest.raises(UndefinedMetricError, match="undefined without unknown"):
        show(known)


def test_other_kinds_are_refused():
    with pytest.raises(TypeError, match=r"report\.oscr: scores must be Scores"):
        report.oscr([1, 2, 3])
    with pytest.raises(ValueError, match="one or several by name, got none"):
        report.oscr({})
    with pytest.raises(ValueError, match="rows with the columns surrogate"):
        report.surrogate_sweep(tables()[0])


def test_a_gallery_shows_known_training_and_mixed_test_images(tmp_path, rng):
    images = rng.integers(0, 256, (90, 6, 5, 3), dtype=np.uint8)
    data = datasets.from_arrays(images, np.repeat(["a", "b", "c"], 30))
    fox = protocols.Protocol(known=["a", "b"], unknown=["c"])
    made = datasets.cut(data.with_parts(test=0.5), fox)
    shown = report.gallery(made, n=7)
    assert shown.parts["train"].is_known.all()
    test = shown.parts["test"]
    assert ((test.classes != "c") == test.is_known).all()
    assert 0 < test.is_known.sum() < 7
    assert len(shown.to_frame()) == 14
    assert report.draw(shown, tmp_path / "g.png") is not None
    assert (tmp_path / "g.png").stat().st_size > 0
    table = datasets.load("digits")
    with pytest.raises(ValueError, match="cut must be images of one size, got table"):
        report.gallery(datasets.cut(table, protocols.holdout(table, 6, 4)))


def test_known_ink_is_red_and_unknown_ink_is_blue():
    from openset.report._gallery import Pictures  # noqa: PLC0415
    from openset.report._matplotlib import _BLUE, _RED, _mosaic  # noqa: PLC0415

    ink = np.full((2, 3, 3), 255, np.uint8)
    page = _mosaic(Pictures(ink, np.array(["a", "b"]), np.array([True, False])))
    assert page[3, 3].tolist() == _RED.tolist()
    assert page[3, 3 + 7].tolist() == _BLUE.tolist()
    assert page[0, 0].tolist() == [255] * 3


def test_risk_over_coverage_shows_the_curve_and_its_mean():
    one = scores(1)
    shown = report.risk_coverage(one)
    curve = metrics.risk_coverage_curve(one)
    (line,) = shown.charts[0].lines
    assert line.name == f"AURC {metrics.aurc(one):.4f}"
    np.testing.assert_array_equal(line.x, curve.coverage)
    np.testing.assert_array_equal(line.y, curve.risk)
    # the short table: the risk at full coverage is the share of all errors
    assert shown.brief.rows[-1] == ("1", approx(np.mean(~one.is_correct)))


def test_risk_over_coverage_of_repeats_is_their_mean_with_a_band():
    repeats = [scores(1), scores(2)]
    shown = report.risk_coverage({"a": repeats, "b": scores(3)})
    line = shown.charts[0].lines[0]
    curves = [metrics.risk_coverage_curve(one) for one in repeats]
    at = [np.interp(line.x, one.coverage, one.risk) for one in curves]
    np.testing.assert_allclose(line.y, np.mean(at, axis=0))
    assert ((line.low <= line.y) & (line.y <= line.high)).all()
    mean = np.mean([metrics.aurc(one) for one in repeats])
    assert line.name.startswith(f"AURC {mean:.4f} ± ")
    assert set(shown.columns) == {"name", "coverage", "risk"}
