"""Kinds of unknowns: groups whose scores differ by more than noise.

Groups are named by the user, kinds are found in the scores: groups whose scores cannot
be told apart count as one kind. So dividing one data set into twenty groups does not
give twenty kinds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # whose parts are imported when first used
from numpy.typing import NDArray

from openset.scores import Scores
from openset.thresholds.groups import SYNTHETIC_PREFIX, ByGroup

LEVEL = 0.01
"""Level of all tests together for a difference between groups."""

_CLOSE = 20.0  # factor within which an approximate p-value may be on the wrong side


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds of unknowns, each a set of groups.

    `names` lists the groups of each kind, `of_group` the kind of each group. Synthetic
    groups are kinds only if there are no others: else they have the kind -1.
    """

    names: tuple[tuple[str, ...], ...]
    of_group: NDArray[np.intp]
    n_of_group: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n(self) -> NDArray[np.int64]:
        """Number of samples of each kind."""
        return self.pooled(np.ones(self.of_group.size), mean=False).astype(np.int64)

    def pooled(
        self, of_group: NDArray[np.float64], *, mean: bool = True
    ) -> NDArray[np.float64]:
        """Add up what is counted per sample of a group, or average it, over each kind.

        The groups are along the first axis.
        """
        shape = (-1, *[1] * (of_group.ndim - 1))
        weighed = self.n_of_group.reshape(shape) * of_group
        total = np.stack(
            [weighed[self.of_group == k].sum(axis=0) for k in range(len(self))]
        )
        return total / self.n.reshape(shape) if mean else total


def kinds_of(scores: Scores, table: ByGroup) -> Kinds:
    """Join groups of unknowns whose scores do not differ beyond noise.

    `table` is :func:`openset.thresholds.groups.by_group` of the same scores.

    Examples
    --------
    >>> from openset.thresholds.groups import by_group
    >>> rng = np.random.default_rng(0)
    >>> shift = np.repeat([3, 0, -2], [100, 200, 100])
    >>> scores = Scores(
    ...     labels=[0] * 100 + [-1] * 300,
    ...     predicted=[0] * 400,
    ...     known=shift + rng.normal(size=400),
    ...     groups=["known"] * 100 + ["dogs a", "dogs b"] * 100 + ["noise"] * 100,
    ... )
    >>> kinds_of(scores, by_group("example", scores, None)).names
    (('dogs a', 'dogs b'), ('noise',))
    """
    place = scores.unknown_groups.index
    unknown = scores.known[scores.is_unknown]
    return kinds_among(table.names, place, unknown[:, None], [table.urr])


def kinds_among(
    names: Sequence[str],
    place: NDArray[np.intp],
    scores: NDArray[np.float64],
    curves: Sequence[NDArray[np.float64]],
) -> Kinds:
    """Join groups that do not differ beyond noise in the scores of any detector.

    Two groups differ if the Kolmogorov-Smirnov test says so for any detector, at a
    level of 0.01 for all pairs and detectors together (Bonferroni). The test is exact
    (SciPy's ``ks_2samp``) wherever the limit of large samples is not far from the
    level. Groups that do not differ are joined, also by way of a third; a group too
    small to differ joins the nearest kind.

    Parameters
    ----------
    names
        Names of the groups.
    place
        The group of each sample, as an index into the names.
    scores
        One row per sample, one column per detector.
    curves
        For each detector, the distribution functions of its scores: one row per group,
        at the same points.
    """
    n = np.bincount(place, minlength=len(names))
    real = [i for i, name in enumerate(names) if not name.startswith(SYNTHETIC_PREFIX)]
    used = np.array(real or range(len(names)))

    def p_value(d: int, a: int, b: int) -> float:
        pair = (scores[place == used[g], d] for g in (a, b))
        return float(scipy.stats.ks_2samp(*pair).pvalue)

    label = np.full(len(names), -1)
    label[used] = _joined(
        n[used].astype(float), [curve[used] for curve in curves], p_value
    )
    members = tuple(
        tuple(names[g] for g in np.flatnonzero(label == k).tolist())
        for k in range(int(label.max()) + 1)
    )
    return Kinds(members, label, n)


def _joined(
    n: NDArray[np.float64],
    curves: Sequence[NDArray[np.float64]],
    p_value: Callable[[int, int, int], float],
) -> NDArray[np.intp]:
    """Give groups the number of their kind: pairs without a difference connect them.

    A group so small that no distance would be a difference connects nothing: it joins
    the kind of the group it is nearest to. `p_value` tests two groups by one detector.
    """
    size = n[:, None] * n / (n[:, None] + n)
    limit = LEVEL / (max(n.size * (n.size - 1) // 2, 1) * len(curves))
    distance = np.zeros(size.shape)
    differ = np.zeros(size.shape, dtype=bool)
    for d, curve in enumerate(curves):
        # A row of pairs at a time: memory stays small.
        apart = np.stack([np.abs(curve - one).max(axis=1) for one in curve])
        distance = np.maximum(distance, apart)
        p = scipy.special.kolmogorov(np.sqrt(size) * apart)
        is_close = (p > limit / _CLOSE) & (p < limit * _CLOSE)
        for a, b in np.argwhere(np.triu(is_close, 1)).tolist():
            p[a, b] = p[b, a] = p_value(d, a, b)
        differ |= p < limit
    is_able = scipy.special.kolmogorov(np.sqrt(size.max(axis=1))) < limit
    label = np.full(n.size, -1)
    for start in np.flatnonzero(is_able).tolist():
        _spread(label, start, ~differ & is_able)
    if not is_able.any():
        return np.zeros(n.size, dtype=np.intp)
    small = np.flatnonzero(~is_able)
    nearest = np.where(is_able, distance[small], np.inf).argmin(axis=1)
    label[small] = label[nearest]
    return label


def _spread(label: NDArray[np.intp], start: int, connected: NDArray[np.bool_]) -> None:
    """Give groups that are connected to one, also by way of others, a new number.

    Those that have a number keep it.
    """
    number, waiting = label.max() + 1, [start]
    while waiting:
        a = waiting.pop()
        if label[a] < 0:
            label[a] = number
            waiting += np.flatnonzero(connected[a]).tolist()
