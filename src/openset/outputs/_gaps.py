"""Samples that could not be read: rows of NaN among those of the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class WithGaps:
    """A batch without the samples that could not be read.

    Attributes
    ----------
    batch
        Inputs of those that were read, or of one in place of none; labels and ids of
        all samples.
    is_read
        Which samples were read.
    """

    batch: Any
    is_read: NDArray[np.bool_]

    def filled(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return outputs of the batch with NaN for the samples that were not read."""
        return {name: self._filled(rows) for name, rows in arrays.items()}

    def _filled(self, rows: NDArray[Any]) -> NDArray[Any]:
        made = np.full((self.is_read.size, *rows.shape[1:]), np.nan, rows.dtype)
        made[self.is_read] = rows[: self.is_read.sum()]
        return made
