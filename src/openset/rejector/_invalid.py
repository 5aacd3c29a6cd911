"""Samples without an answer: left out, and answered with unknown."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openset._types import InvalidSamplesError
from openset.outputs import Outputs, need_kind, replaced
from openset.rejector._decisions import Decisions

Invalid = Literal["error", "reject"]
"""What a rejector does with invalid samples."""


def marked(caller: str, outputs: Outputs) -> tuple[Outputs, NDArray[np.bool_]]:
    """Return outputs that are not refused, and a mask of their invalid samples.

    Who calls it leaves these out.
    """
    need_kind(caller, "outputs", outputs)
    return replaced(outputs, invalid="error"), outputs.is_invalid.copy()


def decide_on_valid(
    decide: Callable[[NDArray[np.int64] | None], Decisions],
    is_invalid: NDArray[np.bool_],
    n_classes: int | None,
) -> Decisions:
    """Decide without the invalid samples, and put these between the others.

    `decide` gets the numbers of the samples to decide on, None for all. What it raises
    `InvalidSamplesError` for is invalid, too: it is called again without these.
    """
    while not is_invalid.all():
        rows = np.flatnonzero(~is_invalid) if is_invalid.any() else None
        try:
            return decide(rows).among(~is_invalid)
        except InvalidSamplesError as error:
            if is_invalid[list(error.rows)].all():  # it would raise for ever
                raise
            is_invalid[list(error.rows)] = True
    return Decisions.none(n_classes).among(~is_invalid)
