"""Rejectors that no calibration gives, for tests."""

from dataclasses import replace

from openset import Rejector


def altered(rejector, *, fitted=None, **changes):
    """Return the rejector with another detector, or another threshold."""
    return Rejector(
        rejector.fitted if fitted is None else fitted,
        replace(rejector.threshold, **changes),
        classes=rejector.classes,
        reference=rejector.reference,
        report=rejector.report,
        features=rejector.reference_features,
    )
