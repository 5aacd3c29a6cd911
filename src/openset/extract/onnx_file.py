"""Networks in ONNX files: found are the logits, the features, and the last layer."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check
from openset._optional import needs, optional
from openset._types import ArtefactError
from openset.extract.loop import Arrays, gather
from openset.extract.network import Batches, Network, pixels
from openset.outputs import Outputs

with needs("onnx"):
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, NodeProto, helper, numpy_helper

_CALLER = "ONNX file"
# Operators that do not change the numbers of the last layer's output.
_SAME = ("Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Dropout")
_PROBABILITIES = ("Softmax", "LogSoftmax", "Sigmoid")
_TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}


def read(path: str | Path) -> ModelProto:
    """Read an ONNX file."""
    try:
        model = onnx.load(Path(path))
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError) as error:
        msg = f"{_CALLER}: {path} is damaged or not an ONNX model ({error})"
        raise ArtefactError(msg) from error
    return model


def logits_of(model: ModelProto, name: str | None = None) -> str:
    """Return the name of the tensor with the logits: the output, or that of `name`."""
    outputs, makers = [output.name for output in model.graph.output], _makers(model)
    found = name or ("logits" if len(outputs) > 1 else outputs[0])
    if found not in (makers if name else outputs):
        rule = f"the name of one of its tensors ({', '.join(outputs[-12:])})"
        _check.fail(_CALLER, "logits", rule, repr(name))
    node = None if name else _before_same(found, makers)
    if node is not None and node.op_type in _PROBABILITIES:
        got = f"{found!r}, the {node.op_type} of {node.input[0]!r}"
        remedy = "Name the tensor the rejector was calibrated on: logits=..."
        _check.fail(_CALLER, "logits", "the output of the last layer", got, remedy)
    return found


def head_of(
    model: ModelProto, logits: str, features: str | None = None
) -> tuple[str, Arrays]:
    """Return the name of the features, and weight and bias if the file has them.

    The features are the input of the last linear layer, if they are not named.
    """
    makers, values = _makers(model), {one.name: one for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            values[node.output[0]] = node.attribute[0].t
    last, added = _before_same(logits, makers), []
    if last is not None and last.op_type == "Add":  # the bias on either side
        added = [name for name in last.input if name in values]
        before = [name for name in last.input if name not in values]
        last = _before_same(before[0], makers) if len(before) == 1 else None
    is_linear = last is not None and last.op_type in ("Gemm", "MatMul")
    if not (is_linear or features):
        rule, remedy = "the input of its last linear layer", "Name it: features=..."
        _check.fail(_CALLER, "features", rule, f"none found before {logits!r}", remedy)
    if last is None or not is_linear:
        return str(features), {}
    constants = [*last.input[1:], *added]
    features = features or str(last.input[0])
    if not values.keys() >= {*constants}:
        return features, {}
    weight, *biases = (numpy_helper.to_array(values[name]) for name in constants)
    options = {a.name: helper.get_attribute_value(a) for a in last.attribute}
    number = weight.dtype.type
    weight = weight * number(options.get("alpha", 1))
    weight = weight if options.get("transB") else weight.T
    if len(last.input) == 3:
        biases[0] = biases[0] * number(options.get("beta", 1))
    bias = sum((one.ravel() for one in biases), np.zeros(len(weight), weight.dtype))
    return features, {"weight": weight.copy(), "bias": bias}


def _makers(model: ModelProto) -> dict[str, NodeProto]:
    return {name: node for node in model.graph.node for name in node.output}


def _before_same(name: str, makers: Mapping[str, NodeProto]) -> NodeProto | None:
    node = makers.get(name)
    while node is not None and node.op_type in _SAME:
        node = makers.get(node.input[0])
    return node


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxNetwork(Network):
    """A session of onnxruntime that gives logits and features, on the CPU."""

    weights: Arrays = field(default_factory=dict)

    def outputs(self, batches: Batches, *, device: Any, **how: Any) -> Outputs:
        """Run the session."""
        del device
        if changes := how["step"] or how.pop("layers", ()):
            rule = "left out for an ONNX file, which has no gradients and no layers"
            remedy = "Load the network in PyTorch"
            _check.fail("Network.apply", "step, layers", rule, changes, remedy)
        (named,) = self.model.get_inputs()

        def forward(inputs: Any) -> Arrays:
            logits, features = self.model.run(None, {named.name: inputs})
            made = {} if self.embeds else {"logits": logits}
            return made | {"features": features.reshape(len(features), -1)}

        rows, head = batches.of(64), {} if self.embeds else self.weights
        return gather(forward, rows, total=len(rows), head=head, **how)

    def traced(self) -> tuple[Any, Any]:
        """Return the file."""
        return self.name, None


def of_onnx(
    path: str | Path,
    *,
    side: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Network:
    """Open a file; features are the output of that name, or the input of the head."""
    runtime = optional("onnxruntime", "onnx")
    model = read(path)
    logits = logits_of(model)
    is_named = any(one.name == "features" for one in model.graph.output)
    features, weights = head_of(model, logits, "features" if is_named else None)
    del model.graph.output[:]
    for name in (logits, features):
        model.graph.output.append(helper.make_empty_tensor_value_info(name))
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors; it would warn of an unused input
    # onnxruntime has its own threads; 0 means one per core.
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    first, *others = session.get_inputs()
    shape, dtype = first.shape, _TYPES.get(first.type, "")
    if others or len(shape) not in (2, 4) or not dtype:
        kinds = " or ".join(_TYPES.values())
        rule = f"one with one input (n, 3, h, w), (n, 1, h, w) or (n, d), of {kinds}"
        got = ", ".join(f"{i.name} {i.shape} of {i.type}" for i in (first, *others))
        _check.fail(_CALLER, str(path), rule, got, error=ArtefactError)
    about: dict[str, Any] = {"name": str(path), "model": session, "weights": weights}
    if len(shape) == 2:
        about["transform"] = lambda rows: np.asarray(rows, dtype)
        return OnnxNetwork(kind="table", **about)
    side = shape[-1] if side is None and isinstance(shape[-1], int) else side
    n_channels = shape[1] if isinstance(shape[1], int) else 3
    return OnnxNetwork(**about, **pixels(n_channels, side, mean, std, dtype))
