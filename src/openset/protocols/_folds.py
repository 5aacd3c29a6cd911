"""Cross-validation folds: rows of samples; unknown samples are only ever tested."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.protocols._protocol import PARTS, Protocol
from openset.protocols.sampling import UNKNOWNS, Stream, deal

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """Rows of one cross-validation fold; unknown samples are in `test` only."""

    train: Rows
    test: Rows
    negative: Rows
    surrogate: Rows


def folds(
    labels: ArrayLike,
    protocol: Protocol,
    n_folds: int = 5,
    *,
    unknowns: str = "dealt",
    rng: Any = None,
) -> tuple[Fold, ...]:
    """Divide samples into folds for cross-validation.

    Every known sample is tested once; unknown samples are never trained on. Fold
    sizes, overall and within each class, differ by at most one.

    Parameters
    ----------
    labels
        Class of each sample, named or numbered as in the protocol. Samples of other
        classes are in no fold.
    protocol
        Which classes are known and unknown. Negative and surrogate samples are also
        divided, but never tested: a fold uses those of all other folds.
    n_folds
        Number of folds, at least 2.
    unknowns
        "dealt": each unknown sample is tested in one fold. "shared": all of them are
        tested in every fold.
    rng
        A seed or ``numpy.random.Generator``; by default the protocol's seed.

    Examples
    --------
    >>> p = Protocol(known=["cat", "dog"], unknown=["fox"])
    >>> one, two = folds(["cat", "cat", "dog", "dog", "fox", "fox"], p, 2)
    >>> one.train.size, one.test.size, two.train.size, two.test.size
    (2, 3, 2, 3)
    """
    caller = "folds"
    n_folds = _check.positive_int(caller, "n_folds", n_folds)
    if n_folds < 2:
        got = n_folds
        raise ValueError(_check.must(">= 2", caller=caller, name="n_folds", got=got))
    _check.one_of(caller, "unknowns", unknowns, UNKNOWNS)
    for part in PARTS:
        if getattr(protocol, part) and protocol.source_of(part) != protocol.source:
            msg = (
                f"folds: {part} classes must be of the same data set as the known "
                f"ones, got {protocol.source_of(part)!r}. Use datasets.folds, which "
                "takes both data sets"
            )
            raise ValueError(msg)
    strata, bounds = strata_of(labels, protocol)
    _enough_per_fold(strata, protocol, n_folds)
    stream = Stream(caller, protocol.seed if rng is None else rng)
    used = np.flatnonzero(strata >= 0)
    bins = np.full(strata.size, -1, dtype=np.int64)
    bins[used] = deal(strata[used], n_folds, stream)
    role = np.searchsorted(bounds, strata, side="right")  # position in PARTS, plus one
    role[strata < 0] = 0
    is_part = {part: role == i + 1 for i, part in enumerate(PARTS)}
    return tuple(
        Fold(
            train=_rows(is_part["known"] & (bins != i)),
            test=_rows(
                (is_part["known"] & (bins == i))
                | (is_part["unknown"] & ((bins == i) | (unknowns == "shared")))
            ),
            negative=_rows(is_part["negative"] & (bins != i)),
            surrogate=_rows(is_part["surrogate"] & (bins != i)),
        )
        for i in range(n_folds)
    )


def strata_of(
    labels: ArrayLike, protocol: Protocol
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign numbers to the classes of a protocol, part after part.

    Returns the number of each sample's class (-1: in no part) and the first number of
    each of `PARTS`.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iuU":
        got = f"dtype {array.dtype}"
        raise TypeError(
            _check.must(
                "class names or numbers", caller="folds", name="labels", got=got
            )
        )
    _check.vector("folds", "labels", array)
    place = {
        c: i for i, c in enumerate(c for part in PARTS for c in getattr(protocol, part))
    }
    values, inverse = np.unique(array, return_inverse=True)
    numbers = np.array([place.get(v, -1) for v in values.tolist()], dtype=np.int64)
    sizes = [len(getattr(protocol, part)) for part in PARTS]
    bounds = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return numbers[inverse], bounds


def _enough_per_fold(
    strata: NDArray[np.int64], protocol: Protocol, n_folds: int
) -> None:
    sizes = np.bincount(strata[strata >= 0], minlength=protocol.n_known)
    short = np.flatnonzero(sizes[: protocol.n_known] < n_folds)
    if short.size:
        name, n = protocol.known[short[0]], int(sizes[short[0]])
        msg = (
            f"folds: each known class must have at least n_folds = {n_folds} samples, "
            f"got {n} of class {name!r}. Use fewer folds, or check that labels use the "
            "protocol's names or numbers"
        )
        raise ValueError(msg)
    start = protocol.n_known
    if not sizes[start : start + protocol.n_unknown].any():
        msg = "folds: labels must hold samples of unknown classes, got none"
        raise ValueError(msg)


def _rows(mask: NDArray[np.bool_]) -> Rows:
    rows = np.flatnonzero(mask).astype(np.int64)
    rows.flags.writeable = False
    return rows
