"""Rules for a missing kind of unknowns: detector, threshold, and what may be said.

Everything here is plain NumPy on scores, so that rules can be compared on thousands of
cases. Thresholds are places in the sorted scores of the known calibration samples: at
level `m`, the share `tpr[m]` of them is accepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp, norm, t

Floats = NDArray[np.float64]

MEMBERS = ("msp", "rmds", "vim", "osnn")
"""Detectors whose ranks among the knowns are averaged, as far as they are offered."""

DEFAULT = "consensus"
GUARD = 0.5
"""Members whose AUROC on the given kinds is lower on average are upside down, and out:
so is RMDS where training samples are fewer than features."""

ALPHA = 0.5

ANCHOR, ANCHOR_WEIGHT = 0.8, 0.5
"""Where thresholds start, as a share of the accuracy; it counts like half a kind."""

CAUTION, PRIOR_FREEDOM, PRIOR_WEIGHT = 0.5, 2.0, (0.3, 3.0)
"""A single detector must gain this many standard deviations over the consensus."""

SPREAD, SPREAD_FREEDOM, LEVEL = 0.6, 3.0, 0.9
"""Spread of the rejection rate between kinds (probit), known before any is seen."""

SAME, NEAR, DISAGREE, FEW = 0.01, 0.02, 0.05, 60
"""Level of the test for different kinds; regret on left-out classes and on any kind
that was given; samples of a side or a kind."""

MOST_LEVELS = 200


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of all detectors at every level; kinds are those of the network."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    n_known: int
    n_unknown: NDArray[np.int64]
    tpr: Floats  # (m,)
    ccr: Floats  # (d, m)
    urr: Floats  # (d, k, m), calibration samples
    near: Floats | None  # (d, m), left-out known classes at the same share of knowns
    auroc: Floats  # (d, k)
    differ: Floats  # (k, k), p-values
    test_ccr: Floats
    test_urr: Floats
    oracle: Floats  # (d, k)
    n_single: int
    """Detectors proper; after them come consensuses of the members of `subsets`."""
    subsets: tuple[tuple[str, ...], ...]


def rates(saved: Mapping[str, NDArray[Any]], offer: Sequence[str]) -> Rates:
    """Count at every level, for the detectors offered and their consensus."""
    names = [str(name) for name in saved["names"]]
    chosen = [names.index(name) for name in offer if name in names]
    members = [names.index(name) for name in MEMBERS if name in offer and name in names]
    subsets = [
        subset
        for size in range(len(members), 0, -1)
        for subset in combinations(members, size)
    ]
    kinds = tuple(part[4:] for part in saved if part.startswith("cal:"))
    parts = {
        part: np.nan_to_num(array[:, chosen], nan=-np.inf)
        for part, array in saved.items()
        if part.partition(":")[0] in {"known", "known_test", "cal", "test"}
    }
    right = {
        part: saved[f"{part}_correct"][
            :, [*chosen, *(subset[0] for subset in subsets)]
        ].astype(bool)
        for part in ("known", "known_test")
    }
    parts = {
        part: np.column_stack(
            [
                array,
                *(_consensus(saved["known"], saved[part], each) for each in subsets),
            ]
        )
        for part, array in parts.items()
    }
    has_near = bool(np.isfinite(saved["lco_known"][:, members]).any())
    near_known = near = None
    if has_near:
        near_known, near = (
            np.column_stack(
                [
                    np.nan_to_num(saved[part][:, chosen], nan=-np.inf),
                    *(
                        _consensus(saved["lco_known"], saved[part], each)
                        for each in subsets
                    ),
                ]
            )
            for part in ("lco_known", "lco")
        )
    n, n_detectors = len(parts["known"]), len(chosen) + len(subsets)
    places = np.linspace(0, n - 1, min(n, MOST_LEVELS)).round().astype(int)
    places = np.unique(places)
    shape = n_detectors, places.size + 1
    of_kind = n_detectors, len(kinds), places.size + 1
    ccr, test_ccr, of_near = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    urr, test_urr = np.zeros(of_kind), np.zeros(of_kind)
    oracle, auroc = np.zeros(of_kind[:2]), np.zeros(of_kind[:2])
    for d in range(n_detectors):
        known, tested = parts["known"][:, d], parts["known_test"][:, d]
        ordered = np.sort(known)
        values = np.append(ordered[places], np.inf)
        ccr[d] = _accepted(known[right["known"][:, d]], values) / n
        tested_right = tested[right["known_test"][:, d]]
        test_ccr[d] = _accepted(tested_right, values) / tested.size
        every = np.append(np.unique(tested), np.inf)
        best = _accepted(tested_right, every) / tested.size
        for k, kind in enumerate(kinds):
            shown, unseen = (parts[f"{part}:{kind}"][:, d] for part in ("cal", "test"))
            urr[d, k], test_urr[d, k] = _below(shown, values), _below(unseen, values)
            oracle[d, k] = np.max(ALPHA * best + (1 - ALPHA) * _below(unseen, every))
            ties = np.searchsorted(np.sort(shown), known, side="right") / shown.size
            auroc[d, k] = (_below(shown, known) + ties).mean() / 2
        if near is not None and near_known is not None:
            like = np.sort(near_known[:, d])
            at = (np.append(places, n) / n * like.size).astype(int)
            cuts = np.append(like[np.minimum(at[:-1], like.size - 1)], np.inf)
            of_near[d] = _below(near[:, d], cuts)
    return Rates(
        names=(*(names[d] for d in chosen), *[DEFAULT] * len(subsets)),
        kinds=kinds,
        n_known=n,
        n_unknown=np.array([len(parts[f"cal:{kind}"]) for kind in kinds]),
        tpr=1 - np.append(places, n) / n,
        ccr=ccr,
        urr=urr,
        near=of_near if has_near else None,
        auroc=auroc,
        differ=p_values([saved[f"cal:{kind}"][:, members] for kind in kinds]),
        test_ccr=test_ccr,
        test_urr=test_urr,
        oracle=oracle,
        n_single=len(chosen),
        subsets=tuple(tuple(names[d] for d in each) for each in subsets),
    )


def _consensus(known: Floats, scores: Floats, members: Sequence[int]) -> Floats:
    """Mean share of the knowns below a score, ties by half, over the members."""
    found = []
    for d in members:
        ordered = np.sort(np.nan_to_num(known[:, d], nan=-np.inf))
        x = np.nan_to_num(scores[:, d], nan=-np.inf)
        both = sum(np.searchsorted(ordered, x, side=side) for side in ("left", "right"))
        found.append(both / (2 * ordered.size))
    return np.mean(found, axis=0)


def _accepted(scores: Floats, values: Floats) -> NDArray[np.int64]:
    return scores.size - np.searchsorted(np.sort(scores), values)


def _below(scores: Floats, values: Floats) -> Floats:
    return np.searchsorted(np.sort(scores), values) / scores.size


def p_values(groups: Sequence[Floats]) -> Floats:
    """Kolmogorov-Smirnov p-values of pairs, Bonferroni over the columns."""
    found = np.ones((len(groups), len(groups)))
    for a, x in enumerate(groups):
        for b, y in enumerate(groups[:a]):
            # The limit is not to be trusted for a few samples.
            how = "exact" if len(x) * len(y) < 10_000 else "asymp"
            tests = [ks_2samp(*pair, method=how) for pair in zip(x.T, y.T, strict=True)]
            least = min(test.pvalue for test in tests)
            found[a, b] = found[b, a] = min(1.0, least * x.shape[1])
    return found


def merged(differ: Floats, groups: Sequence[int]) -> list[list[int]]:
    """Join groups that do not differ beyond noise, also by way of a third."""
    pairs = max(len(groups) * (len(groups) - 1) // 2, 1)
    label = {g: i for i, g in enumerate(groups)}
    for a in groups:
        for b in groups:
            if b < a and differ[a, b] >= SAME / pairs and label[a] != label[b]:
                old, new = label[a], label[b]
                label = {g: new if x == old else x for g, x in label.items()}
    return [[g for g in groups if label[g] == x] for x in dict.fromkeys(label.values())]


@dataclass(frozen=True, eq=False)
class Calibration:
    """What is known to a rule: the rates on the knowns and on some kinds."""

    rates: Rates
    urr: Floats  # (d, kinds, m)
    n: NDArray[np.int64]
    groups: list[list[int]]

    @classmethod
    def of(cls, rates: Rates, groups: Sequence[Sequence[int]]) -> "Calibration":
        """Pool the samples of each group of kinds."""
        lists = [list(group) for group in groups]
        sizes = [rates.n_unknown[group] for group in lists]
        urr = [
            np.einsum("k,dkm->dm", n / n.sum(), rates.urr[:, group])
            for n, group in zip(sizes, lists, strict=True)
        ]
        n = np.array([size.sum() for size in sizes])
        return cls(rates, np.stack(urr, axis=1), n, lists)

    @property
    def default(self) -> int:
        """The place of the consensus of the members that are not upside down."""
        rates, shown = self.rates, [g for group in self.groups for g in group]
        found = rates.auroc[:, shown].mean(axis=1)
        sane = tuple(
            name for name in rates.subsets[0] if found[rates.names.index(name)] >= GUARD
        )
        kept = sane if sane in rates.subsets else rates.subsets[0]
        return rates.n_single + rates.subsets.index(kept)

    @property
    def n_kinds(self) -> int:
        """Kinds that differ beyond noise."""
        return len(self.groups)


def osa_level(one: Calibration) -> NDArray[np.intp]:
    """Level of the best open-set accuracy, samples of all kinds pooled."""
    urr = np.einsum("k,dkm->dm", one.n / one.n.sum(), one.urr)
    return (ALPHA * one.rates.ccr + (1 - ALPHA) * urr).argmax(axis=1)


def worst_group_level(one: Calibration) -> NDArray[np.intp]:
    """Level of the least largest regret over kinds."""
    osa = ALPHA * one.rates.ccr[:, None] + (1 - ALPHA) * one.urr
    return (osa.max(axis=2, keepdims=True) - osa).max(axis=1).argmin(axis=1)


def anchored_level(
    one: Calibration, chosen: Sequence[int] | None = None
) -> NDArray[np.intp]:
    """Between a share of knowns and the best open-set accuracy, by number of kinds.

    On the probit scale of the share of knowns accepted, every kind has weight one, and
    the anchor has `ANCHOR_WEIGHT`.
    """
    rates = one.rates
    chosen = list(range(one.n_kinds)) if chosen is None else chosen
    osa = ALPHA * rates.ccr + (1 - ALPHA) * one.urr[:, chosen].mean(axis=1)
    best = norm.ppf(np.clip(rates.tpr[osa.argmax(axis=1)], 0.01, 0.99))
    start = norm.ppf(np.clip(ANCHOR * rates.ccr[:, 0], 0.01, 0.99))
    weight = len(chosen) + ANCHOR_WEIGHT
    share = norm.cdf((len(chosen) * best + ANCHOR_WEIGHT * start) / weight)
    return np.abs(rates.tpr[None] - share[:, None]).argmin(axis=1)


@dataclass(frozen=True)
class Prior:
    """What a detector gains over the consensus, on other networks."""

    mean: float
    between_kinds: float  # variance
    between_networks: float


def gains(one: Calibration) -> Floats:
    """Gain over the consensus on each kind, the threshold chosen without it."""
    rates, rows = one.rates, np.arange(len(one.rates.names))
    osa = np.zeros((rows.size, one.n_kinds))
    for k in range(one.n_kinds):
        others = [j for j in range(one.n_kinds) if j != k] or [k]
        level = anchored_level(one, others)
        osa[:, k] = ALPHA * rates.ccr[rows, level]
        osa[:, k] += (1 - ALPHA) * one.urr[rows, k, level]
    return osa - osa[one.default]


def robust(one: Calibration, priors: Mapping[str, Prior]) -> tuple[int, int]:
    """Take the consensus, or a single detector that surely gains on new kinds."""
    names, k = one.rates.names, one.n_kinds
    level, default = anchored_level(one), one.default
    if k < 2:  # one kind would be fitted, and says nothing about another
        return default, int(level[default])
    gain = gains(one)
    known = [priors.get(name, Prior(-1.0, 0.01, 0.01)) for name in names]
    mean = np.array([prior.mean for prior in known])
    within = np.array([prior.between_kinds for prior in known])
    between = np.array([prior.between_networks for prior in known])
    weight = np.clip(within / np.maximum(between, 1e-4), *PRIOR_WEIGHT)
    expected = (gain.sum(axis=1) + weight * mean) / (k + weight)
    spread = ((gain - gain.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    spread = (PRIOR_FREEDOM * within + spread) / (PRIOR_FREEDOM + k - 1)
    sure = expected - CAUTION * np.sqrt(spread * (1 + 1 / (k + weight)))
    sure[one.rates.n_single :] = -np.inf
    sure[default] = 0.0
    best = int(sure.argmax())
    return best, int(level[best])


def left_out_kinds(one: Calibration) -> tuple[int, int]:
    """Best mean and worst of the kinds left out, of two thresholds: no combination.

    This is what `selection.choose` did, but for its combinations.
    """
    rows, found = np.arange(len(one.rates.names)), []
    for level_of in (osa_level, worst_group_level):
        osa = np.zeros((rows.size, one.n_kinds))
        for k in range(one.n_kinds):
            rest = [g for j, g in enumerate(one.groups) if j != k] or one.groups
            level = level_of(Calibration.of(one.rates, rest))
            osa[:, k] = ALPHA * one.rates.ccr[rows, level]
            osa[:, k] += (1 - ALPHA) * one.urr[rows, k, level]
        value = (osa.mean(axis=1) + osa.min(axis=1)) / 2
        value[one.rates.n_single :] = -1
        best = int(value.argmax())
        found.append((value[best], best, int(level_of(one)[best])))
    return max(found, key=lambda one: one[0])[1:]


def fixed(one: Calibration, name: str) -> tuple[int, int]:
    """Take one detector always, where open-set accuracy was best in calibration."""
    d = one.default if name == DEFAULT else one.rates.names.index(name)
    return d, int(osa_level(one)[d])


@dataclass(frozen=True)
class Claim:
    """What is announced: expected open-set accuracy on a new kind, and codes."""

    middle: float
    low: float
    high: float
    codes: tuple[str, ...]
    facts: dict[str, float]


def claim(one: Calibration, d: int, level: int) -> Claim:
    """Predict the open-set accuracy on a kind that is not there, and say what is amiss.

    The rejection rate of kinds is taken as normal on the probit scale, its spread
    pooled from the kinds and from `SPREAD`, which counts as `SPREAD_FREEDOM` kinds.
    """
    rates, k = one.rates, one.n_kinds
    n = one.n[:, None]
    z = norm.ppf((one.urr[d] * n + 0.5) / (n + 1))[:, level]
    freedom = SPREAD_FREEDOM + k - 1
    variance = SPREAD_FREEDOM * SPREAD**2 + ((z - z.mean()) ** 2).sum()
    half = t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(variance / freedom * (1 + 1 / k))
    ccr = rates.ccr[d, level]
    ends = ALPHA * ccr + (1 - ALPHA) * norm.cdf(z.mean() + half * np.array([-1, 0, 1]))
    # The known side is a sample too, to calibrate and to test.
    noise = np.sqrt(1.5 * max(ccr * (1 - ccr), 0.01) / rates.n_known)
    noise *= ALPHA * norm.ppf((1 + LEVEL) / 2)
    low = max(ends[1] - np.hypot(ends[1] - ends[0], noise), 0.0)
    high = min(ends[1] + np.hypot(ends[2] - ends[1], noise), 1.0)
    osa = ALPHA * rates.ccr[d] + (1 - ALPHA) * one.urr[d]
    regret = float((osa.max(axis=1) - osa[:, level]).max())
    near = np.nan
    if rates.near is not None:
        of_near = ALPHA * rates.ccr[d] + (1 - ALPHA) * rates.near[d]
        near = float(of_near.max() - of_near[level])
    shown = [g for group in one.groups for g in group]
    n_least = int(min(one.n.min(), rates.n_known))
    codes = {
        "one kind": k < 2,
        "left-out classes": not near <= NEAR,  # also where there are none
        "kinds disagree": regret > DISAGREE,
        "few samples": n_least < FEW,
    }
    facts = {
        "kinds": k,
        "regret": regret,
        "near": near,
        "least auroc": float(rates.auroc[d, shown].min()),
        "width": float(high - low),
        "few": n_least,
    }
    return Claim(
        float(ends[1]),
        float(low),
        float(high),
        tuple(code for code, is_given in codes.items() if is_given),
        facts,
    )
