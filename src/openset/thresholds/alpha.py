"""The weight of the known samples, and its default."""

from fractions import Fraction
from typing import Literal, TypeAlias

from openset import _check
from openset.scores import Scores

ALPHA = 0.5
"""The default: known and unknown samples matter equally.

Not the share of known samples in the calibration data: how many surrogate unknowns
somebody collected says nothing about operation.
"""

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
    if alpha is None:
        return Fraction(ALPHA)
    if isinstance(alpha, str):
        if alpha != "counts":
            msg = _check.must(
                "a number in [0, 1] or 'counts'",
                caller=caller,
                name="alpha",
                got=repr(alpha),
            )
            raise ValueError(msg)
        return Fraction(scores.n_known, len(scores))
    return _check.rate(caller, "alpha", alpha)
