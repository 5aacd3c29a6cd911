"""Surrogate unknowns made from known samples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.outputs import Outputs, need_outputs
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
    arrays = make(known, size, generator)
    made = next(array for array in arrays.values() if array is not None)
    return Outputs(
        **arrays,
        labels=np.full(len(made), UNKNOWN),
        groups=np.full(len(made), SYNTHETIC_PREFIX + kind),
        classes=known.classes,
        weight=known.weight,
        bias=known.bias,
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
    if isinstance(surrogate, Outputs):
        names = () if surrogate.groups is None else surrogate.groups
        is_left_out = f"{SYNTHETIC_PREFIX}left-out" in names
    else:
        is_left_out = surrogate == "left-out"
    if is_left_out:
        _check.fail(
            caller,
            "surrogate",
            f"unknowns that {detector.name} can tell from known samples",
            "left-out ones, whose features are those of known samples, and it sees "
            "only features",
            "Use 'mixup', or outputs of real unknowns",
        )


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
        msg = _check.must(
            "a detector that is not fitted yet",
            caller=caller,
            name="detector",
            got=type(detector).__name__,
            remedy="Pass the detector itself: detectors.make('postmax')",
        )
        raise TypeError(msg)
    folds = _check.positive_int(caller, "folds", folds)
    train, known = _known_part(caller, train), _known_part(caller, known)
    n_classes = known.n_classes
    if known.logits is None or train.logits is None or n_classes is None:
        msg = _check.must("given", caller=caller, name="logits", got=None)
        raise ValueError(msg)
    seen = np.unique(known.labels)  # type: ignore[arg-type]
    if not 2 <= folds <= seen.size or seen.size - seen.size / folds < 2:
        msg = _check.must(
            "between 2 and the number of classes, leaving at least two classes",
            caller=caller,
            name="folds",
            got=f"{folds} for {seen.size} classes",
        )
        raise ValueError(msg)
    parts = np.array_split(np.random.default_rng(rng).permutation(seen), folds)
    recipes = detector.recipes or (detector,)
    found = [_left_out_in_turn(one, train, known, parts) for one in recipes]
    if len(found) == 1:
        return found[0]
    columns = np.column_stack([one.known for one in found])
    ranks = mean_rank(columns[~found[0].is_unknown], columns)
    return replace(found[0], known=ranks)


def _left_out_in_turn(
    detector: "Detector",
    train: Outputs,
    known: Outputs,
    parts: Sequence[NDArray[np.int64]],
) -> Scores:
    """Score samples with their classes left out, and in another fold as known."""
    n_classes, folds = known.n_classes or 0, len(parts)
    scored = []
    for i, removed in enumerate(parts):
        keep = np.setdiff1d(np.arange(n_classes), removed)
        fitted = detector.fit(_without(train, keep, known_only=True))
        # As knowns, this fold takes the samples of the next fold's classes.
        both = np.isin(np.asarray(known.labels), [*removed, *parts[(i + 1) % folds]])
        one = fitted.score(_without(known.take(both), keep, known_only=False))
        names = np.where(one.is_unknown, f"{SYNTHETIC_PREFIX}left-out", "")
        scored.append(
            Scores(
                labels=_renumbered(one.labels, keep),
                predicted=keep[one.predicted],
                known=one.known,
                groups=names,
                n_classes=n_classes,
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
    if outputs.labels is None or not (outputs.labels != UNKNOWN).any():
        msg = _check.must(
            "labelled, with samples of known classes",
            caller=caller,
            name="known",
            got=repr(outputs),
        )
        raise ValueError(msg)
    outputs = outputs.to("numpy")
    if int(outputs.labels.min()) == UNKNOWN:  # type: ignore[union-attr]
        outputs = outputs.take(outputs.labels != UNKNOWN)
    return outputs


def _mixup(
    known: Outputs, n: int, rng: np.random.Generator
) -> dict[str, NDArray[Any] | None]:
    labels = np.asarray(known.labels)
    if np.unique(labels).size < 2:
        msg = _check.must(
            "of at least two classes",
            caller="selection.synthetic",
            name="known",
            got="one class",
        )
        raise ValueError(msg)
    first = rng.integers(0, labels.size, n)
    # Sorted by class, the samples of the own class are one run of places: draw a place
    # among the others and skip that run.
    order = np.argsort(labels, kind="stable")
    start = np.searchsorted(labels[order], labels[first], side="left")
    stop = np.searchsorted(labels[order], labels[first], side="right")
    place = rng.integers(0, labels.size - (stop - start))
    second = order[np.where(place >= start, place + (stop - start), place)]
    share = rng.uniform(0.3, 0.7, n)[:, None]
    mixed: dict[str, NDArray[Any] | None] = {}
    for name in ("logits", "features"):
        array = getattr(known, name)
        mixed[name] = (
            None
            if array is None
            else (share * array[first] + (1 - share) * array[second]).astype(
                array.dtype
            )
        )
    return mixed


def _left_out(
    known: Outputs, n: int, rng: np.random.Generator
) -> dict[str, NDArray[Any] | None]:
    if known.logits is None or known.logits.shape[1] < 2:
        msg = _check.must(
            "given for two or more classes for kind='left-out'",
            caller="selection.synthetic",
            name="logits",
            got="none" if known.logits is None else "one class",
        )
        raise ValueError(msg)
    if n < len(known):
        known = known.take(np.sort(rng.choice(len(known), n, replace=False)))
    logits = np.array(known.logits)
    rows = np.arange(len(logits))
    own = np.asarray(known.labels)
    logits[rows, own] = np.inf
    logits[rows, own] = logits.min(axis=1)
    return {"logits": logits, "features": known.features}


def _without(outputs: Outputs, keep: NDArray[np.intp], *, known_only: bool) -> Outputs:
    labels = np.full(outputs.n_classes or 0, UNKNOWN)
    labels[keep] = np.arange(keep.size)
    labels = labels[outputs.labels]
    names: Sequence[str] = [outputs.classes[c] for c in keep] if outputs.classes else ()
    rest = Outputs(
        logits=outputs.logits[:, keep],  # type: ignore[index]
        features=outputs.features,
        labels=labels,
        classes=names,
        weight=None if outputs.weight is None else outputs.weight[keep],
        bias=None if outputs.bias is None else outputs.bias[keep],
    )
    return rest.take(labels != UNKNOWN) if known_only else rest


def _renumbered(labels: NDArray[np.int64], keep: NDArray[np.intp]) -> NDArray[np.int64]:
    """Give classes their old numbers back; unknowns stay -1."""
    return np.where(labels == UNKNOWN, UNKNOWN, keep[labels])
