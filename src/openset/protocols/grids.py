"""Openness of a problem; protocols for all openness values, or for all classes."""

import math
from collections.abc import Iterable
from typing import Any

from openset import _check
from openset.protocols.drawing import holdout, outlier, universe_of
from openset.protocols.draws import Draws
from openset.protocols.protocol import Protocol
from openset.protocols.sampling import Stream


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
        remedy = "It counts all classes of the test set: known plus unknown"
        _check.fail("openness", "n_test", f">= n_known = {n_known}", n_test, remedy)
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
        for n_unknown in range(1, 1 + (n_outside or n_classes - n_known))
    ]
    if not found:
        rule, got = "below n_classes", f"{min_known} of {n_classes} classes"
        _check.fail(caller, "min_known", rule, got)
    # Pairs of equal openness, such as (4, 3) and (8, 6): the larger one first.
    return tuple(
        sorted(found, key=lambda pair: (openness(pair[0], sum(pair)), -sum(pair)))
    )


def grid(
    classes: Any,
    unknown_set: Any = None,
    *,
    sizes: Iterable[tuple[int, int]] | None = None,
    openness: Iterable[float] | None = None,
    repeats: int = 5,
    rng: Any = 0,
) -> Draws:
    """Draw problems over a range of openness, several class draws each.

    Parameters
    ----------
    classes
        See :func:`holdout`; with `unknown_set`, the known set of :func:`outlier`.
    unknown_set
        Where unknown classes come from, if not from `classes`.
    sizes
        (n_known, n_unknown) pairs. Left out together with `openness`: all pairs with at
        least two known classes, ``pairs(n)``.
    openness
        Instead of `sizes`: target values; the nearest possible pair is taken, the
        larger one of equally near pairs.
    repeats
        Number of class draws per pair. One draw is not enough: results depend more on
        which classes are unknown than on the openness.
    rng
        See :func:`holdout`.

    Examples
    --------
    The five problems of the class-imbalance paper, five class draws each:

    >>> sizes = [(7, 5), (4, 3), (7, 8), (7, 9), (2, 8)]
    >>> grid(10, range(10, 20), sizes=sizes, rng=0)
    Draws(25 protocols, 25 distinct, openness 0.142 to 0.423)
    >>> [p.n_unknown for p in grid(10, openness=[0.1, 0.3], repeats=1)]
    [3, 6]
    """
    caller = "grid"
    n_inside, n_outside = len(universe_of(caller, "classes", classes)[0]), None
    if unknown_set is not None:
        n_outside = len(universe_of(caller, "unknown_set", unknown_set)[0])
    if sizes is not None and openness is not None:
        _check.fail(caller, "sizes or openness", "left out", "both")
    if sizes is None:
        sizes = pairs(n_inside, n_outside)
        if openness is not None:
            # Two targets may have the same nearest pair; it is drawn once.
            sizes = dict.fromkeys(_nearest(target, sizes) for target in openness)
    _check.positive_int(caller, "repeats", repeats)
    # One generator through all cells: a second rng=seed would repeat the same draws.
    stream = Stream(caller, rng)
    drawn: list[Protocol] = []
    for n_known, n_unknown in sizes:
        seed = stream.seed()
        if unknown_set is not None:
            drawn += outlier(
                classes, unknown_set, n_known, n_unknown, repeats=repeats, rng=seed
            )
        else:
            drawn += holdout(classes, n_known, n_unknown, repeats, seed)
    return Draws(tuple(drawn))


def _nearest(target: float, among: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """Return the pair whose openness is nearest to `target`; the larger one of ties."""
    target = _check.number("grid", "openness", target, low=0, high=1, open_high=True)
    return min(
        among,
        key=lambda pair: (abs(openness(pair[0], sum(pair)) - target), -sum(pair)),
    )


def leave_classes_out(classes: Any, n_out: int = 1, rng: Any = None) -> Draws:
    """Make protocols in which every class is unknown once, `n_out` at a time.

    Parameters
    ----------
    classes
        See :func:`holdout`.
    n_out
        Unknown classes per protocol; it must divide the number of classes.
    rng
        Groups the classes at random; by default neighbours are left out together.

    Examples
    --------
    >>> [p.unknown for p in leave_classes_out(["cat", "dog", "fox"])]
    [('cat',), ('dog',), ('fox',)]
    """
    caller = "leave_classes_out"
    universe, source = universe_of(caller, "classes", classes)
    n = len(universe)
    n_out = _check.positive_int(caller, "n_out", n_out)
    if n_out >= n or n % n_out:
        options = [d for d in range(1, n // 2 + 1) if n % d == 0]
        rule = f"a proper divisor of the {n} classes"
        _check.fail(caller, "n_out", rule, n_out, f"Possible here: {options}")
    seeds = [0] * (n // n_out)
    blocks = [universe[i : i + n_out] for i in range(0, n, n_out)]
    if rng is not None:
        stream = Stream(caller, rng)
        blocks = stream.choose(universe, *[n_out] * (n // n_out))
        seeds = [stream.seed() for _ in blocks]
    return Draws(
        tuple(
            Protocol(
                known=tuple(c for c in universe if c not in block),
                unknown=block,
                source=source,
                classes=universe,
                seed=seed,
                name=caller,
            )
            for block, seed in zip(blocks, seeds, strict=True)
        )
    )
