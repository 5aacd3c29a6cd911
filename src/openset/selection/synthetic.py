"""Surrogate unknowns made from known samples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.outputs import Outputs, need_outputs, replaced
from openset.scores import Scores
from openset.thresholds.kinds import SYNTHETIC_PREFIX

if TYPE_CHECKING:
    from openset.detectors import Detector

SYNTHETIC_KINDS = ("mixup", "left-out")
"""The kinds of unknowns that :func:`synthetic` makes."""


def synthetic(
    known: Outputs,
    kind: str = "mixup",
    *,
    n: int | None = None,
    rng: np.random.Generator | int = 0,
) -> Outputs:
    r"""Make unknowns from the outputs of known samples.

    They are labelled -1 and their group is ``synthetic:KIND``, so that every result
    based on them says so. Use real unknowns if you have any.

    Parameters
    ----------
    known
        Labelled outputs that no detector was fitted on; they are converted to NumPy.
    kind
        ``"mixup"``: :math:`\lambda x + (1 - \lambda) x'` of two samples of different
        classes, :math:`\lambda` uniform in [0.3, 0.7], features and logits alike (the
        last layer is linear, so the logits of a mixed feature are the mixed logits).
        ``"left-out"``: the samples themselves with the logit of their own class set to
        the lowest other logit, as if the class had not been learnt; features are
        unchanged, so detectors that use only features need :func:`leave_classes_out`.
    n
        How many to make; by default as many as there are known samples, which is also
        the most for ``"left-out"``.
    rng
        Seed or generator.

    References
    ----------
    Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018.

    Examples
    --------
    >>> known = Outputs(logits=[[3.0, 1.0, 0.0], [0.0, 4.0, 1.0]], labels=[0, 1])
    >>> made = synthetic(known, "left-out")
    >>> made.logits.tolist(), made.groups[0].item()
    ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 'synthetic:left-out')
    """
    caller = "selection.synthetic"
    _check.one_of(caller, "kind", kind, SYNTHETIC_KINDS)
    known = _known_part(caller, known)
    size = len(known) if n is None else _check.positive_int(caller, "n", n)
    generator = np.random.default_rng(rng)
    make = {"mixup": _mixup, "left-out": _left_out}[kind]
    arrays = make(caller, known, size, generator)
    size = min(size, len(known)) if kind == "left-out" else size
    return replaced(
        known,
        **arrays,
        labels=np.full(size, UNKNOWN),
        groups=np.full(size, SYNTHETIC_PREFIX + kind),
        ids=None,
    )


def need_use_of_logits(
    caller: str, detector: "Detector", surrogate: Outputs | str
) -> None:
    """Refuse ``"left-out"`` unknowns for a detector that looks at features alone.

    They have the features of known samples: it gives both the same scores, and any
    threshold is as good as any other.
    """
    parts = detector.recipes or (detector,)
    if any("logits" in one.score_needs for one in parts):
        return
    if isinstance(surrogate, str):
        is_left_out = surrogate == "left-out"
    else:
        kinds = () if surrogate.groups is None else surrogate.groups
        is_left_out = f"{SYNTHETIC_PREFIX}left-out" in kinds
    if is_left_out:
        rule = f"unknowns that {detector.name} can tell from known samples"
        got = "left-out ones: it sees only features, which are those of known samples"
        remedy = "Use 'mixup', or outputs of real unknowns"
        _check.fail(caller, "surrogate", rule, got, remedy)


def leave_classes_out(
    detector: "Detector",
    train: Outputs,
    known: Outputs,
    *,
    folds: int = 5,
    rng: np.random.Generator | int = 0,
) -> Scores:
    """Score known samples as known and, with their class left out, as unknown.

    In each fold some classes are removed from logits, head and training data, the
    detector is fitted to the rest, and samples of `known` are scored: those of the
    removed classes as unknowns (group ``synthetic:left-out``). Every sample of `known`
    is scored twice: once as an unknown and, in another fold, once as a known. The
    network was still trained on the removed classes, so these unknowns resemble the
    known classes more than real ones do. The detectors of a combination are scored one
    by one; the result is the mean of their ranks among the known samples, as in
    :func:`choose`.

    Parameters
    ----------
    detector
        The detector, not fitted.
    train, known
        Labelled outputs to fit on and to score, with logits.
    folds
        Number of parts the classes are divided into; at least two classes must remain.
    rng
        Seed or generator that divides the classes.
    """
    caller = "selection.leave_classes_out"
    if not hasattr(detector, "fit"):
        rule, got = "a detector that is not fitted yet", type(detector).__name__
        _check.fail(caller, "detector", rule, got, error=TypeError)
    folds = _check.positive_int(caller, "folds", folds)
    train, known = _known_part(caller, train), _known_part(caller, known)
    if known.logits is None or train.logits is None:
        _check.fail(caller, "logits", "given", None)
    seen = np.unique(np.asarray(known.labels))
    if not 2 <= folds <= seen.size or seen.size - seen.size / folds < 2:
        rule = "between 2 and the number of classes, leaving at least two classes"
        _check.fail(caller, "folds", rule, f"{folds} for {seen.size} classes")
    parts = np.array_split(np.random.default_rng(rng).permutation(seen), folds)
    found = [
        _left_out_in_turn(one, train, known, parts)
        for one in detector.recipes or (detector,)
    ]
    if len(found) == 1:
        return found[0]
    columns = np.column_stack([one.known for one in found])
    ranks = mean_rank(columns[~found[0].is_unknown], columns)
    return replace(found[0], known=ranks)


def _left_out_in_turn(
    detector: "Detector", train: Any, known: Any, parts: Sequence[NDArray[np.int64]]
) -> Scores:
    """Score samples with their classes left out, and in another fold as known."""
    scored = []
    for i, removed in enumerate(parts):
        keep = np.setdiff1d(np.arange(known.n_classes), removed)
        rest = _without(train, keep)
        fitted = detector.fit(rest.take(rest.labels != UNKNOWN))
        # As knowns, this fold takes the samples of the next fold's classes.
        both = np.isin(known.labels, [*removed, *parts[(i + 1) % len(parts)]])
        one = fitted.score(_without(known.take(both), keep))
        scored.append(
            Scores(
                labels=np.where(one.is_unknown, UNKNOWN, keep[one.labels]),
                predicted=keep[one.predicted],
                known=one.known,
                groups=np.where(one.is_unknown, f"{SYNTHETIC_PREFIX}left-out", ""),
                n_classes=known.n_classes,
            )
        )
    return Scores.concat(scored)


def mean_rank(
    known: NDArray[np.float64], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of known samples below each score, ties by half, averaged over columns."""
    # Whole numbers until the end: equal means stay equal.
    total = np.zeros(len(scores), dtype=np.intp)
    for reference, column in zip(np.sort(known, axis=0).T, scores.T, strict=True):
        total += np.searchsorted(reference, column, side="left")
        total += np.searchsorted(reference, column, side="right")
    return total / (2 * known.size)


def _known_part(caller: str, outputs: Outputs) -> Outputs:
    need_outputs(caller, "known", outputs)
    is_known = np.asarray(outputs.labels) != UNKNOWN
    if outputs.labels is None or not is_known.any():
        rule = "labelled, with samples of known classes"
        _check.fail(caller, "known", rule, repr(outputs))
    outputs = outputs.to("numpy")
    return outputs if is_known.all() else outputs.take(is_known)


def _mixup(
    caller: str, known: Any, n: int, rng: np.random.Generator
) -> dict[str, NDArray[Any] | None]:
    labels = known.labels
    if np.unique(labels).size < 2:
        _check.fail(caller, "known", "of at least two classes", "one class")
    first = rng.integers(0, labels.size, n)
    # Sorted by class, the samples of the own class are one run of places: draw a place
    # among the others and skip that run.
    order = np.argsort(labels, kind="stable")
    start, stop = (
        np.searchsorted(labels[order], labels[first], side=side)
        for side in ("left", "right")
    )
    place = rng.integers(0, labels.size - (stop - start))
    second = order[np.where(place >= start, place + (stop - start), place)]
    share = rng.uniform(0.3, 0.7, n)[:, None]

    def mixed(rows: Any) -> NDArray[Any] | None:
        if rows is None:
            return None
        found = share * rows[first] + (1 - share) * rows[second]
        return np.asarray(found.astype(rows.dtype))

    return {name: mixed(getattr(known, name)) for name in ("logits", "features")}


def _left_out(
    caller: str, known: Any, n: int, rng: np.random.Generator
) -> dict[str, NDArray[Any] | None]:
    if known.logits is None or known.logits.shape[1] < 2:
        rule = "given for two or more classes for kind='left-out'"
        got = "none" if known.logits is None else "one class"
        _check.fail(caller, "logits", rule, got)
    if n < len(known):
        known = known.take(np.sort(rng.choice(len(known), n, replace=False)))
    logits, rows = np.array(known.logits), np.arange(len(known))
    logits[rows, known.labels] = np.inf
    logits[rows, known.labels] = logits.min(axis=1)
    return {"logits": logits, "features": known.features}


def _without(outputs: Any, keep: NDArray[np.intp]) -> Outputs:
    """Leave out classes; their samples are unknown."""
    labels = np.full(outputs.n_classes, UNKNOWN)
    labels[keep] = np.arange(keep.size)
    return replaced(
        outputs,
        logits=np.take(outputs.logits, keep, axis=1),
        labels=labels[outputs.labels],
        classes=tuple(outputs.classes[c] for c in keep) if outputs.classes else (),
        weight=None if outputs.weight is None else outputs.weight[keep],
        bias=None if outputs.bias is None else outputs.bias[keep],
    )
