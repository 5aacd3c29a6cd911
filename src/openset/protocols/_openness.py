"""Openness of a problem, and the pairs of class counts that reach it."""

import math

from openset import _check


def openness(n_known: int, n_test: int) -> float:
    r"""Return the openness: 0 without unknown classes, close to 1 with many.

    .. math:: 1 - \sqrt{\frac{2\,|C_{TR}|}{|C_{TR}| + |C_{TE}|}}

    with :math:`|C_{TR}|` known classes and :math:`|C_{TE}|` classes at test time, the
    known ones among them: :math:`|C_{TE}|` = known + unknown.

    Parameters
    ----------
    n_known
        Number of classes the model is trained on.
    n_test
        Number of **all** classes of the test set: known plus unknown.

    References
    ----------
    Scheirer et al., Toward open set recognition, TPAMI 2013, in the form used by the
    class-imbalance paper (2024), whose five problems are (known, unknown) = (7, 5),
    (4, 3), (7, 8), (7, 9) and (2, 8).

    Examples
    --------
    Two known classes and eight unknown ones, ten at test time:

    >>> round(openness(2, 10), 3)
    0.423
    >>> openness(6, 6)
    0.0
    """
    n_known = _check.positive_int("openness", "n_known", n_known)
    n_test = _check.positive_int("openness", "n_test", n_test)
    if n_test < n_known:
        msg = _check.must(
            f">= n_known = {n_known}",
            caller="openness",
            name="n_test",
            got=n_test,
            remedy="It counts all classes of the test set: known plus unknown",
        )
        raise ValueError(msg)
    return 1.0 - math.sqrt(2 * n_known / (n_known + n_test))


def pairs(
    n_classes: int, n_outside: int | None = None, *, min_known: int = 2
) -> tuple[tuple[int, int], ...]:
    """Return all (known, unknown) pairs of class counts, ordered by openness.

    Parameters
    ----------
    n_classes
        Number of classes of the data set the known classes come from.
    n_outside
        Number of classes of another data set the unknown classes come from (outlier
        protocols). By default both come from the same `n_classes` (holdout protocols).
    min_known
        Smallest number of known classes; 1 includes one-class problems.

    Examples
    --------
    >>> pairs(4)
    ((3, 1), (2, 1), (2, 2))
    >>> len(pairs(10)), len(pairs(10, 10))
    (36, 90)
    """
    caller = "pairs"
    n_classes = _check.positive_int(caller, "n_classes", n_classes)
    min_known = _check.positive_int(caller, "min_known", min_known)
    if n_outside is not None:
        n_outside = _check.positive_int(caller, "n_outside", n_outside)
    found = [
        (n_known, n_unknown)
        for n_known in range(min_known, n_classes + 1)
        for n_unknown in range(
            1, 1 + (n_classes - n_known if n_outside is None else n_outside)
        )
    ]
    if not found:
        msg = (
            f"pairs: min_known must leave an unknown class, got {min_known} of "
            f"{n_classes} classes. Lower min_known, or add classes"
        )
        raise ValueError(msg)
    # Pairs of equal openness, such as (4, 3) and (8, 6): the larger one first.
    return tuple(
        sorted(found, key=lambda pair: (openness(pair[0], sum(pair)), -sum(pair)))
    )


def nearest_pair(
    target: float, among: tuple[tuple[int, int], ...], *, caller: str
) -> tuple[int, int]:
    """Return the pair whose openness is nearest to `target`; the larger one of ties."""
    target = _check.number(caller, "openness", target, low=0, high=1, open_high=True)
    return min(
        among,
        key=lambda pair: (abs(openness(pair[0], sum(pair)) - target), -sum(pair)),
    )
