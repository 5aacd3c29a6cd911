"""Shared by all tests."""

import importlib.util
import os
import warnings
from pathlib import Path

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


def _declare_operators():
    """Let torchvision be imported where its compiled part does not fit torch.

    pytorch-ood imports it for its data sets. Beside a CPU build of torch that import
    fails for want of two operators which nothing here calls; where the compiled part
    does load, it brings them, and must not meet them declared.
    """
    found = importlib.util.find_spec("torchvision")
    if found is None or not found.submodule_search_locations:
        return None
    try:
        torch.ops.load_library(Path(found.submodule_search_locations[0]) / "_C.so")
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        return library
    return None


_library = _declare_operators()  # kept: with it the declarations would go


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
