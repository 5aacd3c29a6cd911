"""From a fitted detector and validation samples to the parts of a rejector."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import UNKNOWN, CalibrationError, CalibrationWarning
from openset.detectors import Fitted
from openset.metrics.counts import RankingCounts, ranking_counts
from openset.outputs import Outputs, need_outputs, need_same_classes
from openset.rejector._input_steps import check_same_step
from openset.rejector._parts import Features, Parts, Reference
from openset.rejector._sets import Method, SetRule, checked_coverage, logits_of
from openset.scores import Scores
from openset.selection import (
    SYNTHETIC_KINDS,
    Choice,
    leave_classes_out,
    synthetic,
)
from openset.thresholds import (
    Caution,
    Threshold,
    choose_by,
    objectives,
    report,
)
from openset.thresholds.alpha import Alpha

_FOLDS = 3  # parts of the classes, left out in turn
_QUANTILES = 1025  # calibration scores kept per side, to compare new ones with
# Features of calibration samples kept, to compare new ones with: rows, and numbers.
_ROWS, _LEAST_ROWS, _NUMBERS = 256, 32, 2**20


def calibrated(
    fitted: Fitted | Choice,
    *,
    known: Outputs,
    surrogate: Outputs | str | Sequence[Outputs | str] | None,
    objective: str | Callable[..., Threshold] | None,
    alpha: Alpha,
    train: Outputs | None,
    accept_risk: bool,
    sets: Method | None,
    coverage: float,
    by_class: bool,
    sets_known: Outputs | None,
    batch_size: int | None,
    options: Mapping[str, Any],
) -> Parts:
    """Choose the threshold; see :meth:`openset.Rejector.calibrate`."""
    if isinstance(fitted, Choice):
        objective = fitted.objective if objective is None else objective
        alpha = fitted.alpha if alpha is None else alpha
        if objective == fitted.objective:
            options = {**fitted.options, **options}
        fitted = fitted.fitted
    _check.instance(
        "Rejector.calibrate",
        "fitted",
        fitted,
        Fitted,
        rule="a fitted detector, or a Choice",
        remedy="Fit it first: PostMax().fit(train)",
    )
    need_outputs("Rejector.calibrate", "known", known)
    fitted = fitted.with_widths_of(known)
    scores = _calibration_scores(fitted, known, _sets(surrogate), batch_size)
    objective = "osa" if objective is None else objective
    _need_unknowns(objective, scores)
    # The one sort: the objective and the report find these counts in use.
    counts = ranking_counts(scores)
    threshold = choose_by(
        objective,
        scores,
        caller="Rejector.calibrate",
        alpha=alpha,
        options=options,
    )
    rule = None
    if sets is not None:
        held = known if sets_known is None else sets_known
        need_outputs("Rejector.calibrate", "sets_known", held)
        _need_classes_of_known(held, known, "sets_known")
        check_same_step(known, [held])
        rule = _set_rule(fitted, threshold, held, sets, coverage, by_class=by_class)
    near = None if train is None else _near(fitted, train, known)
    made = report(scores, threshold, near=near)
    _heed(made.cautions, accept_risk=accept_risk)
    return Parts(
        fitted=fitted,
        threshold=threshold,
        classes=known.classes,
        reference=_reference(counts),
        report=made,
        features=_features(known),
        sets=rule,
        input_step=known.input_step,
    )


def _need_unknowns(objective: str | Callable[..., Threshold], scores: Scores) -> None:
    if objective in objectives(needs_unknowns=True) and not scores.n_unknown:
        msg = _check.must(
            f"given for objective {objective!r}",
            caller="Rejector.calibrate",
            name="surrogate",
            got="none, and no samples labelled -1 among known",
            remedy="Give outputs of unknown samples, or 'mixup' to make synthetic "
            "ones; or use an objective that needs none: "
            f"{' or '.join(objectives(needs_unknowns=False))}",
        )
        raise ValueError(msg)


def _set_rule(
    fitted: Fitted,
    threshold: Threshold,
    held: Outputs,
    method: Method,
    coverage: float,
    *,
    by_class: bool,
) -> SetRule:
    """Compute the limits of prediction sets from accepted known samples."""
    caller = "Rejector.calibrate"
    checked_coverage(caller, coverage)
    logits = logits_of(caller, held)
    if held.labels is None:
        msg = _check.must("labelled", caller=caller, name="sets_known", got="no labels")
        raise ValueError(msg)
    kept = threshold.accepts(fitted.score(held)) & (held.labels != UNKNOWN)
    return SetRule.calibrate(
        logits[kept],
        held.labels[kept],
        method=method,
        coverage=coverage,
        by_class=by_class,
        caller=caller,
    )


def _near(fitted: Fitted, train: Outputs, known: Outputs) -> Scores | None:
    """Leave known classes out; None where the detector cannot be fitted without."""
    need_outputs("Rejector.calibrate", "train", train)
    _need_classes_of_known(train, known, "train")
    if train.labels is None or train.logits is None:
        msg = _check.must(
            "outputs with labels and logits",
            caller="Rejector.calibrate",
            name="train",
            got=repr(train),
            remedy="Give the outputs the detector was fitted on",
        )
        raise ValueError(msg)
    n_classes = 0 if known.labels is None else np.unique(known.labels).size
    try:
        folds = min(_FOLDS, n_classes)
        return leave_classes_out(fitted.detector, train, known, folds=folds)
    except ValueError:
        return None


def _heed(cautions: Sequence[Caution], *, accept_risk: bool) -> None:
    """Refuse a threshold that collapses; warn of everything else."""
    errors = [one for one in cautions if one.severity == "error"]
    if errors and not accept_risk:
        msg = (
            f"Rejector.calibrate: {'; '.join(map(str, errors))}. Look at the data "
            "(labels, signs, surrogate), try another detector or objective, or take "
            "the threshold as it is: accept_risk=True"
        )
        raise CalibrationError(msg)
    for one in cautions:
        warnings.warn(str(one), CalibrationWarning, stacklevel=4)  # the caller's line


def _sets(
    surrogate: Outputs | str | Sequence[Outputs | str] | None,
) -> Sequence[Outputs | str]:
    if surrogate is None:
        return ()
    return [surrogate] if isinstance(surrogate, Outputs | str) else surrogate


def _calibration_scores(
    fitted: Fitted,
    known: Outputs,
    surrogate: Sequence[Outputs | str],
    batch_size: int | None,
) -> Scores:
    if known.labels is None:
        msg = _check.must(
            "labelled",
            caller="Rejector.calibrate",
            name="known",
            got="outputs without labels",
            remedy="Give Outputs(labels=...), the true classes; openset extract takes "
            "them from a folder per class, or a .csv file with text and label",
        )
        raise ValueError(msg)
    check_same_step(known, surrogate)
    parts = [known, *(_unknowns(one, known) for one in surrogate)]
    return _joined([fitted.score(part, batch_size=batch_size) for part in parts])


def _unknowns(surrogate: Outputs | str, known: Outputs) -> Outputs:
    if isinstance(surrogate, str):
        _check.one_of("Rejector.calibrate", "surrogate", surrogate, SYNTHETIC_KINDS)
        return synthetic(known, surrogate).like(known)
    need_outputs("Rejector.calibrate", "surrogate", surrogate)
    _need_classes_of_known(surrogate, known, "surrogate")
    labels = surrogate.labels
    if labels is None:
        return surrogate.as_unknown()
    if int(labels.max()) != UNKNOWN:
        n_known = int(np.count_nonzero(labels != UNKNOWN))
        msg = _check.must(
            "unknown samples only (label -1, or no labels)",
            caller="Rejector.calibrate",
            name="surrogate",
            got=f"{n_known} samples of known classes",
            remedy="Move them to known, or label them -1 if the network was not "
            "trained on their classes",
        )
        raise ValueError(msg)
    return surrogate


def _need_classes_of_known(outputs: Outputs, known: Outputs, name: str) -> None:
    need_same_classes(
        "Rejector.calibrate", outputs, known.classes, of="known", name=name
    )


def _joined(parts: list[Scores]) -> Scores:
    """Put scores together; parts without groups get the empty name, if any has one."""
    if any(part.groups is not None for part in parts):
        parts = [
            part
            if part.groups is not None
            else replace(part, groups=np.full(len(part), ""))
            for part in parts
        ]
    return Scores.concat(parts)


def _reference(counts: RankingCounts) -> Reference:
    found: dict[str, NDArray[np.float64]] = {}
    sides: tuple[Literal["known", "unknown"], ...] = ("known", "unknown")
    for side, n in zip(sides, (counts.n_known, counts.n_unknown), strict=True):
        if n:
            # Scores of the data, not means of two: ±inf must stay what they are. The
            # places are integers: as shares of 1, some would be rounded to the next.
            parts = max(min(n, _QUANTILES) - 1, 1)
            steps = np.arange(min(n, _QUANTILES))
            places = -(-steps * (n - 1) // parts)
            found[side] = _check.frozen(counts.ascending(side, places))
    return found


def _features(known: Outputs) -> Features:
    """Draw known samples, and return their features."""
    if known.features is None or known.labels is None:
        return None
    rows = np.flatnonzero(known.labels != UNKNOWN)
    n = min(_ROWS, rows.size, _NUMBERS // int(known.features.shape[1]))
    if n < _LEAST_ROWS:
        return None
    drawn = np.sort(np.random.default_rng(0).choice(rows, n, replace=False))
    found = _xp.to_numpy(known.take(drawn).features)
    with np.errstate(over="ignore"):
        small = found.astype(np.float32)
    return _check.frozen(small if np.isfinite(small).all() else found)
