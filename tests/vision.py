"""Networks of other libraries, built offline; torchvision where it does not fit torch.

Beside a CPU build of torch the usual wheel of torchvision lacks two operators, and its
import fails. Nothing here calls them, but torchvision, timm, torchmetrics and
pytorch-ood are wanted as oracles and neighbours. Only tests that ask for it
(`import_torchvision`) declare the operators, in their own process: what a user meets
there is tested in processes without (`tests/integrations/test_imports.py`).
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


def save_small_vit(folder):
    """Save an image classifier of Hugging Face with random weights; return it."""
    import pytest  # noqa: PLC0415  # a process that only declares operators needs it not

    transformers = pytest.importorskip("transformers", reason="a foreign library")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=32,
        patch_size=16, intermediate_size=32, num_labels=3,
        id2label={0: "ant", 1: "bee", 2: "cat"},
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    transformers.ViTImageProcessor(size=size).save_pretrained(folder)
    return model
