"""Openness of a problem, and the pairs of class counts that reach it."""

import math

from openset import _check


def openness(n_known: int, n_test: int) -> float:
    r"""How far the test classes reach beyond the known ones; 0 is a closed set.

    .. math:: 1 - \sqrt{\frac{2\,|C_{TR}|}{|C_{TR}| + |C_{TE}|}}

    with :math:`|C_{TR}|` known classes and :math:`|C_{TE}|` classes at test time, the
    known ones among them: :math:`|C_{TE}|` = known + unknown.

    Parameters
    ----------
    n_known
        Classes the model is trained on.
    n_test
        **All** classes of the test set: known plus unknown.

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
    """All (known, unknown) class counts, ordered by openness.

    Parameters
    ----------
    n_classes
        Classes of the set the knowns come from.
    n_outside
        Classes of another set the unknowns come from (outlier problems). Left out,
        knowns and unknowns share `n_classes` (holdout problems).
    min_known
        Fewest known classes; 1 asks for one-class problems too.

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
            f"pairs: no problem has {min_known} known classes and an unknown one among "
            f"{n_classes} classes. Lower min_known, or add classes"
        )
        raise ValueError(msg)
    # Exact ties (4 against 3, 8 against 6) are told apart by size, larger first.
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
