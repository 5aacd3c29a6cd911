"""Calibration: what it takes and refuses, its cautions, and its one sort."""

import sys
import warnings

import numpy as np
import pytest

from openset import (
    CalibrationError,
    CalibrationWarning,
    Outputs,
    Rejector,
    Scores,
    detectors,
    selection,
    thresholds,
)
from openset.outputs import replaced
from tests.rejector import data

N = 3000


def sorted_scores(call):
    """Return how many scores were sorted during a call: the sizes of all such arrays.

    Sorts are C functions; the interpreter reports each call of one, wherever it is.
    """
    sizes = []

    def note(_frame, event, function):
        owner = getattr(function, "__self__", None)
        if event == "c_call" and isinstance(owner, np.ndarray):
            is_sort = function.__name__ in {"sort", "argsort", "partition"}
            if is_sort and owner.dtype == np.float64 and owner.size > N // 10:
                sizes.append(owner.size)

    lexsort = np.lexsort

    def counted(keys, *args, **options):  # called from C: the interpreter is not told
        sizes.append(len(keys[0]))
        return lexsort(keys, *args, **options)

    np.lexsort = counted
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        np.lexsort = lexsort
    return sum(sizes)


# Sorting the three kinds of samples apart and merging them passes over all scores
# twice.
@pytest.mark.parametrize("objective", thresholds.objectives())
@pytest.mark.parametrize("groups", [None, np.array(["a", "b", "c"] * (N // 3))])
def test_calibration_sorts_its_scores_once(objective, groups):
    fitted = detectors.MaxLogit().fit(data.drawn(N, seed=1))
    known, surrogate = data.drawn(N, seed=2), data.drawn(N, seed=3, unknown=True)
    surrogate = replaced(surrogate, groups=groups)

    def calibrate():
        Rejector.calibrate(
            fitted, known=known, surrogate=surrogate, objective=objective
        )

    assert sorted_scores(calibrate) <= 2 * 2 * N + (0 if groups is None else N)
    values = np.random.default_rng(0).random(N)  # the counter sees other ways to sort
    for sort in (np.sort, np.unique, lambda one: np.lexsort((one, one))):
        assert sorted_scores(lambda sort=sort: sort(values)) == N


@pytest.mark.parametrize("n", [1, 2, 7, 1025, 1026, 3000])
def test_the_reference_holds_evenly_spaced_scores(n):
    fitted = detectors.MaxLogit().fit(data.drawn(200, seed=1))
    known, surrogate = data.drawn(n, seed=2), data.drawn(n, seed=3, unknown=True)
    surrogate = replaced(surrogate, logits=surrogate.logits.round(1))
    found = Rejector.calibrate(fitted, known=known, surrogate=surrogate).reference
    for side, part in (("known", known), ("unknown", surrogate)):
        ordered = np.sort(fitted.known(part))
        size = min(n, 1025)
        # the ceiling of an even step, in whole numbers
        places = [-(-i * (n - 1) // max(size - 1, 1)) for i in range(size)]
        np.testing.assert_array_equal(found[side], ordered[places])


@pytest.fixture(scope="module")
def fitted():
    return detectors.PostMax().fit(data.drawn(300, seed=1))


PARTS = {
    "known": data.drawn(200, seed=2),
    "surrogate": data.drawn(200, seed=3, unknown=True),
}


def cautioned(fitted, **options):
    """Calibrate; return the rejector and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = Rejector.calibrate(fitted, **PARTS | options)
    return made, caught


def test_unknowns_may_be_among_the_known_unlabelled_and_in_several_sets(fitted):
    expected = data.calibrated(fitted).threshold
    bare = data.drawn(200, seed=3, unknown=True, labelled=False)
    halves = [bare.take(slice(0, 80)), bare.take(slice(80, 200))]
    both = {"known": Outputs.concat(list(PARTS.values())), "surrogate": None}
    for given in (both, {"surrogate": bare}, {"surrogate": halves}):
        assert data.calibrated(fitted, **given).threshold == expected


def test_bad_calibration_data_are_named(fitted):
    known, unknown = PARTS.values()
    bare, other = detectors.MaxLogit().fit(), data.drawn(99, classes=tuple("bacd"))
    left_out = selection.synthetic(known, "left-out")
    train, knn = data.drawn(300, seed=1), detectors.KNN(k=3).fit(data.drawn(99, seed=8))
    unlabelled = data.drawn(300, seed=1, labelled=False)
    moved = Outputs(logits=unknown.logits, input_step="odin")
    narrow = Outputs(logits=unknown.logits[:, :3])
    for detector, arguments, words in (
        (fitted, {"known": unlabelled}, "known must be labelled"),
        (fitted, {"surrogate": known}, "surrogate must be unknown samples only"),
        (fitted, {"surrogate": "magic"}, "surrogate must be one of 'mixup'"),
        (fitted, {"surrogate": None}, "surrogate must be given for objective 'osa', g"),
        (fitted, {"objective": "x"}, "objective must be one of"),
        (fitted, {"sets": 1.0}, r"sets must be a number in \(0, 1\)"),
        (fitted, {"surrogate": moved}, "by one step, got no step and odin"),
        (fitted, {"train": unlabelled}, "train must be outputs with labels and logits"),
        (bare, {"surrogate": other}, "classes of surrogate must be those of known"),
        (bare, {"train": other}, "classes of train must be those of known"),
        (bare, {"surrogate": narrow}, "n_classes must be 4, as in fit or calibration"),
        (fitted, {"known": train}, "got 300 of 300 known samples that are among its"),
        (bare, {"known": train, "train": train}, "got 300 of 300 known samples"),
        (knn, {"surrogate": "left-out"}, "knn can tell from known .* Use 'mixup'"),
        (knn, {"surrogate": left_out}, "knn can tell from known samples"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=f"(?s)(calibrate|score): .*{words}"):
                Rejector.calibrate(detector, **PARTS | arguments)
    with pytest.raises(ValueError, match="an option of osa must be one of"):
        Rejector.calibrate(fitted, **PARTS, fpr=0.1)
    with pytest.raises(TypeError, match="fitted must be a fitted detector, or a Ch"):
        Rejector.calibrate(detectors.MSP(), **PARTS)


def test_every_caution_is_a_warning_at_the_line_of_the_caller(fitted):
    made, caught = cautioned(fitted)
    assert made.cautions
    assert [str(one.message) for one in caught] == [str(one) for one in made.cautions]
    assert {one.category for one in caught} == {CalibrationWarning}
    assert {one.filename for one in caught} == {__file__}


def test_a_threshold_that_collapses_is_refused_unless_the_risk_is_accepted(fitted):
    like_knowns = data.drawn(200, seed=7).as_unknown()
    options = {"alpha": 0.95, "surrogate": like_knowns}
    with pytest.raises(CalibrationError, match=r"CAL00[12].*accept_risk=True"):
        cautioned(fitted, **options)
    made, caught = cautioned(fitted, **options, accept_risk=True)
    grave = [str(one) for one in made.cautions if one.severity == "error"]
    assert grave
    assert set(grave) <= {str(one.message) for one in caught}
    # A rate at the edge that was asked for is kept.
    for name, rate in (("tpr", 1.0), ("fpr", 0.0)):
        options = {"objective": f"at_{name}", name: rate}
        made, caught = cautioned(fitted, surrogate=like_knowns, **options)
        assert {"CAL001", "CAL002"} & set(made.report.codes)
        assert len(caught) == len(made.cautions)


def test_with_the_training_data_known_classes_are_left_out(fitted):
    known, surrogate = PARTS.values()
    train = data.drawn(300, seed=1)
    made, _ = cautioned(fitted, train=train)
    near = selection.leave_classes_out(fitted.detector, train, known, folds=3)
    scores = Scores.concat([fitted.score(known), fitted.score(surrogate)])
    expected = thresholds.report(scores, made.threshold, near=near)
    assert made.report.cautions == expected.cautions
    assert "not checked: whether" in str(cautioned(fitted)[0].report)
    assert "not checked: whether" not in str(made.report)
    # The only known class cannot be left out: calibrated as without `train`.
    alone = known.take(known.labels == 0)
    found, plain = (
        cautioned(fitted, known=alone, train=one)[0] for one in (train, None)
    )
    assert found.report.to_dict() == plain.report.to_dict()


def test_what_a_rejector_shows_of_its_calibration_cannot_be_written_over():
    features = np.repeat([[3.0, 1.0], [0.0, 2.0]], 20, axis=0)
    known = Outputs(logits=features, features=features, labels=[0] * 20 + [1] * 20)
    rejector = Rejector.calibrate(
        detectors.MaxLogit().fit(known),
        known=known,
        surrogate=Outputs(logits=features / 10, features=features),
    )
    assert {"known", "unknown", "features"} <= set(rejector.reference)
    for array in rejector.reference.values():
        with pytest.raises(ValueError, match="read-only"):
            array.sort(axis=0)
