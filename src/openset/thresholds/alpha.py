"""The weight of the known samples, and its default."""

from fractions import Fraction
from typing import Literal, TypeAlias

from openset.metrics.counts import ALPHA
from openset.metrics.counts import weight_of as weight_of_counts
from openset.scores import Scores

Alpha: TypeAlias = float | Literal["counts"] | None
"""A weight in [0, 1]; ``"counts"``: the share of known samples; None: the default."""


def weight_of(caller: str, alpha: Alpha, scores: Scores) -> Fraction:
    """Return the weight of the known samples as an exact fraction.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0] * 3, known=[3, 2, 1])
    >>> [str(weight_of("example", alpha, scores)) for alpha in (0.1, "counts", None)]
    ['1/10', '2/3', '1/2']
    """
    weight = ALPHA if alpha is None else alpha
    return weight_of_counts(caller, weight, scores.n_known, scores.n_unknown)
