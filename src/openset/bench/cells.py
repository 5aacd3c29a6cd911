"""The cells of a study: a detector on the outputs of a network, on a test split."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _backends, _check, metrics, runs, selection, thresholds
from openset._optional import optional
from openset._types import UNKNOWN
from openset.bench.networks import Place, Task
from openset.bench.study import PUBLISHED, Saved, no_rule
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.protocols import Protocol
from openset.protocols.sampling import Stream, deal
from openset.scores import Scores


def make(tasks: Sequence[Task], place: Place) -> None:
    """Run the cells of one detector on the same outputs: it is fitted to them once."""
    with place.prepared():
        scorer = _Scorer(tasks[0], place)
        calls = [(task, scorer, place) for task in tasks]
        for done in _backends.run(_make, calls, backend="sequential"):
            place.settle([tasks[done.number]], done)


_REMEDIES = {
    "validation": "Give the protocol a validation share, e.g. validation: 0.2",
    "surrogate": "Give the protocol surrogate classes, or a synthetic kind: mixup",
}


class _Scorer:
    """Scores of a network's outputs: of a detector, or the method's published score.

    A file is scored once, whole: splits of the test part are rows of it.
    """

    def __init__(self, task: Task, place: Place) -> None:
        self.folder, self.method = place.folder(task.network), task.network.method
        self._scores: dict[str, Scores] = {}
        self.train = self.outputs("train")
        recipe = task.detector.detector()
        self.fitted = None if recipe is None else recipe.fit(self.train)

    def outputs(self, name: str) -> Outputs:
        """Read a file or folder of outputs; in a run of `openset.train` it is below."""
        names = (name, f"{name}.npz", f"outputs/{name}.npz")
        for path in (self.folder / one for one in names):
            if path.exists():
                return Outputs.load(path)
        rule = f"a folder with {name}.npz, or {name}/ of .npy files"
        got = "no such file" if self.folder.exists() else "no such folder"
        remedy, error = _REMEDIES.get(name, ""), FileNotFoundError
        return _check.fail("bench", str(self.folder), rule, got, remedy, error)

    def scores(self, name: str, *, is_unknown: bool = False) -> Scores:
        """Score outputs; those that are all unknown, whatever their labels."""
        if name not in self._scores:
            if self.fitted is None:
                found = Scores.load(self.folder / "published" / f"{name}.npz")
            else:
                outputs = self.outputs(name)
                found = self.fitted.score(
                    outputs.as_unknown() if is_unknown else outputs
                )
            self._scores[name] = found
        return self._scores[name]

    def calibration(self, kind: str, parts: Saved) -> Scores:
        """Score the known validation samples and the surrogate unknown samples."""
        known = self.scores(parts.validation)
        if kind == "none":
            return known
        if kind == "protocol":
            other = self.scores(parts.surrogate, is_unknown=True)
        elif self.fitted is None:  # made-up features did not pass the network
            rule = f"protocol or none for the score {PUBLISHED!r}"
            _check.fail("calibrate", "surrogate", rule, kind)
        else:
            made = selection.synthetic(self.outputs(parts.validation), kind)
            other = self.fitted.score(made)
        return _joined([known, other])

    def decided(
        self, name: str, *, is_unknown: bool = False, epsilon: Mapping[int, float]
    ) -> Scores:
        """Return margins of the published rule; a sample is accepted iff >= 0.

        A detector accepts iff a known class has the largest of C + 1 probabilities.
        With an `epsilon` for this number of classes it must also be larger than that.
        """
        scores, test = self.scores(name, is_unknown=is_unknown), self.outputs(name)
        if self.fitted is None:
            train: Any = optional("openset.train", "torch")
            method = train.methods.find(self.method.name)
            logits = np.asarray(test.logits, dtype=np.float64)
            if (margin := method.published_margin(logits, scores.known)) is None:
                no_rule(method.name)
        else:
            shares = self.fitted.class_probabilities(test)
            known, n = shares[:, :-1], shares.shape[1] - 1
            best = known.max(axis=1)
            margin = best - shares[:, -1]
            if epsilon and n not in epsilon:
                rule, got = f"given for {n} classes", ", ".join(map(str, epsilon))
                _check.fail("calibrate", "epsilon", rule, got)
            if epsilon:
                margin = np.minimum(margin, best - np.nextafter(epsilon[n], 1))
            scores = replace(scores, predicted=known.argmax(axis=1))
        return scores.with_known(margin)


def _joined(parts: Sequence[Scores]) -> Scores:
    """Concatenate scores; those without groups are of the group ""."""
    if len(parts) == 1:
        return parts[0]
    groups = (
        np.full(len(one), "") if one.groups is None else one.groups for one in parts
    )
    pairs = zip(parts, groups, strict=True)
    return Scores.concat([replace(one, groups=of) for one, of in pairs])


def _make(task: Task, scorer: _Scorer, place: Place) -> None:
    """Run one cell and write its files."""
    started, wanted = time.time(), place.study.calibrate
    network, protocol = task.network, place.protocol(task.network)
    parts = network.saved or Saved(name="", path="")

    def of_test(read: Callable[..., Scores]) -> Scores:
        more = [read(parts.unknown, is_unknown=True)] if parts.unknown else []
        return _joined([read(parts.test), *more])

    scores = of_test(scorer.scores)
    rows: Any = slice(None)
    if network.n_tests > 1:
        rows = _split(task, scores, protocol)
    scores = scores.take(rows)
    calibration = threshold = operation = None
    decided: tuple[Scores, float] | None = None
    if wanted is not None and wanted.objective == PUBLISHED:
        margins = of_test(partial(scorer.decided, epsilon=wanted.epsilon))
        decided = margins.take(rows), 0.0
    elif wanted is not None:
        calibration = scorer.calibration(wanted.surrogate, parts)
        threshold = thresholds.choose_by(
            wanted.objective, calibration, caller="calibrate", alpha=wanted.alpha
        )
        alpha = wanted.alpha if wanted.alpha_test is None else wanted.alpha_test
        operation = thresholds.operate(threshold, scores, alpha_test=alpha)
        decided = scores, threshold.value
    listed = place.study.rows()
    record = runs.provenance(started, seed=network.key["seed"])
    cell = runs.Cell(
        key=task.key,
        rows=_rows(scores, decided, operation, listed),
        threshold=None if threshold is None else threshold.to_dict(),
        operation=None if operation is None else _summary(operation.to_dict()),
        classes=scorer.train.classes,
        curve=_curve(scorer.folder / "trained.json"),
        provenance=record | {"protocol_hash": protocol.hash if protocol else ""},
    )
    cell.save(place.run, scores=scores, calibration=calibration)


def _curve(path: Path) -> list[dict[str, Any]] | None:
    """Return metrics of the test part by epoch, if `openset.train` recorded them."""
    log = json.loads(path.read_text("utf-8"))["log"] if path.exists() else ()
    curve = [
        {"epoch": line["epoch"] + 1, "loss": line["loss"]}
        | {k.removeprefix("test_"): v for k, v in line.items() if k[:5] == "test_"}
        for line in log
        if "test_accuracy" in line
    ]
    return curve or None


def _split(task: Task, test: Scores, protocol: Protocol | None) -> NDArray[np.bool_]:
    """Return which samples of the test part are in the split of a cell.

    Every known sample is in exactly one split, in equal numbers per class. Unknown
    samples are divided alike, by group ("dealt"), or are all in each ("shared").
    """
    seed = 0 if protocol is None else protocol.seed
    is_unknown = test.labels == UNKNOWN
    strata = np.where(is_unknown, test.labels.max() + 1, test.labels)
    if test.groups is not None:
        _, group = np.unique(test.groups.astype(str), return_inverse=True)
        strata = np.where(is_unknown, strata + group, strata)
    mask = deal(strata, task.network.n_tests, Stream("bench", seed)) == task.split
    if (protocol or task.network.saved).unknowns == "shared":
        mask |= is_unknown
    return mask


def _rows(
    scores: Scores,
    decided: tuple[Scores, float] | None,
    operation: thresholds.Operation | None,
    wanted: Sequence[metrics.Metric],
) -> list[dict[str, Any]]:
    """Return the metrics as plain records, each with its interval if it has one.

    `decided` are the scores and the threshold that samples are accepted by.
    """
    plain = [row for row in wanted if row.kind != "operational"]
    found = evaluate(scores, metrics=plain).rows()
    if decided is not None:
        # By a published rule decisions are made on margins, whose ranking is not the
        # detector's: only metrics at the threshold are computed from them.
        at = [row for row in plain if row.kind == "threshold"]
        found += evaluate(*decided, metrics=at).rows()
    if operation is not None:
        span = {"low": operation.interval.low, "high": operation.interval.high}
        found.append({"metric": "oosa", "value": operation.oosa} | span)
    names = ("metric", "value", "low", "high")
    return [{k: row[k] for k in names} | {"n": len(scores)} for row in found]


def _summary(done: Mapping[str, Any]) -> dict[str, Any]:
    names = ("oosa", "oracle", "gap", "alpha_calibration", "ccr", "urr", "low", "high")
    return {name: done[name] for name in names} | {"alpha": done["alpha_test"]}
