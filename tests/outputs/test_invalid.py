"""Invalid samples: refused, or kept and marked; never used in silence."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import InvalidSamplesError, Outputs, Rejector, detectors, selection
from openset.outputs import need_outputs
from openset.testing import example_outputs as split
from tests.extras import array_api_strict, torch

INF = np.inf


def is_bad(row):
    """Tell whether a row of logits has a class; slow and obvious."""
    if any(np.isnan(one) for one in row):
        return True
    best = [c for c, one in enumerate(row) if one == max(row)]
    return len(best) > 1 and np.isinf(max(row))


ROWS = np.array(
    [
        [1.0, 0.0, 2.0],
        [INF, 0.0, INF],
        [INF, 0.0, -INF],
        [-INF, -INF, -INF],
        [-INF, -INF, 0.0],
        [0.0, 0.0, 0.0],
        [np.nan, 0.0, 1.0],
        [np.nan, INF, INF],
    ]
)


@pytest.mark.parametrize(
    "asarray",
    [np.asarray, torch.asarray, array_api_strict.asarray],
    ids=["numpy", "torch", "strict"],
)
def test_a_sample_is_invalid_if_it_has_nan_or_no_largest_logit(asarray):
    features = np.ones((8, 2))
    features[4] = INF, np.nan
    features[5] = INF, -INF  # infinite features are left to the detector
    arrays = {"logits": asarray(ROWS.copy()), "features": asarray(features)}
    outputs = Outputs(**arrays, invalid="keep")
    expected = [is_bad(row) or i == 4 for i, row in enumerate(ROWS)]
    assert_array_equal(outputs.is_invalid, expected)
    assert_array_equal(outputs.take([6, 0, 5]).is_invalid, [True, False, False])
    both = Outputs.concat([outputs.take([0]), outputs])
    assert_array_equal(both.is_invalid, [False, *expected])
    parts = [Outputs(logits=asarray(ROWS[:1].copy())), replace(outputs, features=None)]
    for given in (parts, parts[::-1]):
        with pytest.raises(InvalidSamplesError, match="must be without invalid"):
            need_outputs("test", "both", Outputs.concat(given))


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_such_a_sample_is_refused_by_its_row(row):
    logits = np.array([ROWS[0], ROWS[row]])
    if not is_bad(ROWS[row]):
        Outputs(logits=logits)
        return
    what = r"largest for one class, got several \+inf, or -inf alone,"
    if np.isnan(ROWS[row]).any():
        what = "free of NaN, got NaN"
    words = f"Outputs: logits must be {what} in 1 rows, first in row 1"
    with pytest.raises(InvalidSamplesError, match=words) as error:
        Outputs(logits=logits)
    assert error.value.rows == (1,)
    assert pickle.loads(pickle.dumps(error.value)).rows == (1,)  # noqa: S301


def test_a_file_with_such_a_sample_is_refused_or_kept(tmp_path):
    kept = Outputs(logits=ROWS, invalid="keep")
    for path in (kept.save(tmp_path / "some.npz"), kept.save(tmp_path / "folder")):
        assert_array_equal(
            Outputs.load(path, invalid="keep").is_invalid, kept.is_invalid
        )
    with pytest.raises(InvalidSamplesError, match="first in row 1") as error:
        Outputs.load(tmp_path / "some.npz")
    assert error.value.rows == (1, 3, 6, 7)


MSP = detectors.MSP().fit()
USES = {
    "fit": lambda bad, good: detectors.KNN().fit(bad),
    "score": lambda bad, good: MSP.score(bad),
    "knownness": lambda bad, good: detectors.KNN().fit(good).known(bad),
    "calibration": lambda bad, good: Rejector.calibrate(
        MSP, known=bad, objective="at_tpr"
    ),
    "surrogate": lambda bad, good: Rejector.calibrate(
        MSP, known=good, surrogate=bad.as_unknown()
    ),
    "choice": lambda bad, good: selection.choose(
        [MSP], known=bad, surrogate=good.as_unknown()
    ),
    "synthetic": lambda bad, good: selection.synthetic(bad, "mixup"),
}


@pytest.mark.filterwarnings("ignore::openset.CalibrationWarning")
@pytest.mark.parametrize("use", USES)
def test_kept_samples_are_not_used_in_silence(use):
    known = split(120)
    logits = np.array(known.logits)
    logits[7, 0] = np.nan
    spoilt = replace(known, logits=logits, invalid="keep")
    words = "must be without invalid samples, got 1, first in row 7.*invalid='reject'"
    with pytest.raises(InvalidSamplesError, match=words):
        USES[use](spoilt, known)
