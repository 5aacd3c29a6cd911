"""Slips that a type checker would find, said in a sentence to those who use none."""

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors, evaluate, selection, thresholds
from openset.watch import Watch

OUTPUTS = Outputs(logits=np.eye(4) * 5, labels=[0, 1, 2, 3])
REJECTOR = Rejector.calibrate(
    detectors.MSP().fit(OUTPUTS), known=OUTPUTS, objective="at_tpr"
)
CASES = {
    "unfitted detector": (
        lambda: Rejector.calibrate(detectors.MSP(), known=OUTPUTS),
        "Rejector.calibrate: fitted must be a fitted detector, or a Choice, got MSP. "
        "Fit it",
    ),
    "unfitted detectors": (
        lambda: selection.choose(
            [detectors.MSP(), detectors.MaxLogit()], known=OUTPUTS, surrogate=OUTPUTS
        ),
        "selection.choose: fitted must be several fitted detectors, got MSP",
    ),
    "bare array": (
        lambda: REJECTOR.predict(np.eye(4)),
        r"Rejector\.decide: outputs must be Outputs, got ndarray. Wrap your arrays",
    ),
    "outputs for scores": (
        lambda: evaluate(OUTPUTS),
        "evaluate: scores must be Scores, got Outputs. Score your outputs first",
    ),
    "bare array of knowns": (
        lambda: Rejector.calibrate(REJECTOR.fitted, known=np.eye(4)),
        "Rejector.calibrate: known must be Outputs, got ndarray. Wrap your arrays",
    ),
    "bare array of unknowns": (
        lambda: Rejector.calibrate(
            REJECTOR.fitted, known=OUTPUTS, surrogate=[np.eye(4)]
        ),
        "Rejector.calibrate: surrogate must be Outputs, got ndarray",
    ),
    "several surrogates to choose by": (
        lambda: selection.choose(
            REJECTOR.fitted, known=OUTPUTS, surrogate=[OUTPUTS, OUTPUTS]
        ),
        "selection.choose: surrogate must be Outputs, got list. Join several with",
    ),
    "name of a detector": (
        lambda: selection.leave_classes_out("msp", OUTPUTS, OUTPUTS),
        "detector must be a detector that is not fitted yet, got str",
    ),
    "outputs to operate on": (
        lambda: thresholds.operate(REJECTOR.threshold, OUTPUTS),
        "thresholds.operate: scores must be Scores, got Outputs",
    ),
    "bare array to make unknowns from": (
        lambda: selection.synthetic(np.eye(4)),
        "selection.synthetic: known must be Outputs, got ndarray",
    ),
    "outputs to watch": (
        lambda: Watch.of(REJECTOR).check(OUTPUTS),
        "Watch.check: scores must be Scores, got Outputs",
    ),
}


@pytest.mark.parametrize("name", thresholds.objectives())
def test_every_objective_asks_for_scores(name):
    message = rf"thresholds\.{name}: scores must be Scores, got ndarray. Score your"
    with pytest.raises(TypeError, match=message):
        getattr(thresholds, name)(np.eye(4))


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_type_is_named_with_its_remedy(name):
    call, message = CASES[name]
    with pytest.raises(TypeError, match=message):
        call()
