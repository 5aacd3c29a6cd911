"""Drawing: only that every figure comes out, with what it must show."""

import importlib.util

import numpy as np
import pytest

from openset import MissingExtraError, Scores, thresholds
from openset.report import (
    confusion_regions,
    draw,
    osa_over_urr,
    random_scores,
    sample_counts,
)

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
needs_matplotlib = pytest.mark.skipif(
    not HAS_MATPLOTLIB, reason="matplotlib (extra report) is not installed"
)


def regions():
    scores = Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1])
    return confusion_regions(scores, 2)


@needs_matplotlib
def test_figure_one_draws_both_sides():
    figure = draw(sample_counts([10] * 5))
    assert len(figure.axes[0].collections) == 2


@needs_matplotlib
def test_figure_two_draws_one_panel_per_configuration():
    figure = draw(random_scores([2, 3], [2, 3, 4], repeats=20))
    assert len(figure.axes) == 12


@needs_matplotlib
def test_the_matrices_show_their_scores():
    titles = [axes.get_title() for axes in draw(regions()).axes]
    assert titles == ["inner 1.000", "outer 1.000", "halfpoint 1.000", "overall 1.000"]


@needs_matplotlib
def test_names_under_a_matrix_do_not_run_into_each_other():
    labels = np.arange(-1, 6)
    scores = Scores(labels=labels, predicted=np.maximum(labels, 0), known=labels)
    names = [f"$class {c}" for c in range(6)]  # no mathematics: one $ would be wrong
    figure = draw(confusion_regions(scores, 0, classes=names))
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        is_slanted = [label.get_rotation() > 0 for label in axes.get_xticklabels()]
        pairs = zip(boxes, boxes[1:], is_slanted[1:], strict=False)
        assert all(slanted or a.x1 < b.x0 for a, b, slanted in pairs)


@needs_matplotlib
def test_many_classes_are_drawn_without_letters():
    labels = np.arange(-1, 60)
    scores = Scores(labels=labels, predicted=np.maximum(labels, 0), known=labels)
    inner = draw(confusion_regions(scores, 0)).axes[0]
    assert not inner.texts
    assert not inner.get_xticklabels()


def operations(alpha=0.5):
    test = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    return {"msp": thresholds.operate(calibration, test, alpha=alpha)}


@needs_matplotlib
def test_osa_over_urr_has_a_star_and_a_diamond():
    figure = draw(osa_over_urr(operations()))
    names = figure.axes[0].get_legend_handles_labels()[1]
    assert names == ["msp", "best threshold (oracle)", "the threshold in use"]


@needs_matplotlib
@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_figure_is_written_whole(tmp_path, ending):
    draw(regions(), tmp_path / f"figure.{ending}")
    assert (tmp_path / f"figure.{ending}").stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(HAS_MATPLOTLIB, reason="matplotlib is installed")
def test_without_matplotlib_the_extra_is_named():
    with pytest.raises(MissingExtraError, match=r"openset\[report\]"):
        draw(regions())


def test_other_data_are_refused():
    with pytest.raises(TypeError, match="data must be one of SampleCounts"):
        draw([1, 2, 3])
