"""What a rejector is made from: scores of validation samples, and what is kept."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import UNKNOWN, CalibrationError, CalibrationWarning
from openset.detectors import Fitted
from openset.metrics.counts import RankingCounts
from openset.outputs import Outputs, need_outputs, need_same_classes
from openset.outputs.seen import hashes_of, need_unseen
from openset.rejector.network import marks_of
from openset.scores import Scores
from openset.selection import (
    SYNTHETIC_KINDS,
    leave_classes_out,
    need_use_of_logits,
    synthetic,
)
from openset.thresholds import Caution, Threshold, needs_unknowns, objectives

CALLER = "Rejector.calibrate"
_FOLDS = 3  # parts of the classes, left out in turn
_QUANTILES = 1025  # calibration scores kept per side, to compare new ones with
# Features of calibration samples kept, to compare new ones with: rows, and numbers.
_ROWS, _LEAST_ROWS, _NUMBERS = 256, 32, 2**20


def need_validation(fitted: Fitted, known: Outputs, *, with_logits: bool) -> None:
    """Raise unless it is fitted, and these are labelled samples it has not seen."""
    rule, remedy = "a fitted detector, or a Choice", "Fit it: PostMax().fit(train)"
    _check.instance(CALLER, "fitted", fitted, Fitted, rule=rule, remedy=remedy)
    need_outputs(CALLER, "known", known)
    if known.labels is None:
        remedy = "Give Outputs(labels=...), the true classes"
        _check.fail(CALLER, "known", "labelled", "outputs without labels", remedy)
    need_unseen(CALLER, "known", known, fitted.seen)
    if with_logits and known.logits is None:
        _check.fail(CALLER, "known", "with logits, for sets", "features only")


def scores_of(
    fitted: Fitted,
    known: Outputs,
    surrogate: Outputs | str | Sequence[Outputs | str] | None,
) -> Scores:
    """Score known samples, and after them all surrogate unknowns."""
    listed = [surrogate] if isinstance(surrogate, Outputs | str) else surrogate or ()
    parts = [known, *(_unknowns(one, known, fitted) for one in listed)]
    scores = [fitted.score(part) for part in parts]
    if any(one.groups is not None for one in scores):  # the others get the empty name
        scores = [
            replace(one, groups=np.full(len(one), "")) if one.groups is None else one
            for one in scores
        ]
    return Scores.concat(scores)


def _unknowns(surrogate: Outputs | str, known: Outputs, fitted: Fitted) -> Outputs:
    if isinstance(surrogate, str):
        _check.one_of(CALLER, "surrogate", surrogate, SYNTHETIC_KINDS)
        surrogate = synthetic(known, surrogate).like(known)
    need_outputs(CALLER, "surrogate", surrogate)
    need_use_of_logits(CALLER, fitted.detector, surrogate)
    of = "known"
    need_same_classes(CALLER, surrogate, known.classes, of=of, name="surrogate")
    if surrogate.input_step != known.input_step:
        got = " and ".join(one.input_step or "no step" for one in (known, surrogate))
        rule = "of inputs perturbed by one step"
        _check.fail(CALLER, "known and surrogate", rule, got)
    if surrogate.labels is None:
        return surrogate.as_unknown()
    if int(surrogate.labels.max()) != UNKNOWN:
        n_known = int(np.count_nonzero(surrogate.labels != UNKNOWN))
        rule = "unknown samples only (label -1, or no labels)"
        got = f"{n_known} samples of known classes"
        _check.fail(CALLER, "surrogate", rule, got, "Move them to known")
    return surrogate


def need_unknowns(objective: str | Callable[..., Threshold], scores: Scores) -> None:
    """Raise if the objective needs unknown samples and there are none."""
    if needs_unknowns(objective) and not scores.n_unknown:
        others = " or ".join(objectives(needs_unknowns=False))
        remedy = f"Give unknown samples, or 'mixup'; or use {others}, which need none"
        rule = f"given for objective {objective!r}"
        got = "none, and no samples labelled -1 among known"
        _check.fail(CALLER, "surrogate", rule, got, remedy)


def warn_of(cautions: Sequence[Caution], *, accept_risk: bool) -> None:
    """Warn of the cautions; refuse a threshold that collapses."""
    errors = [str(one) for one in cautions if one.severity == "error"]
    if errors and not accept_risk:
        msg = (
            f"{CALLER}: {'; '.join(errors)}. Look at the data (labels, signs, "
            "surrogate), try another detector or objective, or take the threshold as "
            "it is: accept_risk=True"
        )
        raise CalibrationError(msg)
    for one in cautions:
        warnings.warn(str(one), CalibrationWarning, stacklevel=3)  # the caller's line


def near(fitted: Fitted, train: Outputs, known: Outputs) -> Scores | None:
    """Leave known classes out; None where the detector cannot be fitted without."""
    need_outputs(CALLER, "train", train)
    need_same_classes(CALLER, train, known.classes, of="known", name="train")
    if train.labels is None or train.logits is None:
        rule = "outputs with labels and logits, as in fit"
        _check.fail(CALLER, "train", rule, repr(train))
    # A detector that learns nothing has no record of them, but the network has.
    need_unseen(CALLER, "known", known, hashes_of(train))
    try:
        return leave_classes_out(fitted.detector, train, known, folds=_FOLDS)
    except ValueError:
        return None


def kept_of(counts: RankingCounts, known: Outputs) -> dict[str, NDArray[Any]]:
    """Return what is kept of the calibration samples, to compare new ones with."""
    return _quantiles(counts) | _some_features(known) | marks_of(known)


def _quantiles(counts: RankingCounts) -> dict[str, NDArray[Any]]:
    """Return evenly spaced quantiles of the scores of both sides."""
    found: dict[str, NDArray[Any]] = {}
    for side in ("known", "unknown"):
        if n := getattr(counts, f"n_{side}"):
            # Scores of the data, not means of two: ±inf must stay what they are. The
            # places are integers: as shares of 1, some would be rounded to the next.
            size = min(n, _QUANTILES)
            places = -(-np.arange(size) * (n - 1) // max(size - 1, 1))
            found[side] = _check.frozen(counts.ascending(side, places))
    return found


def _some_features(known: Outputs) -> dict[str, NDArray[Any]]:
    """Draw known samples, and return their features."""
    rows = np.flatnonzero(known.labels != UNKNOWN)
    width = _NUMBERS if known.features is None else int(known.features.shape[1])
    n = min(_ROWS, rows.size, _NUMBERS // width)
    if n < _LEAST_ROWS:
        return {}
    drawn = np.sort(np.random.default_rng(0).choice(rows, n, replace=False))
    found = _xp.to_numpy(known.take(drawn).features)
    with np.errstate(over="ignore"):
        small = found.astype(np.float32)
    return {"features": _check.frozen(small if np.isfinite(small).all() else found)}
