"""The cells of a study: a detector on the outputs of a network, on a test split."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, detectors, metrics, runs, selection, thresholds
from openset._optional import optional
from openset._types import UNKNOWN
from openset.bench.networks import Errors, Network, Place, prepared, recording
from openset.bench.study import PUBLISHED, Component, no_rule
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.protocols.sampling import Stream, deal
from openset.scores import Scores


@dataclass(frozen=True, kw_only=True)
class Task:
    """A cell to run; `split` numbers its test split."""

    key: dict[str, Any]
    network: Network
    detector: Component
    split: int = 0

    @property
    def id(self) -> str:
        """Hash of the key."""
        return runs.identity(self.key)


def make(tasks: Sequence[Task], place: Place) -> Errors:
    """Run the cells of one detector on the same outputs: it is fitted to them once.

    Returns the error of each that failed, by its id.
    """
    errors: Errors = {}
    left = [one for one in tasks if not place.file("cells", one).exists()]
    ids = (one.id for one in left)
    with recording(errors, *ids), prepared(place, tasks[0].key):
        scorer = _Scorer(tasks[0], place)
        for task in left:
            with recording(errors, task.id):
                _make(task, scorer, place)
    return errors


class _Scorer:
    """Scores of a network's outputs: of a detector, or the method's published score."""

    def __init__(self, task: Task, place: Place) -> None:
        self.network, self.folder = task.network, place.of(task.network)
        self.train, self.fitted = self.need("train"), None
        if task.detector.name != PUBLISHED:
            recipe = detectors.make(task.detector.name, **task.detector.params)
            self.fitted = recipe.fit(self.train)

    def outputs(self, part: str) -> Outputs | None:
        for path in (self.folder / part, self.folder / f"{part}.npz"):
            if path.exists():
                return Outputs.load(path)
        return None

    def need(self, part: str) -> Outputs:
        found = self.outputs(part)
        if found is None:
            rule = f"a folder with {part}.npz, or {part}/ of .npy files"
            got = "no such file" if self.folder.exists() else "no such folder"
            _check.fail("bench", str(self.folder), rule, got, error=FileNotFoundError)
        return found

    def scores(self, part: str, rows: Any = None) -> Scores | None:
        """Score a part, or these rows of it; None if there is no such part."""
        if self.fitted is None:
            path = self.folder / "published" / f"{part}.npz"
            scores = Scores.load(path) if path.exists() else None
            return scores if rows is None or scores is None else scores.take(rows)
        outputs = self.outputs(part)
        if outputs is None:
            return None
        if part == "surrogate":  # all of them are unknown, whatever their labels
            outputs = outputs.as_unknown()
        return self.fitted.score(outputs if rows is None else outputs.take(rows))

    def calibration(self, kind: str) -> Scores:
        """Score the known validation samples and the surrogate unknown samples."""
        known = self.scores("validation")
        if known is None:
            remedy = "Give the protocol a validation share, e.g. validation: 0.2"
            rule = "given to choose a threshold on"
            _check.fail("calibrate", "a validation part", rule, "none", remedy)
        if kind == "none":
            return known
        if kind == "protocol":
            other = self.scores("surrogate")
        elif self.fitted is None:  # made-up features did not pass the network
            rule = f"protocol or none for the score {PUBLISHED!r}"
            _check.fail("calibrate", "surrogate", rule, kind)
        else:
            made = selection.synthetic(self.need("validation"), kind)
            selection.need_use_of_logits("calibrate", self.fitted.detector, made)
            other = self.fitted.score(made)
        if other is None:
            remedy = "Give the protocol surrogate classes, or a synthetic kind: mixup"
            _check.fail("calibrate", "surrogate", "in the protocol", "none", remedy)
        return Scores.concat([_grouped(known), _grouped(other)])

    def decided(self, scores: Scores, test: Outputs, epsilon: Any) -> Scores:
        """Return margins of the published rule; a sample is accepted iff >= 0.

        A detector accepts iff a known class has the largest of C + 1 probabilities.
        With `epsilon` that probability must also be larger than it; a mapping gives one
        for each number of known classes.
        """
        if self.fitted is None:
            train: Any = optional("openset.train", "torch")
            kind = train.methods.find(self.network.method.name)
            logits = np.asarray(test.logits, dtype=np.float64)
            margin = kind.published_margin(logits, scores.known)
            if margin is None:
                no_rule(kind.name)
            return replace(scores, known=margin)
        shares = self.fitted.class_probabilities(test)
        known = shares[:, :-1]
        best = known.max(axis=1)
        margin = best - shares[:, -1]
        if isinstance(epsilon, Mapping):
            n = known.shape[1]
            if n not in epsilon:
                rule, got = f"given for {n} classes", ", ".join(map(str, epsilon))
                _check.fail("calibrate", "options.epsilon", rule, got)
            epsilon = epsilon[n]
        if epsilon is not None:
            margin = np.minimum(margin, best - np.nextafter(epsilon, 1))
        return replace(scores, known=margin, predicted=known.argmax(axis=1))


def _grouped(scores: Scores) -> Scores:
    if scores.groups is not None:
        return scores
    return replace(scores, groups=np.full(len(scores), ""))


def _make(task: Task, scorer: _Scorer, place: Place) -> None:
    """Run one cell and write its files."""
    started, wanted = time.time(), place.study.calibrate
    whole = scorer.need("test")
    rows = _split(task, whole)
    scores: Any = scorer.scores("test", rows)
    calibration = threshold = operation = None
    decided: tuple[Scores, float] | None = None
    if wanted is not None and wanted.objective == PUBLISHED:
        test = whole if rows is None else whole.take(rows)
        decided = scorer.decided(scores, test, wanted.options.get("epsilon")), 0.0
    elif wanted is not None:
        calibration = scorer.calibration(wanted.surrogate)
        threshold = thresholds.choose_by(
            *(wanted.objective, calibration),
            caller="calibrate",
            alpha=wanted.alpha,
            options=wanted.options,
        )
        operation = thresholds.operate(threshold, scores, alpha_test=wanted.alpha)
        decided = scores, threshold.value
    listed = [metrics.get(one) for one in place.metrics]
    path = scorer.folder / "network.json"
    note = json.loads(path.read_text("utf-8")) if path.exists() else {}
    record = runs.provenance(started, seed=task.network.seed)
    protocol = task.network.protocol
    record |= {"protocol_hash": protocol.hash if protocol else ""}
    cell = runs.Cell(
        key=task.key,
        rows=_rows(scores, decided, operation, listed),
        threshold=None if threshold is None else threshold.to_dict(),
        operation=None if operation is None else _summary(operation),
        classes=scorer.train.classes,
        curve=note.get("curve"),
        provenance=record | {"metrics": [row.key for row in listed]},
    )
    cell.save(place.run, scores=scores, calibration=calibration)


def _split(task: Task, test: Any) -> NDArray[np.bool_] | None:
    """Return which samples of the test part are in the split of a cell.

    Every known sample is in exactly one split, in equal numbers per class. Unknown
    samples are divided alike, by group ("dealt"), or are all in each ("shared").
    """
    network = task.network
    if network.n_tests == 1:
        return None
    source = network.saved or network.protocol
    seed = source.rng if network.saved else source.seed
    is_unknown = test.labels == UNKNOWN
    strata = np.where(is_unknown, test.labels.max() + 1, test.labels)
    if test.groups is not None:
        _, group = np.unique(test.groups.astype(str), return_inverse=True)
        strata = np.where(is_unknown, strata + group, strata)
    mask = deal(strata, network.n_tests, Stream("bench", seed)) == task.split
    if source.unknowns == "shared":
        mask |= is_unknown
    return mask


def _rows(
    scores: Scores,
    decided: tuple[Scores, float] | None,
    operation: Any,
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


def _summary(done: Any) -> dict[str, Any]:
    names = ("oosa", "oracle", "gap", "alpha_calibration", "ccr", "urr")
    ends = {"low": done.interval.low, "high": done.interval.high}
    found = {name: getattr(done, name) for name in names}
    return found | ends | {"alpha": done.alpha_test}
