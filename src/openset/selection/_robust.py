"""A choice for unknowns of a missing kind: a consensus, unless sure of better.

The rule and its constants were settled on half of the networks of
``benchmarks/missing_kinds.py`` and shown on others; ``docs/operating.md`` has the
results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.metrics import Interval
from openset.selection._candidates import Data
from openset.selection._prior import MEMBERS, Prior, prior_of
from openset.selection._surrogate import mean_rank
from openset.thresholds.anchor import STRENGTH, anchored_share
from openset.thresholds.kinds import Kinds, kinds_among
from openset.thresholds.new_kind import new_kind

CONSENSUS = "consensus"
"""The mean rank, among the known samples, that a few different detectors give."""

_UPSIDE_DOWN = 0.5  # AUROC below which a member is left out of the consensus
_CAUTION = 0.5  # standard deviations a single detector must gain
_PRIOR_FREEDOM, _PRIOR_WEIGHT = 2.0, (0.3, 3.0)  # of the prior's spread and mean
_MOST_LEVELS = 200


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rates of every candidate at shares of the known samples, strictest last.

    Rows are the single detectors, then the consensus.
    """

    names: tuple[str, ...]
    members: tuple[int, ...]
    """Places of the detectors the consensus averages."""
    kinds: Kinds
    share: NDArray[np.float64]  # (m,) of the knowns accepted
    ccr: NDArray[np.float64]  # (d, m)
    urr: NDArray[np.float64]  # (d, k, m)
    accuracy: NDArray[np.float64]  # (d,)
    n_known: int
    alpha: float

    @property
    def objective(self) -> str:
        """How thresholds are chosen: one detector alone gains nothing by an anchor."""
        return "anchored" if len(self.members) > 1 else "osa"

    @property
    def consensus(self) -> int:
        """The place of the consensus."""
        return len(self.names) - 1

    def osa(self) -> NDArray[np.float64]:
        """Open-set accuracy of each candidate on each kind, shape (d, k, m)."""
        return self.alpha * self.ccr[:, None] + (1 - self.alpha) * self.urr

    def levels(self, chosen: Sequence[int]) -> NDArray[np.intp]:
        """Return the level of the anchored threshold on some of the kinds, for all."""
        osa = self.osa()[:, chosen].mean(axis=1)
        best = self.share[osa.argmax(axis=1)]
        strength = STRENGTH if self.objective == "anchored" else 0.0
        wanted = anchored_share(best, self.accuracy, len(chosen), strength=strength)
        return np.abs(self.share[None] - wanted[:, None]).argmin(axis=1)


def candidates_of(data: Data, detectors: Sequence[str]) -> Candidates:
    """Count for every detector, and for the consensus.

    `detectors` are what the columns of `data` are by their registered names.
    """
    offered = _offered(detectors)
    is_whole = detectors[offered[0]] in MEMBERS
    # One detector alone, which may be blind for a difference, is no judge of kinds.
    judges = offered if is_whole else list(range(len(data.names)))
    kinds = kinds_among(data.groups, data.place, data.unknown[:, judges])
    auroc = np.array([_auroc(data, kinds, d) for d in range(len(data.names))])
    members = [d for d in offered if auroc[d] >= _UPSIDE_DOWN] or offered
    known, unknown = (
        mean_rank(data.known[:, members], part[:, members])
        for part in (data.known, data.unknown)
    )
    columns = [
        (data.known[:, d], data.unknown[:, d], d) for d in range(len(data.names))
    ]
    columns.append((known, unknown, members[0]))
    n = data.n_known
    places = np.unique(np.linspace(0, n - 1, min(n, _MOST_LEVELS)).round().astype(int))
    ccr, urr, accuracy = [], [], []
    for of_known, of_unknown, namer in columns:
        values = np.append(np.sort(of_known)[places], np.inf)
        is_right = data.labels == data.predicted[:, namer]
        right = np.sort(of_known[is_right])
        ccr.append((right.size - np.searchsorted(right, values)) / n)
        urr.append(kinds.pooled(_below(data, of_unknown, values)))
        accuracy.append(right.size / n)
    return Candidates(
        names=(*data.names, CONSENSUS),
        members=tuple(members),
        kinds=kinds,
        share=1 - np.append(places, n) / n,
        ccr=np.array(ccr),
        urr=np.array(urr),
        accuracy=np.array(accuracy),
        n_known=n,
        alpha=data.alpha,
    )


def _offered(detectors: Sequence[str]) -> list[int]:
    """Return the places of the members, or of the best detector on other networks."""
    found = [detectors.index(name) for name in MEMBERS if name in detectors]
    if found:
        return found
    return [int(np.argmax([prior_of(name).mean for name in detectors]))]


def _below(
    data: Data, unknown: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of each group below each value, shape (g, m)."""
    order = np.argsort(data.place, kind="stable")
    parts = np.split(unknown[order], np.cumsum(np.bincount(data.place))[:-1])
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


def decide(made: Candidates, detectors: Sequence[str]) -> RobustRanking:
    """Take the consensus, or a single detector that gains on it for sure.

    A detector's gain over the consensus is measured on each kind with the threshold
    chosen without that kind, and pulled towards its gain on other networks. It is
    chosen if the expected gain on a new kind exceeds half its standard deviation. With
    one kind the consensus is taken: one kind would be fitted, and says nothing about
    others.
    """
    k = len(made.kinds)
    rows = np.arange(len(made.names))
    left_out = np.empty((rows.size, k))
    for kind in range(k):
        others = [j for j in range(k) if j != kind] or [kind]
        left_out[:, kind] = made.osa()[rows, kind, made.levels(others)]
    value = _sure_gain(left_out - left_out[made.consensus], _priors(made, detectors))
    value[made.consensus] = 0.0
    best = made.consensus if k < 2 else int(value.argmax())
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
                "objective": made.objective,
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
            "objective": made.objective,
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


def _priors(made: Candidates, detectors: Sequence[str]) -> list[Prior]:
    """Return what each candidate gains over the consensus, before any data are seen.

    If no member of the consensus is offered, another detector stands in for it, which
    gains as little over it as the others do.
    """
    first = detectors[made.members[0]]
    base = 0.0 if first in MEMBERS else prior_of(first).mean
    known = [prior_of(name) for name in detectors]
    return [
        *(one._replace(mean=one.mean - base) for one in known),
        Prior(0.0, 0.01, 0.01),  # the consensus gains nothing over itself
    ]


def _sure_gain(
    gain: NDArray[np.float64], priors: Sequence[Prior]
) -> NDArray[np.float64]:
    """Return the expected gain on a new kind, less half its standard deviation."""
    k = gain.shape[1]
    mean, within, between = np.array(priors).T
    weight = np.clip(within / np.maximum(between, 1e-4), *_PRIOR_WEIGHT)
    expected = (gain.sum(axis=1) + weight * mean) / (k + weight)
    spread = ((gain - gain.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    spread = (_PRIOR_FREEDOM * within + spread) / (_PRIOR_FREEDOM + k - 1)
    return expected - _CAUTION * np.sqrt(spread * (1 + 1 / (k + weight)))
