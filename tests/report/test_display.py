"""All displays: their drawings are safe, repeatable and complete."""

import re
import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from openset import report, stats
from openset.report.display import STYLE
from tests.report.studies import scores

matplotlib = pytest.importorskip("matplotlib", reason="the extra report")

HOSTILE = "</svg><script>alert(1)</script>\"'&$ --> #2468b4\x00\u202e"
TWO = {"msp": scores(1), HOSTILE: scores(2, gap=3.0)}


def displays():
    rng = np.random.default_rng(0)
    named = {"msp": 0.0, HOSTILE: 0.5, "energy": 1, "postmax": 2, "knn": 3}
    runs = [[{"outer_score": 0.5}, {"outer_score": 0.7}]] * 2
    one, classes = scores(1), [HOSTILE, "dog", "eel"]
    return {
        "oscr": report.oscr(TWO),
        "log": report.oscr(TWO, log_fpr=True),
        "roc": report.roc({HOSTILE: [scores(1), scores(2)], "b": scores(3)}),
        "risk": report.risk_coverage(TWO),
        "osa": report.osa_over_urr(TWO, thresholds={"msp": 1.0}),
        "metrics": report.metric_against_unknown_tpr(TWO),
        "histogram": report.histogram(one, threshold=0.5),
        "rejection": report.per_class_rejection(one, 1.0, classes=classes),
        "matrix": report.confusion_matrix(one, 1.0, classes=classes),
        "sensitivity": report.sensitivity({HOSTILE: {0.1: [0.8, 0.9], 1: 0.7, 9: 0.5}}),
        "learning": report.learning_curves({HOSTILE: runs, "_a": runs}),
        "alpha": report.alpha_sweep(scores(5), scores(6)),
        "ranks": report.critical_difference(
            stats.ranks({n: rng.normal(at, 1, 20) for n, at in named.items()})
        ),
    }


SHOWN, AGAIN = displays(), displays()
each = pytest.mark.parametrize("name", list(SHOWN))


@each
def test_a_drawing_is_plain_xml_of_one_size_with_our_colours(name):
    drawn = SHOWN[name].svg(style=False)
    assert drawn == AGAIN[name].svg(style=False)
    root = ET.fromstring(f"<div>{drawn}</div>")  # noqa: S314  # our own
    kinds = {element.tag.rsplit("}")[-1] for element in root.iter()}
    assert kinds <= {"div", "svg", "path", "text", "g", "use", "defs", "clipPath",
                     "rect"}  # fmt: skip
    names = [(key, one) for e in root.iter() for key, one in e.attrib.items()]
    assert not [key for key, _ in names if key.lower().startswith("on")]
    assert not [one for _, one in names if re.search("#[0-9a-fA-F]{6}", one)]
    assert [key for key, _ in names].count("aria-label") == len(SHOWN[name].panels)
    ids = [one for key, one in names if key == "id"]
    for _, one in names:
        assert set(re.findall(r"url\(#(\w+)\)", one)) <= set(ids)


@each
def test_a_figure_is_written_whole_and_the_same_every_time(name, tmp_path):
    for ending in ("svg", "pdf", "png"):
        path = tmp_path / f"a.{ending}"
        figure = SHOWN[name].plot(path)
        first = path.read_bytes()
        SHOWN[name].plot(path)
        assert path.read_bytes() == first
    assert sum(axes.axison or name == "ranks" for axes in figure.axes) == len(
        SHOWN[name].panels
    )
    assert len(list(tmp_path.iterdir())) == 3


@each
@pytest.mark.parametrize("size", [(3.3, 2.6), (6.5, 3.0)])
def test_nothing_is_clipped_and_no_legend_covers_a_curve(name, size):
    figure = SHOWN[name].plot(width=size[0], height=size[1])
    assert figure.get_size_inches().tolist() == list(size)
    figure.draw_without_rendering()
    page = figure.bbox.padded(1.5)
    legends = [one.get_window_extent() for one in figure.legends]
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        for text in [
            axes.xaxis.label,
            axes.yaxis.label,
            axes._left_title,
        ]:  # no public name
            box = text.get_window_extent()
            if text.get_text():
                assert page.x0 <= box.x0 <= box.x1 <= page.x1, text
                assert page.y0 <= box.y0 <= box.y1 <= page.y1, text
        assert not [one for one in legends if one.overlaps(axes.get_window_extent())]


@each
def test_frame_and_notebook_show_the_same_numbers(name):
    frame = SHOWN[name].to_frame()
    assert list(frame.columns) == list(SHOWN[name].columns)
    assert len(frame) > 0
    shown = SHOWN[name]._repr_html_()
    assert shown.count("<svg") == len(SHOWN[name].panels)
    assert shown.count("<style>") == 1
    header, rows = SHOWN[name].brief
    assert all(len(row) == len(header) for row in rows)


def test_every_colour_of_the_style_has_its_variable():
    drawn = SHOWN["oscr"].svg()
    for colour in re.findall('"(#[0-9a-f]{6})"', STYLE.read_text()):
        assert colour in drawn  # as the value of a variable


def test_names_stay_as_they_are_and_glyphs_may_be_missing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = report.oscr({"猫 #2468b4": scores(1), "_b": scores(2)}).svg()
    assert "猫 #2468b4</text>" in drawn
    assert "_b</text>" in drawn


def test_own_settings_of_matplotlib_do_not_change_a_page():
    with matplotlib.rc_context({"lines.linewidth": 9, "font.family": "serif"}):
        drawn = report.oscr(TWO).svg()
    assert drawn == SHOWN["oscr"].svg()


def test_thousands_of_points_make_a_small_drawing():
    assert len(report.oscr(scores(1, 20_000)).svg()) < 20_000


def test_dots_per_inch_are_kept(tmp_path):
    SHOWN["log"].plot(tmp_path / "a.png", width=3, height=2, dpi=50)
    head = (tmp_path / "a.png").read_bytes()[16:24]  # width and height of a PNG
    assert (int.from_bytes(head[:4]), int.from_bytes(head[4:])) == (150, 100)


ONE, KNOWN = scores(1), scores(1).take(scores(1).labels >= 0)
RUNS = {"a": [[{"m": 0.5}]]}
REFUSED = [
    (lambda: report.oscr([1, 2, 3]), r"report\.oscr: scores must be Scores"),
    (lambda: report.oscr({}), "one or several by name, got none"),
    (lambda: report.oscr({"a": []}), r"report\.oscr: scores"),
    (lambda: report.roc([ONE, "x"]), r"report\.roc: scores must be Scores"),
    (lambda: report.roc(KNOWN), r"report\.roc: undefined without unknown"),
    (lambda: report.osa_over_urr(KNOWN), "osa_over_urr: undefined without unknown"),
    (lambda: report.metric_against_unknown_tpr(ONE, metrics=["x"]), "metrics must be"),
    (lambda: report.histogram(TWO), "histogram: scores must be Scores, got dict"),
    (lambda: report.histogram(KNOWN), "histogram: undefined without unknown"),
    (lambda: report.per_class_rejection(TWO, 1.0), "scores must be Scores, got dict"),
    (lambda: report.confusion_matrix(TWO, 1.0), "scores must be Scores, got dict"),
    (lambda: report.learning_curves({}), "runs must be non-empty"),
    (lambda: report.learning_curves(RUNS, metrics=["x"]), "metrics must be one of 'm'"),
    (lambda: report.sensitivity({1: []}), "values must be finite numbers"),
    (lambda: report.critical_difference(None), "must be a leaderboard with ranks"),
    *(
        (lambda name=name: SHOWN["log"].plot(**{name: 0}), rf"plot: {name} must be")
        for name in ("width", "height", "dpi")
    ),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_cannot_be_shown_is_refused(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
