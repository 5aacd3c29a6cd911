"""Shared by all tests."""

import os
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# pytorch-ood imports torchvision for its data sets. Where torchvision's compiled part
# does not fit the CPU build of torch, its import fails for want of two operators that
# nothing here calls: declare them.
_library = torch.library.Library("torchvision", "DEF")
_library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def xp(request):
    """One after the other, the array libraries detectors promise to run on."""
    return pytest.importorskip(request.param, reason="an optional array library")


@pytest.fixture(scope="session")
def pytorch_ood():
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
