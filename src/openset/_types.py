"""Names used by every module: the array type, the unknown label, the errors."""

from typing import Any, Final, TypeAlias

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""

UNKNOWN: Final = -1
"""The label of a sample that belongs to none of the known classes."""


class UndefinedMetricError(ValueError):
    """The metric has no value on this data (no unknowns, no knowns, no spread)."""


class ArtefactError(ValueError):
    """A file is damaged, of another kind than asked for, or from a newer version."""


class CalibrationError(ValueError):
    """The threshold would reject or accept nearly everything."""


class TrainingWarning(UserWarning):
    """A training that does something other than its caller may expect."""


class CalibrationWarning(UserWarning):
    """A sign in the calibration data that a threshold may not hold."""


class MissingExtraError(ImportError):
    """An optional dependency is needed; the message names the extra to install."""
