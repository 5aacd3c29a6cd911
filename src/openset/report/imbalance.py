"""Effect of class imbalance on a test set and its metrics: two figures of a paper.

Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
recognition evaluation", 2024, figures 1 and 2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _extras
from openset.protocols import openness, pairs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METRICS = ("f1", "accuracy", "balanced_accuracy")


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleCounts:
    """Numbers of known and unknown test samples, one entry per pair of class counts."""

    n_known: Ints
    n_unknown: Ints
    known: Floats
    unknown: Floats

    @property
    def openness(self) -> Floats:
        """Openness of each pair."""
        both = zip(self.n_known.tolist(), self.n_unknown.tolist(), strict=True)
        return np.array([openness(known, known + unknown) for known, unknown in both])

    @property
    def ratio(self) -> Floats:
        """Known samples per unknown sample."""
        return self.known / self.unknown

    def to_frame(self) -> Any:
        """Return a pandas table, one row per pair."""
        pd = _extras.optional("SampleCounts.to_frame", "pandas", name="tables")
        return pd.DataFrame(
            {
                "n_known": self.n_known,
                "n_unknown": self.n_unknown,
                "openness": self.openness,
                "known": self.known,
                "unknown": self.unknown,
                "ratio": self.ratio,
            }
        )


def sample_counts(
    counts: ArrayLike, outside: ArrayLike | None = None, *, min_known: int = 2
) -> SampleCounts:
    r"""Return the numbers of test samples for every pair of class counts (figure 1).

    With K known and U unknown classes drawn at random, their expected numbers are
    :math:`K \bar n` and :math:`U \bar n'`, with the mean class sizes of the sets they
    are drawn from.

    Parameters
    ----------
    counts
        Test samples of each class, e.g. ``dataset.part("test").counts``.
    outside
        The same for another data set from which unknown classes are drawn (outlier
        protocols). If omitted, both are drawn from `counts` (holdout protocols).
    min_known
        Fewest known classes.

    Examples
    --------
    >>> made = sample_counts([10, 10, 10])
    >>> made.n_known, made.n_unknown, made.known, made.unknown
    (array([2]), array([1]), array([20.]), array([10.]))

    Openness grows with the number of unknown classes, not of unknown samples: 2 of ten
    MNIST digits against 900 characters of Omniglot, 20 drawings each.

    >>> made = sample_counts([1000] * 10, [20] * 900)
    >>> extreme = (made.n_known == 2) & (made.n_unknown == 900)
    >>> made.openness[extreme].round(3), made.ratio[extreme].round(2)
    (array([0.933]), array([0.11]))
    """
    sizes = _sizes("counts", counts)
    others = sizes if outside is None else _sizes("outside", outside)
    table = np.array(
        pairs(
            sizes.size, None if outside is None else others.size, min_known=min_known
        ),
        dtype=np.int64,
    )
    n_known, n_unknown = table.T
    return SampleCounts(
        n_known=n_known,
        n_unknown=n_unknown,
        known=n_known * sizes.mean(),
        unknown=n_unknown * others.mean(),
    )


def _sizes(name: str, values: ArrayLike) -> Ints:
    array = np.asarray(values)
    _check.vector("sample_counts", name, array)
    if array.dtype.kind not in "iu" or array.min() < 1:
        got = f"dtype {array.dtype}, lowest {array.min()}"
        rule = "sample counts >= 1"
        msg = _check.must(rule, caller="sample_counts", name=name, got=got)
        raise ValueError(msg)
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomScores:
    """Metrics of random decisions: one row per configuration, one column per repeat.

    `is_informed`: whether the decisions use the proportions of the test set.
    """

    n_known: Ints
    n_unknown: Ints
    is_informed: NDArray[np.bool_]
    f1: Floats
    accuracy: Floats
    balanced_accuracy: Floats

    def histogram(self, metric: str, bins: int = 50) -> tuple[Ints, Floats]:
        """Return counts (configurations x bins) and the edges, over [0, 1].

        A value on an inner edge belongs to the bin on its right, as in
        ``numpy.histogram``.
        """
        _check.one_of("RandomScores.histogram", "metric", metric, METRICS)
        bins = _check.positive_int("RandomScores.histogram", "bins", bins)
        values: Floats = getattr(self, metric)
        edges = np.linspace(0, 1, bins + 1)
        place = np.searchsorted(edges, values, side="right") - 1
        place = np.minimum(place, bins - 1)  # 1.0 belongs to the last bin
        place += bins * np.arange(len(values))[:, None]
        counts = np.bincount(place.ravel(), minlength=bins * len(values))
        return counts.reshape(len(values), bins), edges

    def to_frame(self) -> Any:
        """Return a pandas table: mean, spread and middle 95 % per configuration."""
        pd = _extras.optional("RandomScores.to_frame", "pandas", name="tables")
        tables = []
        for metric in METRICS:
            values: Floats = getattr(self, metric)
            low, high = np.quantile(values, [0.025, 0.975], axis=1)
            tables.append(
                pd.DataFrame(
                    {
                        "n_known": self.n_known,
                        "n_unknown": self.n_unknown,
                        "is_informed": self.is_informed,
                        "metric": metric,
                        "mean": values.mean(axis=1),
                        "std": values.std(axis=1, ddof=1),
                        "low": low,
                        "high": high,
                    }
                )
            )
        return pd.concat(tables, ignore_index=True)


def random_scores(
    n_known: Iterable[int] = (2, 5, 10, 100, 1000),
    n_unknown: Iterable[int] = (2, 5, 10, 100, 1000),
    *,
    per_class: int = 10,
    repeats: int = 1000,
    rng: int | np.random.Generator = 0,
) -> RandomScores:
    r"""Compute metrics of random decisions under class imbalance (figure 2).

    Every sample is accepted with the same probability p: p = 1/2, and, for informed
    decisions, p = the share of known samples. The counts are binomial: :math:`TP \sim
    B(N_k, p)`, :math:`FP \sim B(N_u, p)`. Known is the positive class. The expected
    balanced accuracy is always 1/2; F1 and accuracy depend on the proportions.

    Parameters
    ----------
    n_known, n_unknown
        Class counts; every combination is a configuration.
    per_class
        Test samples of each class.
    repeats
        Number of random decisions per configuration.
    rng
        Seed or generator.

    Examples
    --------
    >>> made = random_scores([2, 1000], [2])
    >>> made.n_known, made.is_informed
    (array([   2, 1000,    2, 1000]), array([False, False,  True,  True]))
    >>> made.f1.mean(axis=1).round(1)
    array([0.5, 0.7, 0.5, 1. ])
    >>> made.balanced_accuracy.mean(axis=1).round(1)
    array([0.5, 0.5, 0.5, 0.5])
    """
    caller = "random_scores"
    known = [_check.positive_int(caller, "n_known", n) for n in n_known]
    unknown = [_check.positive_int(caller, "n_unknown", n) for n in n_unknown]
    if not known or not unknown:
        msg = f"{caller}: n_known and n_unknown must be non-empty, got none"
        raise ValueError(msg)
    per_class = _check.positive_int(caller, "per_class", per_class)
    repeats = _check.positive_int(caller, "repeats", repeats)
    cells = np.array(list(product(known, unknown)), dtype=np.int64)
    cells = np.concatenate([cells, cells])
    is_informed = np.arange(len(cells)) >= len(cells) // 2
    n_k, n_u = (per_class * cells.T)[:, :, None]
    accept = np.where(is_informed[:, None], n_k / (n_k + n_u), 0.5)
    generator = np.random.default_rng(rng)
    size = (len(cells), repeats)
    accepted_known = generator.binomial(n_k, accept, size)
    accepted_unknown = generator.binomial(n_u, accept, size)
    rejected_unknown = n_u - accepted_unknown
    return RandomScores(
        n_known=cells[:, 0],
        n_unknown=cells[:, 1],
        is_informed=is_informed,
        # 2 TP + FP + FN = TP + FP + N_k, which is never 0
        f1=2 * accepted_known / (accepted_known + accepted_unknown + n_k),
        accuracy=(accepted_known + rejected_unknown) / (n_k + n_u),
        balanced_accuracy=(accepted_known / n_k + rejected_unknown / n_u) / 2,
    )
