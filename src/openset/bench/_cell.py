"""One cell: fit a detector, score the test part, choose a threshold, evaluate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, detectors, thresholds
from openset._types import UNKNOWN
from openset.bench import _network
from openset.bench._birth import Birth
from openset.bench._plan import Task, folder_of
from openset.bench._study import Calibration
from openset.detectors import Fitted
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.runs import Cell
from openset.scores import Scores
from openset.thresholds import Operation, Threshold


def make(task: Task, protocol_hash: str, run: Path, *, base: Path) -> None:
    """Run one cell and write its file."""
    birth = Birth()
    folder = folder_of(task.source, run, base)
    train, test = _network.need(folder, "train"), _network.need(folder, "test")
    fitted = detectors.make(task.detector.name, **task.detector.params).fit(train)
    scores = fitted.score(test)
    calibration = threshold = operation = None
    if task.calibrate is not None:
        calibration = _calibration(fitted, task.calibrate, folder)
        threshold = thresholds.choose_by(
            task.calibrate.objective,
            calibration,
            caller="bench: calibrate",
            alpha=task.calibrate.alpha,
            options=task.calibrate.options,
        )
        operation = thresholds.operate(
            threshold, scores, alpha_test=task.calibrate.alpha
        )
    cell = Cell(
        key=task.key,
        rows=_rows(scores, threshold, operation),
        threshold=None if threshold is None else threshold.to_dict(),
        operation=None if operation is None else _summary(operation),
        classes=train.classes,
        curve=_network.note(folder).get("curve"),
        birth=birth.record(seed=task.source.seed, protocol_hash=protocol_hash),
    )
    cell.save(run, scores=scores, calibration=calibration)


def _calibration(fitted: Fitted, wanted: Calibration, folder: Path) -> Scores:
    """Score the validation knowns and the surrogate unknowns."""
    known = _network.part(folder, "validation")
    if known is None:
        msg = _check.must(
            "there to choose a threshold on",
            caller="bench: calibrate",
            name="a validation part",
            got="none",
            remedy="Give the protocol a validation share, e.g. validation: 0.2",
        )
        raise ValueError(msg)
    if wanted.surrogate == "none":
        return fitted.score(known)
    other = _surrogate(known, wanted.surrogate, folder)
    parts = [fitted.score(_grouped(part)) for part in (known, other)]
    return Scores.concat(parts)


def _surrogate(known: Outputs, kind: str, folder: Path) -> Outputs:
    if kind != "protocol":
        return thresholds.synthetic(known, kind)
    found = _network.part(folder, "surrogate")
    if found is None:
        msg = _check.must(
            "a part of the protocol",
            caller="bench: calibrate",
            name="surrogate",
            got="none",
            remedy="Give the protocol surrogate classes, or name a synthetic kind: "
            "surrogate: mixup",
        )
        raise ValueError(msg)
    return found._with(labels=np.full(len(found), UNKNOWN))


def _grouped(outputs: Outputs) -> Outputs:
    if outputs.groups is not None:
        return outputs
    return outputs._with(groups=np.full(len(outputs), ""))


def _rows(
    scores: Scores, threshold: Threshold | None, operation: Operation | None
) -> list[dict[str, Any]]:
    """Return every metric as a plain record, with its interval where it has one."""
    found = evaluate(scores)
    values: dict[str, float] = dict(found.values_)
    intervals: dict[str, Any] = dict(found.intervals)
    if threshold is not None:
        # With thresholds per class the scores to cut are margins, whose ranking is not
        # the detector's: take from them only what the threshold adds.
        at = evaluate(*threshold.cut(scores))
        new = {name: value for name, value in at.values_.items() if name not in values}
        values |= new
        intervals |= {n: i for n, i in at.intervals.items() if n in new}
    if operation is not None:
        values["oosa"] = operation.oosa
        intervals["oosa"] = operation.interval
    return [
        {
            "metric": name,
            "value": float(value),
            "low": _end(intervals, name, "low"),
            "high": _end(intervals, name, "high"),
            "n": len(scores),
        }
        for name, value in values.items()
    ]


def _end(intervals: Mapping[str, Any], name: str, end: str) -> float | None:
    return float(getattr(intervals[name], end)) if name in intervals else None


def _summary(done: Operation) -> dict[str, Any]:
    return {
        "oosa": done.oosa,
        "low": done.interval.low,
        "high": done.interval.high,
        "oracle": done.oracle,
        "gap": done.gap,
        "alpha": done.alpha_test,
        "alpha_calibration": done.alpha_calibration,
        "ccr": done.ccr,
        "urr": done.urr,
    }
