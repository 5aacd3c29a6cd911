"""The weight of the known samples in open-set accuracy, and its default."""

from fractions import Fraction
from typing import Literal, TypeAlias

from openset import _check

Alpha: TypeAlias = float | Literal["counts"]
"""Weight of the known samples in [0, 1]; ``"counts"``: their share in the data."""

ALPHA = 0.5
"""The default: known and unknown samples matter equally.

Not the share of known samples in the data: how many unknowns somebody collected says
nothing about operation.
"""


def weight_of(
    caller: str, alpha: Alpha | Fraction, n_known: int, n_unknown: int
) -> Fraction:
    """Return the weight of the known samples as an exact fraction.

    Examples
    --------
    >>> [str(weight_of("example", alpha, 2, 1)) for alpha in (0.1, "counts")]
    ['1/10', '2/3']
    """
    if isinstance(alpha, Fraction):  # exact already
        return alpha
    if alpha == "counts":
        return Fraction(n_known, n_known + n_unknown)
    if isinstance(alpha, str):  # a number was meant, or another word
        msg = _check.must(
            "a number in [0, 1] or 'counts'",
            caller=caller,
            name="alpha",
            got=repr(alpha),
        )
        raise ValueError(msg)  # noqa: TRY004 - a wrong word is a wrong value
    return _check.rate(caller, "alpha", alpha)
