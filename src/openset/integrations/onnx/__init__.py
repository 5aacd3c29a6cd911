"""A rejector as an ONNX graph, alone or behind a network. Needs the extra `onnx`."""

from openset.integrations.onnx._export import OPSET, export, exportable

__all__ = ["OPSET", "export", "exportable"]
