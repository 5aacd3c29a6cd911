"""Candidates evaluated on a kind of unknowns that was left out of the calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import Interval
from openset.selection._candidates import Data, worth
from openset.thresholds import choose_by
from openset.thresholds.intervals import CONFIDENCE, of_sum
from openset.thresholds.prices import Prices


@dataclass(frozen=True, eq=False)
class Turns:
    """Which unknowns are left out in which turn, and the folds of the known samples."""

    names: tuple[str, ...]
    place: NDArray[np.intp]
    fold: NDArray[np.intp]
    folds: int
    by_groups: bool


def turns_of(caller: str, data: Data, folds: int, rng: np.random.Generator) -> Turns:
    if _check.positive_int(caller, "folds", folds) < 2 or folds > data.n_known:
        rule = f"from 2 to {data.n_known}, the number of known samples"
        raise ValueError(_check.must(rule, caller=caller, name="folds", got=folds))
    fold = rng.permutation(data.n_known) % folds
    if len(data.groups) > 1:
        return Turns(data.groups, data.place, fold, folds, by_groups=True)
    if data.n_unknown < folds:
        rule = f"at least {folds} samples, or two groups"
        got = f"{data.n_unknown} of one group"
        raise ValueError(_check.must(rule, caller=caller, name="surrogate", got=got))
    place = rng.permutation(data.n_unknown) % folds
    names = tuple(f"part {i + 1}" for i in range(folds))
    return Turns(names, place, fold, folds, by_groups=False)


@dataclass(frozen=True, eq=False)
class Trial:
    """The decisions of one candidate on one kind left out, for every sample.

    A known sample is in one fold. An unknown sample is decided about in every fold; its
    entry is the mean over the folds.
    """

    detector: str
    objective: str
    group: str
    hits: NDArray[np.float64]  # knowns: 1 if accepted with the right class
    rejected: NDArray[np.float64]  # unknowns: share of folds in which it is rejected
    cost_known: NDArray[np.float64]
    cost_unknown: NDArray[np.float64]

    def cell(self, alpha: float, *, is_cost: bool) -> dict[str, Any]:
        """Return the row of this kind."""
        interval = _interval_of_osa([self], alpha)
        row: dict[str, Any] = {
            "detector": self.detector,
            "objective": self.objective,
            "group": self.group,
            "n": self.rejected.size,
            "ccr": float(self.hits.mean()),
            "urr": float(self.rejected.mean()),
            "oosa": _osa([self], alpha),
            "low": interval.low,
            "high": interval.high,
        }
        if is_cost:
            row["cost"] = _cost([self], alpha)
        return row


def trials_of(
    data: Data,
    turns: Turns,
    candidate: str,
    *,
    objectives: Sequence[str],
    options: Mapping[str, Any] | None,
    prices: Prices | None,
) -> list[Trial]:
    """Evaluate one candidate with every objective on every group left out."""
    caller = "selection.choose"
    trials: list[Trial] = []
    for g, name in enumerate(turns.names):
        out = np.flatnonzero(turns.place == g)
        rest = np.flatnonzero(turns.place != g)
        tried = {
            objective: Trial(
                candidate,
                objective,
                name,
                *(np.zeros(n) for n in (data.n_known, out.size) * 2),
            )
            for objective in objectives
        }
        for k in range(turns.folds):
            kept = np.flatnonzero(turns.fold != k)
            held = np.flatnonzero(turns.fold == k)
            columns = data.columns(candidate, kept, rest)
            calibration = data.scores(columns, kept, rest)
            test = data.scores(columns, held, out)
            for objective, trial in tried.items():
                threshold = choose_by(
                    objective,
                    calibration,
                    caller=caller,
                    alpha=data.alpha,
                    options=options,
                )
                accepted = threshold.accepts(test)
                trial.hits[held] = (accepted & test.is_correct)[: held.size]
                trial.rejected[:] += ~accepted[held.size :] / turns.folds
                if prices is not None:
                    costs = np.where(accepted, *prices.of_samples(caller, test))
                    trial.cost_known[held] = costs[: held.size]
                    trial.cost_unknown[:] += costs[held.size :] / turns.folds
        trials += tried.values()
    return trials


def ranked(
    trials: list[Trial], data: Data, prices: Prices | None
) -> list[dict[str, Any]]:
    """Return a row per candidate and objective, the best value first."""
    alpha = data.alpha
    if prices is None:
        mean, interval, unit = _osa, _interval_of_osa, 1.0
    else:  # less is better
        mean, interval, unit = _cost, _interval_of_cost, -prices.worst(alpha)
    by_pair: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        by_pair.setdefault((trial.detector, trial.objective), []).append(trial)
    rows = []
    for (detector, objective), mine in by_pair.items():
        found = [mean([one], alpha) for one in mine]
        worst = int(np.argmin(np.divide(found, unit)))
        whole, least = interval(mine, alpha), interval([mine[worst]], alpha)
        rows.append(
            {
                "detector": detector,
                "objective": objective,
                "mean": float(np.mean(found)),
                "mean_low": whole.low,
                "mean_high": whole.high,
                "worst": found[worst],
                "worst_low": least.low,
                "worst_high": least.high,
                "worst_group": mine[worst].group,
                "value": worth(np.divide(found, unit), data.by),
            }
        )
    return sorted(rows, key=lambda row: -row["value"])  # stable: first listed wins


def _osa(trials: list[Trial], alpha: float) -> float:
    known = np.mean([one.hits.mean() for one in trials])
    unknown = np.mean([one.rejected.mean() for one in trials])
    return float(alpha * known + (1 - alpha) * unknown)


def _cost(trials: list[Trial], alpha: float) -> float:
    known = np.mean([one.cost_known.mean() for one in trials])
    unknown = np.mean([one.cost_unknown.mean() for one in trials])
    return float(alpha * known + (1 - alpha) * unknown)


def _interval_of_osa(trials: list[Trial], alpha: float) -> Interval:
    """Interval of the mean over groups; all groups share one set of known samples."""
    n, share = trials[0].hits.size, (1 - alpha) / len(trials)
    ccr = np.mean([one.hits.mean() for one in trials])
    return of_sum(
        [
            (alpha, round(ccr * n), n),
            *((share, round(one.rejected.sum()), one.rejected.size) for one in trials),
        ]
    )


def _interval_of_cost(trials: list[Trial], alpha: float) -> Interval:
    """Return the normal interval: costs are not shares, and samples are many."""
    known = np.mean([one.cost_known for one in trials], axis=0)
    share = (1 - alpha) / len(trials)
    parts = [(alpha, known), *((share, one.cost_unknown) for one in trials)]
    variance = sum(weight**2 * x.var() / x.size for weight, x in parts)
    mean, half = _cost(trials, alpha), NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    half *= float(np.sqrt(variance))
    return Interval(mean - half, mean + half, CONFIDENCE, "normal")
