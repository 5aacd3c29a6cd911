"""The critical-difference diagram: mean ranks, and which do not differ."""

import numpy as np

from openset import _check
from openset.report._chart import RankAxis
from openset.report._display import Brief, Display
from openset.stats import Leaderboard, Ranks


def critical_difference(ranks: Ranks | Leaderboard) -> Display:
    """Show mean ranks on one axis; bars join methods without significant differences.

    Parameters
    ----------
    ranks
        The result of :func:`openset.stats.ranks`, or a leaderboard that has ranks.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006,
    figure 1.

    Examples
    --------
    >>> from openset.stats import ranks
    >>> found = ranks({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.7, 0.6], "c": [0, 0, 0]})
    >>> critical_difference(found).columns["mean_rank"].tolist()
    [1.0, 2.0, 3.0]
    """
    caller = "report.critical_difference"
    found = ranks.ranks if isinstance(ranks, Leaderboard) else ranks
    remedy = "Ranks need two methods and two common problems or runs"
    _check.instance(
        caller, "ranks", found, Ranks, rule="Ranks or a leaderboard with them",
        remedy=remedy,
    )  # fmt: skip
    assert found is not None  # noqa: S101  # checked above, for the type checker
    alike = {
        name: sorted(
            {other for group in found.alike if name in group for other in group}
            - {name},
            key=lambda other: found.mean[other],
        )
        for name in found.mean
    }
    return Display(
        title="Critical difference",
        columns={
            "name": np.array(list(found.mean)),
            "mean_rank": np.array(list(found.mean.values())),
        },
        charts=(
            RankAxis(
                names=tuple(found.mean),
                ranks=tuple(found.mean.values()),
                groups=tuple(
                    (found.mean[group[0]], found.mean[group[-1]])
                    for group in found.alike
                ),
                distance=found.critical_difference,
            ),
        ),
        brief=Brief(
            header=("method", "mean rank", "no significant difference to"),
            rows=tuple(
                (name, rank, ", ".join(alike[name]) or "–")
                for name, rank in found.mean.items()
            ),
        ),
    )
