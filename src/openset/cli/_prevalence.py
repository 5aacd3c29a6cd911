"""The share of unknown samples in each window of `openset watch`."""

from collections.abc import Iterable

from rich.markup import escape

from openset._types import UndefinedMetricError
from openset.cli._console import OUT
from openset.rejector import Rejector
from openset.thresholds import Prevalence, prevalence
from openset.watch import Verdict


def prevalence_of(rejector: Rejector, verdict: Verdict) -> Prevalence | None:
    """Estimate the share of unknowns; None where the calibration allows no estimate."""
    rejected = round(verdict.unknown_rate.new * verdict.n)
    try:
        return prevalence(rejected, verdict.n, rejector.report.rates)
    except UndefinedMetricError:
        return None


def print_prevalence(names: Iterable[str], shares: Iterable[Prevalence | None]) -> None:
    """Print one line for each window that has an estimate."""
    for name, share in zip(names, shares, strict=True):
        if share is not None:
            OUT.print(f"{escape(name)}: {share}", highlight=False)
