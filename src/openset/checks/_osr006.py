"""OSR006: the threshold was chosen on the test data."""

import numpy as np
from numpy.typing import NDArray

from openset.checks._evidence import Evidence, ThresholdRecord
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import is_oracle
from openset.scores import Scores

SHARE = 0.2
"""Share of a side's samples that must recur to count as the same samples."""

_SAMPLE = np.dtype([("label", "i8"), ("predicted", "i8"), ("known", "f8")])
_REMEDY = (
    "Choose it on validation samples and surrogate unknowns "
    "(protocols.operational), then apply it unchanged to the test scores"
)


def look(evidence: Evidence) -> Outcome:
    """Compare test scores with calibration scores, fingerprints and thresholds."""
    if evidence.headline and is_oracle(evidence.headline):
        return found(
            f"the headline {evidence.headline!r} is the best over all thresholds of "
            "the test data",
            _REMEDY,
        )
    for name, chosen in evidence.thresholds.items():
        if "oracle" in chosen.method.lower():
            return found(
                f"{name}: the threshold's method is {chosen.method!r}", _REMEDY
            )
    told = 0
    for name, scores in evidence.scores.items():
        calibration, cut = evidence.calibration_of(name), evidence.threshold_of(name)
        trouble = _on_samples(scores, calibration)
        if not trouble and cut is not None:
            trouble = _on_threshold(scores, cut, is_alone=calibration is None)
        if trouble:
            return found(f"{name}: {trouble}", _REMEDY)
        is_marked = cut is not None and cut.is_of is not None
        told += calibration is not None or is_marked
    if not told:
        return not_applicable(
            "it is not known which scores the thresholds were chosen on; give "
            "calibration"
        )
    return passed(f"{told} test sets share no samples with their calibration data")


def _on_samples(scores: Scores, calibration: Scores | None) -> str:
    if calibration is None:
        return ""
    for side in ("known", "unknown"):
        n = shared(_side(scores, side), _side(calibration, side))
        if n:
            return (
                f"{n} {side} samples have the same scores in the calibration and in "
                "the test set"
            )
    return ""


def _on_threshold(scores: Scores, chosen: ThresholdRecord, *, is_alone: bool) -> str:
    if chosen.is_of is not None and chosen.is_of(scores):
        return "the fingerprint of the threshold is that of these test samples"
    if is_alone and _is_a_score_of(scores, chosen):
        return f"the threshold {chosen.value:g} is exactly the score of one test sample"
    return ""


def shared(test: Scores | None, calibration: Scores | None) -> int:
    """Count samples that are in both sets; 0 if chance can explain so few.

    A sample is recognised by its label, its prediction and the bits of its knownness.
    Tied values prove nothing (many samples may score exactly 1.0), so values that occur
    twice in either set are left out.
    """
    if test is None or calibration is None:
        return 0
    one, other = (_untied(scores) for scores in (test, calibration))
    n = np.intersect1d(one, other, assume_unique=True).size
    smaller = min(one.size, other.size)
    return n if n >= 2 and n >= SHARE * smaller else 0


def _side(scores: Scores, side: str) -> Scores | None:
    mask = scores.is_unknown if side == "unknown" else ~scores.is_unknown
    return scores.take(mask) if mask.any() else None


def _untied(scores: Scores) -> NDArray[np.void]:
    values, first, counts = np.unique(
        scores.known, return_index=True, return_counts=True
    )
    rows = first[(counts == 1) & np.isfinite(values)]
    record = np.empty(rows.size, _SAMPLE)
    record["label"] = scores.labels[rows]
    record["predicted"] = scores.predicted[rows]
    record["known"] = scores.known[rows]
    return record


def _is_a_score_of(scores: Scores, chosen: ThresholdRecord) -> bool:
    # A number a person typed may hit a score; one with many digits hits by choice.
    if not np.isfinite(chosen.value) or chosen.value == round(chosen.value, 3):
        return False
    return int(np.count_nonzero(scores.known == chosen.value)) == 1


CHECK = Check("OSR006", "Threshold chosen on test data", look, reads_scores=True)
