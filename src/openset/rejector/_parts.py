"""What a rejector is made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset.detectors import Fitted
from openset.rejector._sets import SetRule
from openset.thresholds import Report, Threshold

Reference: TypeAlias = Mapping[str, NDArray[np.float64]]
Features: TypeAlias = NDArray[Any] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts:
    """The arguments of :class:`openset.Rejector`; arrays may be read later."""

    fitted: Fitted | Callable[[], Fitted]
    threshold: Threshold
    classes: tuple[str, ...]
    reference: Reference | Callable[[], Reference]
    report: Report
    features: Features | Callable[[], Features]
    sets: SetRule | None
    input_step: str
