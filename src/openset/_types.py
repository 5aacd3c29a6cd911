"""Names used by every module: the array type, the unknown label, the errors."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""

UNKNOWN: Final = -1
"""The label of a sample that belongs to none of the known classes."""


class UndefinedMetricError(ValueError):
    """The metric is undefined on these data, for example without unknown samples."""


class ArtefactError(ValueError):
    """A file is damaged, of the wrong kind, or from a newer version."""


class InvalidSamplesError(ValueError):
    """Some samples have no answer: NaN, or a class that is not determined.

    `rows` are the numbers of these samples.
    """

    def __init__(self, message: str, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(map(int, rows))

    def __reduce__(self) -> Any:
        # Workers send errors to the main process.
        return type(self), (str(self), self.rows)


class CalibrationError(ValueError):
    """The threshold would reject or accept nearly everything."""


class TrainingWarning(UserWarning):
    """The training differs from what its caller may expect."""


class CalibrationWarning(UserWarning):
    """A sign in the calibration data that the threshold may not work on new data."""


class PairingWarning(UserWarning):
    """Scores that are compared row by row may have their samples in different rows."""


class MissingExtraError(ImportError):
    """An optional dependency is needed; the message names the extra to install."""
