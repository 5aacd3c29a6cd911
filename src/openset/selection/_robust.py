"""The default rule of `choose`: a consensus, unless one detector is clearly better.

The rule and its constants were tuned on parts A to C of the networks of
``benchmarks/missing_kinds.py`` and tested on parts E and F;
``docs/results/operating.md`` has the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.metrics import Interval
from openset.selection._candidates import Data
from openset.selection._surrogate import mean_rank
from openset.thresholds.anchor import anchored_share
from openset.thresholds.kinds import Kinds, kinds_among
from openset.thresholds.new_kind import new_kind

CONSENSUS = "consensus"
"""The mean rank, among the known samples, that a few different detectors give."""

MEMBERS = ("msp", "rmds", "vim", "osnn")
"""Detectors of the consensus: they look at different things, and none is weak."""

SIMPLE = ("msp", "maxlogit")
"""Detectors everybody has: the consensus must do at least as well as each."""

_UPSIDE_DOWN = 0.5  # AUROC below which a member is left out of the consensus
_LEAST_GAIN = 0.02  # open-set accuracy a single detector must gain on every kind
_MOST_LEVELS, _POINTS = 200, 1024


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rates of every candidate at shares of the known samples, strictest last.

    Rows are the single detectors, then the consensus.
    """

    names: tuple[str, ...]
    members: tuple[int, ...]
    """Places of the detectors the consensus averages."""
    is_simple: NDArray[np.bool_]  # (d,)
    kinds: Kinds
    share: NDArray[np.float64]  # (d, m) of the knowns accepted
    ccr: NDArray[np.float64]  # (d, m)
    urr: NDArray[np.float64]  # (d, k, m)
    accuracy: NDArray[np.float64]  # (d,)
    n_known: int
    alpha: float

    @property
    def objectives(self) -> tuple[str, ...]:
        """How each threshold is chosen: MSP and MaxLogit gain nothing by an anchor.

        Nor does any detector where there is no consensus to compare with.
        """
        is_alone = len(self.members) == 1
        return tuple(
            "osa" if is_alone or simple else "anchored"
            for simple in self.is_simple.tolist()
        )

    @property
    def consensus(self) -> int:
        """The place of the consensus."""
        return len(self.names) - 1

    def osa(self) -> NDArray[np.float64]:
        """Open-set accuracy of each candidate on each kind, shape (d, k, m)."""
        return self.alpha * self.ccr[:, None] + (1 - self.alpha) * self.urr

    def levels(self, chosen: Sequence[int]) -> NDArray[np.intp]:
        """Return the level of each candidate's threshold, chosen on some kinds."""
        # Of equal ones the smallest threshold; sums of shares round: no difference.
        best = np.round(self.osa()[:, chosen].mean(axis=1), 12).argmax(axis=1)
        share = self.share[np.arange(len(best)), best]
        wanted = anchored_share(share, self.accuracy, len(chosen))
        anchored = np.abs(self.share - wanted[:, None]).argmin(axis=1)
        return np.where(np.array(self.objectives) == "osa", best, anchored)


def candidates_of(
    data: Data,
    detectors: Sequence[str],
    *,
    members: Sequence[str] = MEMBERS,
    simple: Sequence[str] = SIMPLE,
) -> Candidates:
    """Count for every detector, and for the consensus.

    `detectors` are what the columns of `data` are by their registered names. Other
    `members` and `simple` ones than those in use are for comparisons.
    """
    # The members; the first detector if there is none.
    offered = [detectors.index(name) for name in members if name in detectors] or [0]
    is_whole = detectors[offered[0]] in members
    # One detector alone, which may be blind for a difference, is no judge of kinds.
    judges = offered if is_whole else list(range(len(data.names)))
    kinds = kinds_by(data.groups, data.place, data.unknown[:, judges])
    used = [d for d in offered if _auroc(data, kinds, d) >= _UPSIDE_DOWN] or offered
    known, unknown = (
        mean_rank(data.known[:, used], part[:, used])
        for part in (data.known, data.unknown)
    )
    columns = [
        (data.known[:, d], data.unknown[:, d], d) for d in range(len(data.names))
    ]
    columns.append((known, unknown, used[0]))
    n = data.n_known
    places = np.unique(np.linspace(0, n - 1, min(n, _MOST_LEVELS)).round().astype(int))
    share, ccr, urr, accuracy = [], [], [], []
    for of_known, of_unknown, namer in columns:
        ordered = np.sort(of_known)
        values = np.append(ordered[places], np.inf)
        share.append(1 - np.searchsorted(ordered, values) / n)
        is_right = data.labels == data.predicted[:, namer]
        right = np.sort(of_known[is_right])
        ccr.append((right.size - np.searchsorted(right, values)) / n)
        urr.append(kinds.pooled(_below(data.place, of_unknown, values)))
        accuracy.append(right.size / n)
    return Candidates(
        names=(*data.names, CONSENSUS),
        members=tuple(used),
        is_simple=np.array([name in simple for name in (*detectors, CONSENSUS)]),
        kinds=kinds,
        share=np.array(share),
        ccr=np.array(ccr),
        urr=np.array(urr),
        accuracy=np.array(accuracy),
        n_known=n,
        alpha=data.alpha,
    )


def kinds_by(
    names: Sequence[str], place: NDArray[np.intp], scores: NDArray[np.float64]
) -> Kinds:
    """Join groups whose scores differ by no column, compared at up to 1024 points."""
    curves = []
    for column in scores.T:
        pooled = np.sort(column)
        places = np.linspace(0, pooled.size - 1, min(pooled.size, _POINTS)).astype(int)
        curves.append(_below(place, column, pooled[places]))
    return kinds_among(names, place, scores, curves)


def _below(
    place: NDArray[np.intp], unknown: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of each group below each value, shape (g, m)."""
    order = np.argsort(place, kind="stable")
    parts = np.split(unknown[order], np.cumsum(np.bincount(place))[:-1])
    return np.stack([np.searchsorted(np.sort(x), values) / x.size for x in parts])


def _auroc(data: Data, kinds: Kinds, d: int) -> float:
    """Mean over kinds of the AUROC of one detector."""
    known = np.sort(data.known[:, d])
    unknown = data.unknown[:, d]
    sides = [np.searchsorted(known, unknown, side=side) for side in ("left", "right")]
    above = 1 - (sides[0] + sides[1]) / (2 * known.size)  # knowns above each unknown
    of_group = np.bincount(data.place, weights=above) / np.bincount(data.place)
    return float(kinds.pooled(of_group).mean())


@dataclass(frozen=True, eq=False)
class RobustRanking:
    """What the rule chose: a row per candidate, the chosen one first; rows by kind."""

    name: str
    ranking: tuple[dict[str, Any], ...]
    cells: tuple[dict[str, Any], ...]


def decide(made: Candidates) -> RobustRanking:
    """Return the consensus, or a single detector that is clearly better.

    The gain over the consensus is measured on each kind with the threshold chosen
    without that kind. MSP and MaxLogit must gain on average, other detectors more than
    two points on every kind; of those that do, the one with the largest mean gain is
    chosen. With one kind the consensus is taken: one kind would be fitted, and says
    nothing about others.
    """
    k = len(made.kinds)
    rows = np.arange(len(made.names))
    left_out = np.empty((rows.size, k))
    for kind in range(k):
        others = [j for j in range(k) if j != kind] or [kind]
        left_out[:, kind] = made.osa()[rows, kind, made.levels(others)]
    gain = left_out - left_out[made.consensus]
    value = gain.mean(axis=1)
    best = made.consensus
    if k > 1:
        is_able = made.is_simple | (gain > _LEAST_GAIN).all(axis=1)
        # Sums of shares round: no gain.
        able = np.where(is_able, np.round(value, 12), 0.0)
        best = int(able.argmax()) if able.max() > 0 else best
    level = made.levels(range(k))
    table = []
    for d in sorted(rows.tolist(), key=lambda d: (d != best, -value[d])):
        at = level[d]
        expected = new_kind(
            float(made.ccr[d, at]),
            made.n_known,
            made.kinds.n,
            made.urr[d, :, at],
            made.alpha,
        )
        worst = int(left_out[d].argmin())
        table.append(
            {
                "detector": made.names[d],
                "objective": made.objectives[d],
                "mean": float(left_out[d].mean()),
                "worst": float(left_out[d, worst]),
                "worst_group": _joined(made.kinds.names[worst]),
                "new_kind": expected.value,
                **_ends(expected.interval),
                "value": float(value[d]),
            }
        )
    cells = tuple(
        {
            "detector": made.names[d],
            "objective": made.objectives[d],
            "group": _joined(names),
            "n": int(n),
            "oosa": float(left_out[d, kind]),
        }
        for d in rows.tolist()
        for kind, (names, n) in enumerate(
            zip(made.kinds.names, made.kinds.n, strict=True)
        )
    )
    return RobustRanking(made.names[best], tuple(table), cells)


def _ends(span: Interval | None) -> dict[str, float]:
    return {} if span is None else {"low": span.low, "high": span.high}


def _joined(names: Sequence[str]) -> str:
    return " + ".join(names)
