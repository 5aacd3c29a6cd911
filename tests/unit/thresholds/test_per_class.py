"""One threshold per predicted class."""

from dataclasses import replace

import numpy as np
import pytest

from openset import Scores, thresholds
from tests.unit.thresholds.makers import scattered


def test_small_classes_are_drawn_to_the_global_threshold():
    rng = np.random.default_rng(0)
    n = np.array([2000, 20])  # samples predicted as class 0 and 1, half unknown
    predicted = np.repeat([0, 1], n)
    labels = np.where(np.arange(n.sum()) % 2, predicted, -1)
    known = rng.normal(size=n.sum()) + 2.0 * (labels >= 0) + 5.0 * predicted
    scores = Scores(labels=labels, predicted=predicted, known=known)
    one = thresholds.osa(scores).value
    alone = thresholds.per_class(scores, strength=0)
    drawn_in = thresholds.per_class(scores, strength=1e5)
    assert alone.per_class[1] > 4 > alone.per_class[0] + 2
    assert drawn_in.per_class[1] == pytest.approx(one, abs=0.5)
    assert alone.rate.value > thresholds.osa(scores).rate.value


@pytest.mark.parametrize("strength", [0, 1, 30, 1000])
@pytest.mark.parametrize("alpha", [0.3, "counts"])
def test_a_class_weighs_its_own_samples_and_some_of_all(strength, alpha):
    """Its own accuracy, plus that of the whole as if it were `strength` samples."""
    scores = scattered(5, 80, decimals=1, gap=1.0)
    share = scores.n_known / len(scores) if alpha == "counts" else alpha
    cuts = [np.inf, *np.unique(scores.known).tolist()[::-1]]
    found = thresholds.per_class(scores, alpha, strength=strength)

    def osa(value, mask):
        accepted = mask & (scores.known >= value)
        hits = (accepted & scores.is_correct).sum() / scores.n_known
        missed = (accepted & scores.is_unknown).sum() / scores.n_unknown
        return share * hits - (1 - share) * missed

    everyone = np.ones(len(scores), dtype=bool)
    for c, value in enumerate(found.per_class):
        mine = scores.predicted == c
        sums = [
            len(scores) * osa(cut, mine) + strength * osa(cut, everyone) for cut in cuts
        ]
        optimal = [cut for cut, one in zip(cuts, sums, strict=True)
                   if one > max(sums) - 1e-9]  # fmt: skip
        assert value == min(optimal)
    assert found.value == thresholds.osa(scores, alpha).value
    assert found.target == strength
    assert thresholds.per_class(scores).target == 100.0


def test_a_class_that_is_never_predicted_has_the_global_threshold():
    scores = scattered(5, 80)
    wide = replace(scores, n_classes=9)
    found = thresholds.per_class(wide, strength=0)
    one = thresholds.osa(scores).value
    assert len(found.per_class) == 9
    assert found.per_class[5:] == (one,) * 4
    assert len(set(found.per_class[:5])) > 1


def test_numbers_of_classes_that_no_memory_holds_are_refused():
    far = 1 << 32
    scores = Scores(labels=[far, -1], predicted=[far, 0], known=[2.0, 1.0])
    with pytest.raises(ValueError, match=f"below 134217728, got class {far}"):
        thresholds.per_class(scores)
