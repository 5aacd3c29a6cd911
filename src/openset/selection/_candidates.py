"""The candidates: single detectors, and combinations of their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.detectors import Fitted, score_all
from openset.detectors.combined import knots_of, rank
from openset.outputs import Outputs
from openset.scores import Scores
from openset.thresholds.groups import by_group

Criterion = Literal["both", "mean", "worst"]

RANK, STACKING = "rank average", "stacking"
"""The two combinations: average of ranks, and logistic regression on ranks."""

ONE = "choosing one"
"""The single detector that looks best, chosen again in each turn.

The best of many candidates looks better than it is, because it was selected on the same
samples. Choosing again in each turn removes this bias: combinations are compared with
this row.
"""

AVERAGED = 3
"""How many detectors the rank average uses: the best ones, as bad ones harm it."""


def worth(values: Sequence[float] | NDArray[np.float64], by: Criterion) -> float:
    """Summarise the accuracies on several kinds of unknowns in one number."""
    mean, worst = float(np.mean(values)), float(np.min(values))
    return {"mean": mean, "worst": worst, "both": (mean + worst) / 2}[by]


@dataclass(frozen=True, eq=False)
class Mixture:
    """A weighted sum of ranks: which detectors, their rank tables and weights."""

    used: NDArray[np.intp]
    knots: NDArray[np.float64]
    weights: NDArray[np.float64]

    def scores(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Combine the scores of all detectors."""
        return _ranks(columns[:, self.used], self.knots) @ self.weights


@dataclass(frozen=True, eq=False)
class Data:
    """Scores of all detectors on known and unknown samples, one column per detector."""

    names: tuple[str, ...]
    known: NDArray[np.float64]  # (n_known, d)
    unknown: NDArray[np.float64]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]  # (n_known, d)
    predicted_unknown: NDArray[np.int64]
    groups: tuple[str, ...]
    place: NDArray[np.intp]
    alpha: float
    by: Criterion
    known_side: float
    """Weight of the known samples to compare detectors with: `alpha`, or from prices.
    """

    @classmethod
    def of(
        cls,
        caller: str,
        named: Mapping[str, Fitted],
        known: Outputs,
        surrogate: Outputs,
        batch_size: int | None,
        *,
        alpha: float,
        by: Criterion,
    ) -> "Data":
        if known.labels is None or int(known.labels.min()) == UNKNOWN:
            msg = _check.must(
                "labelled samples of known classes",
                caller=caller,
                name="known",
                got="samples without labels or of unknown classes",
            )
            raise ValueError(msg)
        if surrogate.labels is None:
            surrogate = surrogate.as_unknown()
        elif int(surrogate.labels.max()) != UNKNOWN:
            msg = _check.must(
                "unknown samples only",
                caller=caller,
                name="surrogate",
                got="samples of known classes among them",
            )
            raise ValueError(msg)
        scored = [
            list(score_all(named, part, batch_size=batch_size).values())
            for part in (known, surrogate)
        ]
        groups = scored[1][0].unknown_groups
        return cls(
            names=tuple(named),
            known=np.column_stack([one.known for one in scored[0]]),
            unknown=np.column_stack([one.known for one in scored[1]]),
            labels=known.labels,
            predicted=np.column_stack([one.predicted for one in scored[0]]),
            predicted_unknown=np.column_stack([one.predicted for one in scored[1]]),
            groups=groups.names,
            place=groups.index,
            alpha=alpha,
            by=by,
            known_side=alpha,
        )

    @property
    def has_ranks(self) -> bool:
        """Whether any detector can be part of a combination."""
        every = np.arange(self.n_known), np.arange(self.n_unknown)
        return self._rankable(*every).size > 0

    @property
    def n_known(self) -> int:
        return len(self.known)

    @property
    def n_unknown(self) -> int:
        return len(self.unknown)

    def combination(
        self, kind: str, known: NDArray[np.intp], unknown: NDArray[np.intp]
    ) -> Mixture:
        """Learn a combination from these samples only."""
        able = self._rankable(known, unknown)
        if kind == RANK:
            used = self.best(AVERAGED, known, unknown, among=able)
            weights = np.full(used.size, 1 / used.size)
            return Mixture(used, self._knots(used, known, unknown), weights)
        knots = self._knots(able, known, unknown)
        kept = np.arange(able.size)
        for _ in able:
            # The first detector kept gives the predicted class. A known sample that it
            # classifies wrongly gains nothing by being accepted: it is not learnt from.
            classifier = able[kept[0]]
            found = self._taught(able, knots, classifier, known, unknown)
            kept = np.flatnonzero(found)
            if able[kept[0]] == classifier:
                break
        return Mixture(able[kept], knots[kept], found[kept])

    def _taught(
        self,
        able: NDArray[np.intp],
        knots: NDArray[np.float64],
        classifier: int,
        known: NDArray[np.intp],
        unknown: NDArray[np.intp],
    ) -> NDArray[np.float64]:
        """Return the weights of stacking, given which detector names the class."""
        right = known[self.labels[known] == self.predicted[known, classifier]]
        if not right.size:
            return np.full(able.size, 1 / able.size)
        ranks = np.concatenate(
            [
                _ranks(self.known[np.ix_(right, able)], knots),
                _ranks(self.unknown[np.ix_(unknown, able)], knots),
            ]
        )
        is_known = np.repeat([1, 0], [right.size, unknown.size])
        # Knowns and unknowns have equal weight, and so have all kinds of unknowns.
        of_group = self.place[unknown]
        kinds = np.unique(of_group).size
        each = 1 / (2 * kinds * np.bincount(of_group)[of_group])
        weight = np.concatenate([np.full(right.size, 0.5 / right.size), each])
        return _stacked(ranks, is_known, weight * weight.size)

    def _rankable(
        self, known: NDArray[np.intp], unknown: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the detectors with finite scores on both sides, which have ranks."""
        is_able = np.isfinite(self.known[known]).any(axis=0)
        is_able &= np.isfinite(self.unknown[unknown]).any(axis=0)
        return np.flatnonzero(is_able)

    def best(
        self,
        n: int,
        known: NDArray[np.intp],
        unknown: NDArray[np.intp],
        among: NDArray[np.intp] | None = None,
    ) -> NDArray[np.intp]:
        """Return the detectors that best separate known samples from each kind."""
        if among is None:
            among = np.arange(len(self.names))
        found = []
        for d in among:
            columns = self.known[:, d], self.unknown[:, d], int(d)
            scores = self.scores(columns, known, unknown)
            table = by_group("selection.choose", scores, self.known_side)
            found.append(worth(table.osa.max(axis=1), self.by))
        best = among[np.argsort(-np.array(found), kind="stable")[:n]]
        return np.sort(best)  # the first listed gives the predicted class

    def _knots(
        self,
        used: NDArray[np.intp],
        known: NDArray[np.intp],
        unknown: NDArray[np.intp],
    ) -> NDArray[np.float64]:
        return np.stack(
            [knots_of(self.known[known, d], self.unknown[unknown, d]) for d in used]
        )

    def columns(
        self, candidate: str, known: NDArray[np.intp], unknown: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Scores of all samples; a combination is learnt from these samples only."""
        if candidate == ONE:
            candidate = self.names[self.best(1, known, unknown)[0]]
        if candidate in self.names:
            d = self.names.index(candidate)
            return self.known[:, d], self.unknown[:, d], d
        if not self._rankable(known, unknown).size:  # nothing to combine
            return self.columns(ONE, known, unknown)
        made = self.combination(candidate, known, unknown)
        return made.scores(self.known), made.scores(self.unknown), int(made.used[0])

    def scores(
        self,
        columns: tuple[NDArray[np.float64], NDArray[np.float64], int],
        known: NDArray[np.intp],
        unknown: NDArray[np.intp],
    ) -> Scores:
        of_known, of_unknown, d = columns
        names = np.array(["", *self.groups])
        is_of = np.concatenate([np.zeros(known.size, int), self.place[unknown] + 1])
        labels = [self.labels[known], np.full(unknown.size, UNKNOWN)]
        predicted = [self.predicted[known, d], self.predicted_unknown[unknown, d]]
        return Scores(
            labels=_check.frozen(np.concatenate(labels)),
            predicted=_check.frozen(np.concatenate(predicted)),
            known=_check.frozen(np.concatenate([of_known[known], of_unknown[unknown]])),
            groups=_check.frozen(names[is_of]),
        )


def _ranks(
    scores: NDArray[np.float64], knots: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.column_stack([rank(scores[:, d], knots[d]) for d in range(len(knots))])


def _stacked(
    ranks: NDArray[np.float64],
    is_known: NDArray[np.int64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the weights of a logistic regression, normalised to sum 1.

    Detectors with a negative weight are removed and the rest is fitted again: a
    detector used upside down fits noise.
    """
    # Takes half a second to import: only when it is needed.
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    used = np.arange(ranks.shape[1])
    weights = np.zeros(ranks.shape[1])
    while used.size:
        model = LogisticRegression(max_iter=1000)
        model.fit(ranks[:, used], is_known, sample_weight=weight)
        slopes = model.coef_[0]
        if (slopes > 0).all():
            weights[used] = slopes / slopes.sum()
            return weights
        used = used[slopes > 0]
    return np.full(ranks.shape[1], 1 / ranks.shape[1])
