"""Collect scores that arrive in batches, from one loop or from many machines."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from openset import _check
from openset.metrics.evaluation import Evaluation, evaluate
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

    def __repr__(self) -> str:
        return f"Accumulator(n={len(self)})"

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def update(self, scores: Scores, *, ids: ArrayLike | None = None) -> None:
        """Add samples.

        With `ids` (integers or strings), a sample that arrives twice counts once, as
        when a distributed sampler pads its last batch. Give ids in every call or in
        none: ``ids=scores.ids`` if the scores have some. Without, every sample counts,
        also one whose scores have the same id as another.
        """
        need_scores("Accumulator.update", scores)
        if self._parts and (ids is None) != (self._parts[0].ids is None):
            msg = "Accumulator.update: ids must be given always or never, got a mix"
            raise ValueError(msg)
        if ids is not None:
            ids = _check.names("Accumulator.update", "ids", ids)
            sizes = {"scores": len(scores), "ids": ids.size}
            _check.same_length("Accumulator.update", sizes)
        # A copy: the caller may reuse the arrays.
        self._parts.append(Scores.concat([replace(scores, ids=ids)]))

    def merge(self, *others: Self) -> None:
        """Add what other accumulators have collected."""
        for other in others:
            for part in tuple(other._parts):  # others may include self
                self.update(part, ids=part.ids)

    def scores(self) -> Scores:
        """Return all samples collected so far as one set, e.g. to save or send it."""
        if not self._parts:
            msg = "Accumulator: nothing to compute; call update first"
            raise ValueError(msg)
        everything = Scores.concat(self._parts)
        if everything.ids is None:
            return everything
        ids = everything.ids
        _, first, copy_of = np.unique(ids, return_index=True, return_inverse=True)
        again, kept = everything.take(first[copy_of]), everything.take(first)
        columns: tuple[Any, ...] = ("labels", "predicted", "known")
        for name in columns:
            differ = getattr(again, name) != getattr(everything, name)
            if differ.any():
                msg = (
                    f"Accumulator: samples with one id must be equal, got different "
                    f"labels or scores for id {ids[differ][0]}. Use ids that are unique"
                )
                raise ValueError(msg)
        return kept

    def compute(
        self, threshold: float | None = None, level: float = 0.95
    ) -> Evaluation:
        """Evaluate everything collected so far."""
        return evaluate(self.scores(), threshold, level)
