"""Protocols for all openness values, or in which every class is unknown once."""

from collections.abc import Iterable
from typing import Any

from openset import _check
from openset.protocols.drawing import holdout, outlier, universe_of
from openset.protocols.draws import Draws
from openset.protocols.protocol import Protocol, openness
from openset.protocols.sampling import Stream


def pairs(n_classes: int, n_outside: int | None = None) -> list[tuple[int, int]]:
    """Return all (known, unknown) pairs of class counts, ordered by openness.

    There are at least two known classes.

    Parameters
    ----------
    n_classes
        Number of classes of the data set the known classes come from.
    n_outside
        Number of classes of another data set the unknown classes come from (outlier
        protocols). By default both come from the same `n_classes` (holdout protocols).

    Examples
    --------
    >>> pairs(4)
    [(3, 1), (2, 1), (2, 2)]
    >>> len(pairs(10)), len(pairs(10, 10))
    (36, 90)
    """
    caller = "pairs"
    if n_outside is not None:
        n_outside = _check.positive_int(caller, "n_outside", n_outside)
    n_classes = _check.integer(
        caller, "n_classes", n_classes, low=3 if n_outside is None else 2
    )
    found = [
        (n_known, n_unknown)
        for n_known in range(2, n_classes + 1)
        for n_unknown in range(1, 1 + (n_outside or n_classes - n_known))
    ]
    # Pairs of equal openness, such as (4, 3) and (8, 6): the larger one first.
    return sorted(found, key=lambda pair: (openness(pair[0], sum(pair)), -sum(pair)))


def grid(
    classes: Any,
    unknown_set: Any = None,
    *,
    sizes: Iterable[tuple[int, int]] | None = None,
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
        (n_known, n_unknown) pairs; by default all of them, ``pairs(n)``.
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
    """
    sets: dict[str, Any] = {"classes": classes}
    draw: Any = holdout
    if unknown_set is not None:
        sets["unknown_set"], draw = unknown_set, outlier
    counts = [len(universe_of("grid", name, one)[0]) for name, one in sets.items()]
    _check.positive_int("grid", "repeats", repeats)
    # One generator through all cells: a second rng=seed would repeat the same draws.
    stream = Stream("grid", rng)
    drawn: list[Protocol] = []
    for size in pairs(*counts) if sizes is None else sizes:
        drawn += draw(*sets.values(), *size, repeats=repeats, rng=stream.seed())
    return Draws(tuple(drawn))


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
    blocks = [universe[i : i + n_out] for i in range(0, n, n_out)]
    seeds = [0] * len(blocks)
    if rng is not None:
        stream = Stream(caller, rng)
        blocks = stream.choose(universe, *map(len, blocks))
        seeds = [stream.seed() for _ in blocks]
    about: dict[str, Any] = {"source": source, "classes": universe, "name": caller}
    drawn = []
    for block, seed in zip(blocks, seeds, strict=True):
        known = tuple(c for c in universe if c not in block)
        drawn.append(Protocol(known=known, unknown=block, seed=seed, **about))
    return Draws(tuple(drawn))
