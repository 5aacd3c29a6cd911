"""Several protocols at once: a grid over openness, or each class left out once."""

from collections.abc import Iterable, Sequence
from typing import Any

from openset import _check
from openset.protocols._class_draws import holdout, outlier, universe_of
from openset.protocols._draws import Draws
from openset.protocols._openness import nearest_pair, pairs
from openset.protocols._protocol import Protocol
from openset.protocols.sampling import Stream


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
        msg = _check.must(
            f"a proper divisor of the {n} classes",
            caller=caller,
            name="n_out",
            got=n_out,
            remedy=f"Possible here: {options}",
        )
        raise ValueError(msg)
    seeds = [0] * (n // n_out)
    if rng is None:
        blocks = [universe[i : i + n_out] for i in range(0, n, n_out)]
    else:
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
                name="leave_classes_out",
            )
            for block, seed in zip(blocks, seeds, strict=True)
        )
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
    universe, _ = universe_of(caller, "classes", classes)
    outside = None
    if unknown_set is not None:
        outside = universe_of(caller, "unknown_set", unknown_set)[0]
    if sizes is not None and openness is not None:
        msg = "grid: sizes or openness must be given, got both"
        raise ValueError(msg)
    chosen: Sequence[tuple[int, int]]
    if sizes is not None:
        chosen = [_pair(caller, pair) for pair in sizes]
    else:
        chosen = pairs(len(universe), None if outside is None else len(outside))
        if openness is not None:
            chosen = [nearest_pair(t, tuple(chosen), caller=caller) for t in openness]
            # Two targets may have the same nearest pair; it is drawn once.
            chosen = list(dict.fromkeys(chosen))
    if not chosen:
        msg = "grid: sizes or openness must be non-empty, got none"
        raise ValueError(msg)
    repeats = _check.positive_int(caller, "repeats", repeats)
    # One generator through all cells: a second rng=seed would repeat the same draws.
    stream = Stream(caller, rng)
    drawn: list[Protocol] = []
    for n_known, n_unknown in chosen:
        seed = stream.seed()
        if unknown_set is None:
            cell = holdout(classes, n_known, n_unknown, repeats, seed)
        else:
            cell = outlier(
                classes, unknown_set, n_known, n_unknown, repeats=repeats, rng=seed
            )
        drawn.extend(cell)
    return Draws(tuple(drawn))


def _pair(caller: str, pair: Any) -> tuple[int, int]:
    try:
        n_known, n_unknown = pair
    except (TypeError, ValueError):
        msg = f"{caller}: sizes must be (n_known, n_unknown) pairs, got {pair!r}"
        raise ValueError(msg) from None
    return (
        _check.positive_int(caller, "n_known", n_known),
        _check.positive_int(caller, "n_unknown", n_unknown),
    )
