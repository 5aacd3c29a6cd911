"""Shared by all tests."""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def xp(request):
    """One after the other, the array libraries detectors promise to run on."""
    return pytest.importorskip(request.param, reason="an optional array library")


@pytest.fixture(scope="session")
def import_torchvision():
    """Let torchvision be imported, by us or by others: see :mod:`tests.vision`."""
    pytest.importorskip("torch", reason="torchvision is for it")
    from tests.vision import declare_operators  # noqa: PLC0415  # imports torch

    declare_operators()


@pytest.fixture(scope="session")
def pytorch_ood(import_torchvision):
    """Detectors of pytorch-ood, a foreign oracle. Its scores are *lower* for knowns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its own imports
        return pytest.importorskip(
            "pytorch_ood.detector", reason="a foreign oracle", exc_type=ImportError
        )


@pytest.fixture
def rng():
    """Give every test its own, repeatable random numbers."""
    return np.random.default_rng(20240527)
