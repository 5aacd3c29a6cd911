"""Integrations with scikit-learn, PyTorch, ONNX and torchmetrics.

Each module imports its own framework; nothing is imported here.
"""

from importlib import import_module
from types import ModuleType

_MODULES = ("onnx", "sklearn", "torch", "torch_sketch", "torchmetrics")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f"openset.integrations.{name}")
    msg = f"module 'openset.integrations' has no attribute {name!r}"
    raise AttributeError(msg)
