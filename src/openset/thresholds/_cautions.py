"""Coded cautions: signs in the calibration data that a threshold will not hold."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import Rates
from openset.scores import Scores
from openset.thresholds._threshold import Threshold
from openset.thresholds.groups import SYNTHETIC_PREFIX
from openset.thresholds.kinds import Kinds

_EDGE = 0.005  # share of scores beyond a threshold that is at the edge of them
_ALMOST = 0.95  # "almost all" of one side
_DISAGREE = 0.05  # open-set accuracy a kind may lose against its own best threshold
_NEAR = 0.02  # the same for known classes left out
_FEW = 60  # samples of a side, or of a kind
_EASY = 0.98  # AUROC from which on a kind is far from what is known
_CHANCE = 0.1  # share of the other classes' samples a network should get right at least
_COVERED = 0.5  # share of the classes that calibration should have samples of

_BLIND = 0.5  # AUROC of scores that know nothing
# A rate that was asked for may well be at the edge of the scores.
_BY_RATE = ("at_fpr", "at_tpr", "conformal")

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Caution:
    """A sign that a threshold will not hold. Codes keep their meaning.

    An ``"error"`` predicts collapse: :meth:`openset.Rejector.calibrate` refuses the
    threshold unless ``accept_risk=True``. A ``"warning"`` is issued, kept with the
    rejector, and repeated wherever it is used.

    ======  ==========================================================================
    CAL001  (error) the threshold is at the edge of the scores
    CAL002  (error) almost all unknowns are accepted, or almost all known samples
    rejected
    CAL003  kinds of unknowns need different thresholds
    CAL004  few samples
    CAL005  the surrogate unknowns are synthetic
    CAL006  only one kind of unknowns, by their scores
    CAL007  the predicted classes of the known samples hardly ever match their labels
    CAL008  every kind is easy: that says nothing about unknowns close to the classes
    CAL009  the known samples cover few of the classes
    CAL010  no unknowns were used
    CAL011  known classes left out need another threshold, or were not tried
    CAL012  a kind of unknowns scores as high as the known samples
    ======  ==========================================================================
    """

    code: str
    message: str
    severity: Severity = "warning"

    def __post_init__(self) -> None:
        _check.one_of("Caution", "severity", self.severity, get_args(Severity))

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, eq=False)
class CalibrationFacts:
    """What the calibration data say about a threshold, for the cautions below."""

    scores: Scores
    threshold: Threshold
    rates: Rates
    kinds: Kinds | None = None  # None without unknowns
    regret: float = 0.0
    """The most open-set accuracy a kind loses against its own best threshold."""
    least_auroc: float = 1.0
    """AUROC of the kind that is hardest to tell from the known samples."""
    near: float | None = None
    """What known classes left out lose against their own best; None if not tried."""


def cautions(evidence: CalibrationFacts) -> list[Caution]:
    """Return the cautions that apply, by code."""
    found = [
        *_collapse(evidence),
        *_kinds(evidence),
        *_samples(evidence),
        *_labels(evidence),
    ]
    return sorted(found, key=lambda one: one.code)


def _collapse(evidence: CalibrationFacts) -> list[Caution]:
    threshold, rates, scores = evidence.threshold, evidence.rates, evidence.scores
    severity: Severity = "warning" if threshold.method in _BY_RATE else "error"
    found = []
    below = float(np.count_nonzero(scores.known < threshold.value) / len(scores))
    if not _EDGE <= below <= 1 - _EDGE:
        end = "lowest" if below < _EDGE else "highest"
        message = (
            f"the threshold {threshold.value:.4g} is among the {end} scores: "
            f"{below:.1%} of the calibration samples score lower"
        )
        found.append(Caution("CAL001", message, severity))
    if rates.tpr < 1 - _ALMOST:
        message = f"{1 - rates.tpr:.1%} of the known samples are rejected"
        found.append(Caution("CAL002", message, severity))
    if rates.n_unknown and rates.urr < 1 - _ALMOST:
        message = f"{1 - rates.urr:.1%} of the unknown samples are accepted"
        found.append(Caution("CAL002", message, severity))
    return found


def _kinds(evidence: CalibrationFacts) -> list[Caution]:
    kinds = evidence.kinds
    if kinds is None:
        message = (
            "no unknown samples were used, so the share of unknowns that is "
            "rejected is not known. Give some as surrogate"
        )
        return [Caution("CAL010", message)]
    return [
        *_disagreement(evidence),
        *_variety(evidence.scores, len(kinds)),
        *_separation(evidence, len(kinds)),
        *_near(evidence.near),
    ]


def _disagreement(evidence: CalibrationFacts) -> list[Caution]:
    """Say whether kinds of unknowns need different thresholds."""
    if evidence.regret <= _DISAGREE:
        return []
    advice = (
        "This threshold already minimises the largest loss; another detector may help"
        if evidence.threshold.method == "worst_group"
        else "Consider the objective worst_group, or comparing several detectors"
    )
    message = (
        "kinds of unknowns need different thresholds: with this one, a kind "
        f"loses {evidence.regret:.1%} of open-set accuracy compared with its "
        f"best threshold. {advice}"
    )
    return [Caution("CAL003", message)]


def _variety(scores: Scores, n_kinds: int) -> list[Caution]:
    """Say whether unknowns are made up, or all of one kind."""
    found = []
    groups = scores.unknown_groups.names
    synthetic = [name for name in groups if name.startswith(SYNTHETIC_PREFIX)]
    if len(synthetic) == len(groups):
        made = ", ".join(name.removeprefix(SYNTHETIC_PREFIX) for name in synthetic)
        message = (
            f"the surrogate unknowns are synthetic ({made}), made from known samples: "
            f"real unknowns may be accepted more often"
        )
        found.append(Caution("CAL005", message))
    if n_kinds == 1:
        told = (
            "" if len(groups) == 1 else f" (the scores of {len(groups)} groups agree)"
        )
        message = (
            f"only one kind of unknowns{told}: other kinds may be accepted more "
            "often. Add unknowns of other kinds"
        )
        found.append(Caution("CAL006", message))
    return found


def _separation(evidence: CalibrationFacts, n_kinds: int) -> list[Caution]:
    """Say whether unknowns are too easy to detect, or impossible."""
    found = []
    if evidence.least_auroc > _EASY:
        message = (
            "every kind of unknowns is easy to detect (AUROC at least "
            f"{evidence.least_auroc:.3f}): unknowns that resemble the known "
            "classes may be accepted more often. Add such unknowns"
        )
        found.append(Caution("CAL008", message))
    if evidence.least_auroc <= _BLIND:
        which = "the unknown samples" if n_kinds == 1 else "unknowns of a kind"
        message = (
            f"{which} score as high as known ones (AUROC "
            f"{evidence.least_auroc:.2f}): no threshold separates them. Is the "
            "score higher for known samples? Does the detector use what makes "
            "these unknowns different? (Synthetic left-out samples have the "
            "features of known ones)"
        )
        found.append(Caution("CAL012", message))
    return found


def _near(regret: float | None) -> list[Caution]:
    """Say whether unknowns that resemble the known classes need another threshold."""
    if regret is None:
        message = (
            "not checked: whether the threshold suits unknowns that resemble your "
            "classes. The check treats known classes as unknown in turn. It needs "
            "training outputs (train) of three classes or more, and enough of them "
            "to fit the detector without some classes"
        )
        return [Caution("CAL011", message)]
    if regret > _NEAR:
        message = (
            "the threshold may be wrong for unknowns that resemble your classes: "
            "where known classes are treated as unknown in turn, it loses "
            f"{regret:.1%} of open-set accuracy against the best threshold for them"
        )
        return [Caution("CAL011", message)]
    return []


def _samples(evidence: CalibrationFacts) -> list[Caution]:
    scores, kinds = evidence.scores, evidence.kinds
    sizes = {"known samples": scores.n_known}
    if kinds is not None:
        for names, n in zip(kinds.names, kinds.n.tolist(), strict=True):
            of_kind = f" of {names[0]}" if len(kinds) > 1 else ""
            sizes[f"unknown samples{of_kind}"] = n
    few = [f"{n} {what}" for what, n in sizes.items() if n < _FEW]
    if not few:
        return []
    return [Caution("CAL004", f"few calibration samples: {', '.join(few)}")]


def _labels(evidence: CalibrationFacts) -> list[Caution]:
    scores, found = evidence.scores, []
    labels: NDArray[np.int64] = scores.labels[~scores.is_unknown]
    accuracy = evidence.rates.accuracy
    commonest = np.bincount(labels).max() / scores.n_known
    if commonest < 1 and accuracy < commonest + _CHANCE * (1 - commonest):
        message = (
            f"the predicted class is right for only {accuracy:.1%} of the known "
            f"samples ({commonest:.1%} belong to one class). Do the labels number the "
            f"classes as the network does, and are they in the order of its outputs?"
        )
        found.append(Caution("CAL007", message))
    n_classes = scores.n_classes
    covered = np.unique(labels).size
    if n_classes is not None and covered < _COVERED * n_classes:
        message = (
            f"the known samples are of {covered} of the {n_classes} classes: "
            "samples of the others may be rejected. Give samples of all classes"
        )
        found.append(Caution("CAL009", message))
    return found
