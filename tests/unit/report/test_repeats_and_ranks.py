"""Curves over repeats, the logarithmic axis, sizes, and the diagram of ranks."""

import re

import numpy as np
import pytest

from openset import Scores, evaluate, stats
from openset.metrics import oscr_curve
from openset.report import critical_difference, oscr, roc


def made(seed, n=200):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, -1], n))
    predicted = np.where(rng.random(3 * n) < 0.8, np.maximum(labels, 0), 1)
    known = rng.normal(size=3 * n) + (labels >= 0)
    return Scores(labels=labels, predicted=predicted, known=known.round(1))


def rate_at(scores, fpr):
    """Return the CCR at an FPR: the slow, obvious way."""
    curve = oscr_curve(scores)
    before = max(i for i, x in enumerate(curve.fpr) if x <= fpr)
    if before == len(curve.fpr) - 1 or curve.fpr[before] == fpr:
        return curve.ccr[before]
    x0, x1 = curve.fpr[before], curve.fpr[before + 1]
    y0, y1 = curve.ccr[before], curve.ccr[before + 1]
    return y0 + (y1 - y0) * (fpr - x0) / (x1 - x0)


@pytest.mark.parametrize("log_fpr", [False, True])
def test_repeats_are_a_mean_with_a_band(log_fpr):
    repeats = [made(seed) for seed in range(3)]
    shown = oscr({"a": repeats, "b": made(3)}, log_fpr=log_fpr)
    line, single = shown.charts[0].lines
    for i in range(0, len(line.x), 50):
        rates = [rate_at(one, line.x[i]) for one in repeats]
        mean, spread = np.mean(rates), np.std(rates, ddof=1)
        assert line.y[i] == pytest.approx(mean)
        assert line.low[i] == pytest.approx(max(mean - spread, 0))
        assert line.high[i] == pytest.approx(min(mean + spread, 1))
    assert single.low is None
    values = [evaluate(one)["openauc"] for one in repeats]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in line.name
    is_a = shown.columns["name"] == "a"
    assert set(shown.columns["n"][is_a]) == {3}
    assert set(shown.columns["n"][~is_a]) == {1}


def test_a_list_of_repeats_needs_no_name():
    (line,) = roc([made(0), made(1)]).charts[0].lines
    assert line.low is not None
    with pytest.raises(TypeError, match="scores must be Scores"):
        roc([made(0), "x"])
    with pytest.raises(ValueError, match=r"report\.oscr"):
        oscr({"a": []})


def test_the_logarithmic_axis_reaches_one_unknown_sample():
    scores = made(0)
    chart = oscr(scores, log_fpr=True).charts[0]
    assert chart.x_limits == (1e-3, 1.0)  # of 200 unknown samples
    (line,) = chart.lines
    assert line.x.min() == 1e-3
    assert line.y[0] == pytest.approx(rate_at(scores, 1e-3))
    svg = oscr(scores, log_fpr=True).svg()
    ticks = [text for text in ("0.001", "0.01", "0.1", "1") if f">{text}</text>" in svg]
    assert len(ticks) == 4


def test_figures_have_the_size_that_is_asked_for(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    figure = oscr(made(0), log_fpr=True).plot(path, width=3, height=2, dpi=50)
    assert figure.get_size_inches().tolist() == [3, 2]
    assert figure.axes[0].get_xscale() == "log"
    head = path.read_bytes()[16:24]  # width and height of a PNG
    assert (int.from_bytes(head[:4]), int.from_bytes(head[4:])) == (150, 100)
    with pytest.raises(ValueError, match="width must be"):
        oscr(made(0)).plot(width=0)


@pytest.fixture
def ranks():
    rng = np.random.default_rng(0)
    names = ["msp", "a $ & <b>", "energy", "postmax", "knn"]
    table = {name: rng.normal(i / 2, 1, 20) for i, name in enumerate(names)}
    return stats.ranks(table)


def test_the_diagram_joins_what_does_not_differ(ranks):
    (axis,) = critical_difference(ranks).charts
    assert dict(zip(axis.names, axis.ranks, strict=True)) == ranks.mean
    assert axis.distance == ranks.critical_difference
    for group, (low, high) in zip(ranks.alike, axis.groups, strict=True):
        assert high - low < ranks.critical_difference
        inside = {name for name, mean in ranks.mean.items() if low <= mean <= high}
        assert inside == set(group)
    assert len({(row, is_left) for _, _, row, is_left in axis.rows()}) == 5
    brief = {row[0]: row[2] for row in critical_difference(ranks).brief.rows}
    for name, text in brief.items():
        for other in ranks.mean:
            alike = any({name, other} <= set(group) for group in ranks.alike)
            assert (other in text) == (alike and other != name)


def test_the_diagram_is_drawn_with_plain_names(ranks):
    svg = critical_difference(ranks).svg()
    assert "a $ &amp; &lt;b&gt;" in svg
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)"', svg)]
    assert 0 <= min(places) <= max(places) <= 400
    pytest.importorskip("matplotlib")
    figure = critical_difference(ranks).plot()
    figure.canvas.draw()
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert set(ranks.mean) <= set(texts)


def test_a_leaderboard_without_ranks_is_refused():
    results = stats.read_results  # a function is no table of ranks, either
    for wrong in (results, None):
        with pytest.raises(TypeError, match="must be Ranks or a leaderboard"):
            critical_difference(wrong)
