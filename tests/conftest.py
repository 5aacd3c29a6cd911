"""Shared by all tests."""

import os

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
