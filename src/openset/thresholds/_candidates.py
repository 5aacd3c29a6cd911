"""What is chosen from: detectors by their scores, and combinations of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.detectors import Fitted, score_all
from openset.detectors.combined import knots_of, rank
from openset.outputs import Outputs
from openset.scores import Scores
from openset.thresholds._groups import group_of_unknowns

RANK, STACKING = "rank average", "stacking"
"""Names of the two combinations among the candidates."""


@dataclass(frozen=True, eq=False)
class Data:
    """Scores of all detectors on knowns and unknowns: one column each."""

    names: tuple[str, ...]
    known: NDArray[np.float64]  # (n_known, d)
    unknown: NDArray[np.float64]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]  # (n_known, d)
    predicted_unknown: NDArray[np.int64]
    groups: tuple[str, ...]
    place: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        caller: str,
        named: Mapping[str, Fitted],
        known: Outputs,
        surrogate: Outputs,
        batch_size: int | None,
    ) -> "Data":
        if known.labels is None or int(known.labels.min()) == UNKNOWN:
            msg = _check.must(
                "labelled samples of known classes",
                caller=caller,
                name="known",
                got="none or unknown ones",
            )
            raise ValueError(msg)
        if surrogate.labels is None:
            surrogate = surrogate._with(labels=np.full(len(surrogate), UNKNOWN))
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
        groups, place = group_of_unknowns(scored[1][0])
        return cls(
            names=tuple(named),
            known=np.column_stack([one.known for one in scored[0]]),
            unknown=np.column_stack([one.known for one in scored[1]]),
            labels=known.labels,
            predicted=np.column_stack([one.predicted for one in scored[0]]),
            predicted_unknown=np.column_stack([one.predicted for one in scored[1]]),
            groups=groups,
            place=place,
        )

    def joined_by(
        self, named: Mapping[str, Fitted], made: Outputs, batch_size: int | None
    ) -> "Data":
        """Add unknowns of one more kind."""
        scored = list(score_all(named, made, batch_size=batch_size).values())
        of_made = np.column_stack([one.known for one in scored])
        predicted = np.column_stack([one.predicted for one in scored])
        n, kind = len(made), str(made.groups[0])  # type: ignore[index]
        return replace(
            self,
            unknown=np.concatenate([self.unknown, of_made]),
            predicted_unknown=np.concatenate([self.predicted_unknown, predicted]),
            groups=(*self.groups, kind),
            place=np.concatenate([self.place, np.full(n, len(self.groups))]),
        )

    @property
    def n_known(self) -> int:
        return len(self.known)

    @property
    def n_unknown(self) -> int:
        return len(self.unknown)

    def combination(
        self, kind: str, known: NDArray[np.intp], unknown: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Knots and weights of a combination, from these rows only."""
        knots = np.stack(
            [
                knots_of(self.known[known, d], self.unknown[unknown, d])
                for d in range(len(self.names))
            ]
        )
        if kind == RANK:
            return knots, np.full(len(self.names), 1 / len(self.names))
        # A wrongly named known gains nothing by being accepted: it teaches nothing.
        right = known[self.labels[known] == self.predicted[known, 0]]
        ranks = np.concatenate(
            [_ranks(self.known[right], knots), _ranks(self.unknown[unknown], knots)]
        )
        is_known = np.repeat([1, 0], [right.size, unknown.size])
        # Knowns weigh as much as unknowns, and every kind of unknowns the same.
        of_group = self.place[unknown]
        kinds = np.unique(of_group).size
        each = 1 / (2 * kinds * np.bincount(of_group)[of_group])
        weight = np.concatenate([np.full(right.size, 0.5 / right.size), each])
        return knots, _stacked(ranks, is_known, weight * weight.size)

    def columns(
        self, candidate: str, known: NDArray[np.intp], unknown: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Scores of all samples, combinations learnt from these rows only."""
        if candidate in self.names:
            d = self.names.index(candidate)
            return self.known[:, d], self.unknown[:, d], d
        knots, weights = self.combination(candidate, known, unknown)
        of_known = _ranks(self.known, knots) @ weights
        return of_known, _ranks(self.unknown, knots) @ weights, 0

    def scores(
        self,
        columns: tuple[NDArray[np.float64], NDArray[np.float64], int],
        known: NDArray[np.intp],
        unknown: NDArray[np.intp],
    ) -> Scores:
        of_known, of_unknown, d = columns
        names = np.array(["", *self.groups])
        return Scores(
            labels=np.concatenate([self.labels[known], np.full(unknown.size, UNKNOWN)]),
            predicted=np.concatenate(
                [self.predicted[known, d], self.predicted_unknown[unknown, d]]
            ),
            known=np.concatenate([of_known[known], of_unknown[unknown]]),
            groups=names[
                np.concatenate([np.zeros(known.size, int), self.place[unknown] + 1])
            ],
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
    """Logistic weights, none negative: a detector turned upside down fits its noise."""
    # Half a second, for which a program that never chooses should not wait.
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
