"""Slips that a type checker would find, said in a sentence to those who use none."""

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors, evaluate, thresholds
from openset.watch import Watch

OUTPUTS = Outputs(logits=np.eye(4) * 5, labels=[0, 1, 2, 3])
REJECTOR = Rejector.calibrate(
    detectors.MSP().fit(OUTPUTS), known=OUTPUTS, objective="at_tpr"
)
CASES = {
    "unfitted detector": (
        lambda: Rejector.calibrate(detectors.MSP(), known=OUTPUTS),
        "Rejector.calibrate: fitted must be a fitted detector, or a choice, got MSP. "
        "Fit it first",
    ),
    "unfitted detectors": (
        lambda: thresholds.choose(
            [detectors.MSP(), detectors.MaxLogit()], known=OUTPUTS, surrogate=OUTPUTS
        ),
        "thresholds.choose: fitted must be fitted detectors, got MSP",
    ),
    "bare array": (
        lambda: REJECTOR.predict(np.eye(4)),
        "Rejector: outputs must be Outputs, got ndarray. Wrap your arrays",
    ),
    "outputs for scores": (
        lambda: evaluate(OUTPUTS),
        "evaluate: scores must be Scores, got Outputs. Score your outputs first",
    ),
    "outputs to watch": (
        lambda: Watch.of(REJECTOR).check(OUTPUTS),
        "Watch.check: new must be Scores, got Outputs",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_type_is_named_with_its_remedy(name):
    call, message = CASES[name]
    with pytest.raises(TypeError, match=message):
        call()
