"""Integrations with scikit-learn, PyTorch, ONNX, MLflow and training frameworks.

Each module imports its own framework; nothing is imported here.
"""

from importlib import import_module
from types import ModuleType

_MODULES = ("mlflow", "onnx", "sklearn", "torch", "torchmetrics", "transformers")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f"openset.integrations.{name}")
    msg = f"module 'openset.integrations' has no attribute {name!r}"
    raise AttributeError(msg)
