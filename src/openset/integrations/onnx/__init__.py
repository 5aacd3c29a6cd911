"""Export rejectors as ONNX graphs, alone or with a network. Needs the extra `onnx`."""

from openset.integrations.onnx._export import OPSET, export, exportable
from openset.integrations.onnx._graph import Var
from openset.integrations.onnx._network import with_features
from openset.integrations.onnx._sample import Sample

__all__ = ["OPSET", "Sample", "Var", "export", "exportable", "with_features"]
