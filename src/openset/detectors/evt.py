"""Extreme-value fits: generalised Pareto and Weibull, by maximum likelihood.

Public because they are useful on their own: PostMax uses :func:`fit_gpd`; OpenMax, EVM,
W-SVM and PI-SVM use :func:`fit_weibull` and its form for many rows at once.
"""

from openset.detectors._gpd import GPD, fit_gpd
from openset.detectors._weibull import (
    Weibull,
    WeibullRows,
    fit_weibull,
    fit_weibull_rows,
)

__all__ = [
    "GPD",
    "Weibull",
    "WeibullRows",
    "fit_gpd",
    "fit_weibull",
    "fit_weibull_rows",
]
