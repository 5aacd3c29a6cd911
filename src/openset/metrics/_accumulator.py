"""Collect scores that arrive in batches, from one loop or from many machines."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.metrics._evaluation import Evaluation, evaluate
from openset.scores import Scores, need_scores


class Accumulator:
    """Collect scores batch by batch or shard by shard, then evaluate them exactly.

    Nothing is approximated: the result equals one :func:`evaluate` on all samples, in
    whatever order they arrive. All scores are kept, in 24 bytes per sample (and 8 for
    its id); for constant memory see :class:`Sketch`.

    Examples
    --------
    >>> first, second = Accumulator(), Accumulator()
    >>> first.update(Scores(labels=[0, -1], predicted=[0, 0], known=[0.9, 0.3]))
    >>> second.update(Scores(labels=[0, -1], predicted=[0, 0], known=[0.2, 0.1]))
    >>> first.merge(second)
    >>> len(first), first.compute()["auroc"]
    (4, 0.75)
    """

    def __init__(self) -> None:
        self._parts: list[Scores] = []
        self._ids: list[NDArray[Any]] = []

    def __repr__(self) -> str:
        return f"Accumulator(n={len(self)})"

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def update(self, scores: Scores, *, ids: ArrayLike | None = None) -> None:
        """Add samples.

        With `ids` (integers or strings), a sample that arrives twice counts once, as
        when a distributed sampler pads its last batch. Give ids in every call or in
        none: ``ids=scores.ids`` if the scores have some. Without, every sample counts,
        also one whose scores have the same id as another.
        """
        need_scores("Accumulator.update", scores)
        if self._parts and (ids is not None) != bool(self._ids):
            msg = "Accumulator.update: ids must be given always or never, got a mix"
            raise ValueError(msg)
        if ids is not None:
            checked = _check.names("Accumulator.update", "ids", ids)
            _check.same_length(
                "Accumulator.update", {"scores": len(scores), "ids": checked.size}
            )
            self._ids.append(checked.copy())
        # Copies: the caller may reuse the arrays.
        self._parts.append(Scores.concat([scores]))

    def merge(self, *others: Self) -> None:
        """Add what other accumulators have collected."""
        for other in others:
            parts = tuple(other._parts)  # copied: others may include self
            none = (None,) * len(parts)
            for part, ids in zip(parts, tuple(other._ids) or none, strict=True):
                self.update(part, ids=ids)

    def scores(self) -> Scores:
        """Return all samples collected so far as one set, e.g. to save or send it.

        They have the ids that :meth:`update` was given.
        """
        if not self._parts:
            msg = "Accumulator: nothing to compute; call update first"
            raise ValueError(msg)
        everything = Scores.concat(self._parts)
        if not self._ids:
            return everything
        ids = _check.joined_names(self._ids)
        _, first, copy_of = np.unique(ids, return_index=True, return_inverse=True)
        kept = everything.take(first)
        again = kept.take(copy_of)
        same = (
            (again.labels == everything.labels)
            & (again.predicted == everything.predicted)
            & (again.known == everything.known)
        )
        if not same.all():
            clash = ids[np.flatnonzero(~same)[0]]
            msg = (
                f"Accumulator: samples with one id must be equal, got different labels "
                f"or scores for id {clash}. Use ids that are unique in the data set"
            )
            raise ValueError(msg)
        return replace(kept, ids=ids[first])

    def compute(
        self, threshold: float | None = None, level: float = 0.95
    ) -> Evaluation:
        """Evaluate everything collected so far."""
        return evaluate(self.scores(), threshold, level)
