"""Slips that a type checker would find, said in a sentence to those who use none."""

from functools import partial

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors, evaluate, selection, thresholds

OUTPUTS = Outputs(logits=np.eye(4) * 5, labels=[0, 1, 2, 3])
calibrate = partial(Rejector.calibrate, detectors.MSP().fit(OUTPUTS))
REJECTOR = calibrate(known=OUTPUTS, objective="at_tpr")
CASES = {
    "Rejector.decide: outputs must be Outputs, got ndarray. Wrap your arrays": (
        lambda: REJECTOR.predict(np.eye(4))
    ),
    "evaluate: scores must be Scores, got Outputs. Score your outputs first": (
        lambda: evaluate(OUTPUTS)
    ),
    "Rejector.calibrate: known must be Outputs, got ndarray. Wrap your arrays": (
        lambda: calibrate(known=np.eye(4))
    ),
    "Rejector.calibrate: surrogate must be Outputs, got ndarray": (
        lambda: calibrate(known=OUTPUTS, surrogate=[np.eye(4)])
    ),
    "detector must be a detector that is not fitted yet, got str": (
        lambda: selection.leave_classes_out("msp", OUTPUTS, OUTPUTS)
    ),
    "thresholds.operate: scores must be Scores, got Outputs": (
        lambda: thresholds.operate(REJECTOR.threshold, OUTPUTS)
    ),
}


@pytest.mark.parametrize("words", CASES)
def test_a_wrong_type_is_named_with_its_remedy(words):
    with pytest.raises(TypeError, match=words):
        CASES[words]()
