"""Slips that a type checker would find, said in a sentence to those who use none."""

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors, evaluate, selection, thresholds

OUTPUTS = Outputs(logits=np.eye(4) * 5, labels=[0, 1, 2, 3])
REJECTOR = Rejector.calibrate(
    detectors.MSP().fit(OUTPUTS), known=OUTPUTS, objective="at_tpr"
)
CASES = [
    (
        lambda: REJECTOR.predict(np.eye(4)),
        r"Rejector\.decide: outputs must be Outputs, got ndarray. Wrap your arrays",
    ),
    (
        lambda: evaluate(OUTPUTS),
        "evaluate: scores must be Scores, got Outputs. Score your outputs first",
    ),
    (
        lambda: Rejector.calibrate(REJECTOR.fitted, known=np.eye(4)),
        "Rejector.calibrate: known must be Outputs, got ndarray. Wrap your arrays",
    ),
    (
        lambda: Rejector.calibrate(
            REJECTOR.fitted, known=OUTPUTS, surrogate=[np.eye(4)]
        ),
        "Rejector.calibrate: surrogate must be Outputs, got ndarray",
    ),
    (
        lambda: selection.leave_classes_out("msp", OUTPUTS, OUTPUTS),
        "detector must be a detector that is not fitted yet, got str",
    ),
    (
        lambda: thresholds.operate(REJECTOR.threshold, OUTPUTS),
        "thresholds.operate: scores must be Scores, got Outputs",
    ),
]


@pytest.mark.parametrize(("call", "words"), CASES)
def test_a_wrong_type_is_named_with_its_remedy(call, words):
    with pytest.raises(TypeError, match=words):
        call()
