"""Import torchvision where its compiled part does not fit torch.

Beside a CPU build of torch the usual wheel of torchvision lacks two operators, and its
import fails. Nothing here calls them, but torchvision, timm, torchmetrics and
pytorch-ood are wanted as oracles and neighbours. Only tests that ask for it
(`import_torchvision`) declare the operators, in their own process: what a user meets
there is tested in processes without (`tests/unit/integrations/test_imports.py`).
"""

import functools
import importlib.util
from pathlib import Path

import torch


@functools.cache  # kept: with the library the declarations would go
def declare_operators():
    """Declare what torchvision's own library would, if that cannot be loaded."""
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
