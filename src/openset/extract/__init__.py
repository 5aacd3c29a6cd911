"""Outputs of a trained network of any kind.

:func:`load` opens a network: a torch module, a model of timm or Hugging Face, an
ONNX file, or a folder that ``openset train`` wrote. :meth:`Network.apply`
gives its outputs for images or texts, :func:`run` for data by name, as ``openset
extract`` does. :func:`extract` takes a torch module and a loader of batches.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openset.extract.data import run
from openset.extract.linear_head import LinearHead
from openset.extract.load import load
from openset.extract.network import Network

if TYPE_CHECKING:
    from openset.extract.loader import extract
    from openset.extract.odin import Odin

__all__ = ["LinearHead", "Network", "Odin", "extract", "load", "run"]
_LATER = {"extract": "loader", "Odin": "odin"}


def __getattr__(name: str) -> Any:
    # Imported on first use: an ONNX file runs without torch.
    if name in _LATER:
        return getattr(import_module(f"openset.extract.{_LATER[name]}"), name)
    msg = f"module 'openset.extract' has no attribute {name!r}"
    raise AttributeError(msg)
