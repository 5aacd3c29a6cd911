"""One cell: fit a detector, score the test part, choose a threshold, evaluate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from openset import _check, detectors, magnitudes, selection, thresholds
from openset._plugins import is_built_in
from openset._types import UNKNOWN
from openset.bench import _network, _published_rule, _test_splits
from openset.bench._plan import Task, folder_of
from openset.bench._provenance import Provenance
from openset.bench._study import PUBLISHED, Calibration
from openset.detectors import Detector, Fitted
from openset.metrics import Metric, evaluate, get, table
from openset.outputs import Outputs
from openset.runs import Cell
from openset.scores import Scores
from openset.thresholds import Operation

T = TypeVar("T", Outputs, Scores)


def make(task: Task, protocol_hash: str, run: Path, *, base: Path) -> None:
    """Run one cell and write its file."""
    provenance = Provenance()
    folder = folder_of(task.source, run, base)
    if task.source.saved is None:
        _network.check(folder)
    scorer = _Scorer(task, folder)
    scores = scorer.need("test")
    calibration = threshold = operation = decided = None
    if task.calibrate is not None and task.calibrate.objective == PUBLISHED:
        decided = scorer.decided(scores, task.calibrate), 0.0
    elif task.calibrate is not None:
        calibration = _calibration(scorer, task.calibrate)
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
        decided = scores, threshold.value
    cell = Cell(
        key=task.key,
        rows=_rows(scores, decided, operation, task.metrics),
        threshold=None if threshold is None else threshold.to_dict(),
        operation=None if operation is None else _summary(operation),
        classes=scorer.train.classes,
        curve=_network.note(folder).get("curve"),
        provenance=provenance.record(
            seed=task.source.seed, protocol_hash=protocol_hash
        ),
    )
    _note_magnitudes(task, folder, run)
    cell.save(run, scores=scores, calibration=calibration)


def _note_magnitudes(task: Task, folder: Path, run: Path) -> None:
    """Keep the lengths of the test features for reports, once per network."""
    path = run / "magnitudes" / f"{task.source.id}.npz"
    test = None if path.exists() else _network.part(folder, "test")
    if test is None or test.features is None or test.labels is None:
        return
    is_unknown = test.labels == UNKNOWN
    if is_unknown.any() and not is_unknown.all():
        magnitudes.measure(test).save(path, key=task.source.key)


_LAST_FIT: dict[tuple[Any, ...], Fitted] = {}


def _fitted_once(recipe: Detector, folder: Path, train: Outputs) -> Fitted:
    """Fit once for the test splits of a network, which a worker runs one by one."""
    files = [*folder.glob("train/*"), *folder.glob("train.npz")]
    stamps = [(path.name, path.stat().st_mtime_ns) for path in sorted(files)]
    key = (str(folder), type(recipe), repr(recipe), *stamps)
    if key not in _LAST_FIT:
        fitted = recipe.fit(train)
        _LAST_FIT.clear()  # one is enough: the splits of a detector follow each other
        _LAST_FIT[key] = fitted
    return _LAST_FIT[key]


class _Scorer:
    """Scores of a network's outputs: of a detector, or the method's published score."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.folder, self.task = folder, task
        self.method = task.source.method
        self.train = _network.need(folder, "train")
        self.fitted: Fitted | None = None
        if task.detector.name != PUBLISHED:
            recipe = detectors.make(task.detector.name, **task.detector.params)
            is_shared = task.source.n_tests > 1
            self.fitted = (
                _fitted_once(recipe, folder, self.train)
                if is_shared
                else recipe.fit(self.train)
            )

    def part(self, name: str) -> Scores | None:
        if self.fitted is None:
            path = _network.published_scores(self.folder, name)
            if not path.exists():
                return None
            scores = Scores.load(path)
            return self._in_split(scores) if name == "test" else scores
        outputs = _network.part(self.folder, name)
        if outputs is None:
            return None
        if name == "test":
            outputs = self._in_split(outputs)
        if name == "surrogate":  # all of them are unknown, whatever their labels
            outputs = outputs.as_unknown()
        return self.fitted.score(outputs)

    def _in_split(self, test: T) -> T:
        source = self.task.source
        if source.n_tests == 1:
            return test
        split = self.task.split
        return test.take(_test_splits.rows(self.folder, test, source.saved, split))

    def need(self, name: str) -> Scores:
        found = self.part(name)
        if found is None:
            _network.need(self.folder, name)  # raises, naming the missing part
            msg = f"bench: {self.folder} has no published scores of {name}"
            raise FileNotFoundError(msg)
        return found

    def decided(self, scores: Scores, wanted: Calibration) -> Scores:
        """Return margins of the published rule; a sample is accepted iff >= 0."""
        test = self._in_split(_network.need(self.folder, "test"))
        if self.fitted is None:
            return _published_rule.decided_by_method(self.method, scores, test)
        epsilon = wanted.options.get("epsilon")
        return _published_rule.decided_by_argmax(self.fitted, scores, test, epsilon)

    def made_up(self, kind: str) -> Scores:
        if self.fitted is None:
            msg = f"bench: {PUBLISHED!r} cannot score synthetic features, got {kind!r}"
            raise ValueError(msg)
        made = selection.synthetic(_network.need(self.folder, "validation"), kind)
        selection.need_use_of_logits("bench", self.fitted.detector, made)
        return self.fitted.score(made)


def _calibration(scorer: _Scorer, wanted: Calibration) -> Scores:
    """Score the known validation samples and the surrogate unknown samples."""
    known = scorer.part("validation")
    if known is None:
        msg = _check.must(
            "given to choose a threshold on",
            caller="bench: calibrate",
            name="a validation part",
            got="none",
            remedy="Give the protocol a validation share, e.g. validation: 0.2",
        )
        raise ValueError(msg)
    if wanted.surrogate == "none":
        return known
    if wanted.surrogate != "protocol":
        other = scorer.made_up(wanted.surrogate)
        return Scores.concat([_grouped(known), _grouped(other)])
    found = scorer.part("surrogate")
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
    return Scores.concat([_grouped(known), _grouped(found)])


def _grouped(scores: Scores) -> Scores:
    if scores.groups is not None:
        return scores
    return replace(scores, groups=np.full(len(scores), ""))


def standard_metrics() -> dict[str, Metric]:
    """Return the metrics of every cell: all built-in ones, except the slow oracles."""
    return {
        row.key: row
        for row in table()
        if is_built_in(row)
        and row.kind not in {"curve", "operational"}
        and (row.kind != "oracle" or row.best_of == "osa")
    }


def _rows(
    scores: Scores,
    decided: tuple[Scores, float] | None,
    operation: Operation | None,
    named: Sequence[str | Metric],
) -> list[dict[str, Any]]:
    """Return every metric as a plain record, with its interval if it has one.

    `decided` are the scores and the threshold that samples are accepted by.
    """
    wanted = standard_metrics() | {row.key: row for row in map(get, named)}
    found = evaluate(scores, metrics=list(wanted.values()))
    values: dict[str, float] = dict(found)
    intervals: dict[str, Any] = dict(found.intervals)
    if decided is not None:
        # By a published rule decisions are made on margins, whose ranking is not the
        # detector's: only metrics at the threshold are computed from them.
        new = [row for row in wanted.values() if row.kind == "threshold"]
        at = evaluate(*decided, metrics=new)
        values |= at
        intervals |= at.intervals
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
