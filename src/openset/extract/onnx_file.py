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
from openset.extract.gather import Arrays, gather
from openset.extract.linear_head import LinearHead
from openset.extract.network import Batches, Network, Pixels
from openset.outputs import Outputs

with needs("onnx"):
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, NodeProto, helper, numpy_helper

_CALLER = "extract.load"
# Operators that do not change the numbers of the last layer's output.
_SAME = ("Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Dropout")
_LINEAR = ("Gemm", "MatMul")
_PROBABILITIES = ("Softmax", "LogSoftmax", "Sigmoid")
_TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}
_DECISION = ("class", "knownness", "set")  # outputs that `openset export` adds


def read(path: str | Path, *, caller: str = _CALLER) -> ModelProto:
    """Read an ONNX file."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError) as error:
        msg = f"{caller}: {path} is damaged or not an ONNX model ({error})"
        raise ArtefactError(msg) from error
    return model


def logits_of(
    model: ModelProto, name: str | None = None, *, caller: str = _CALLER
) -> str:
    """Return the name of the tensor with the logits: the output, or that of `name`."""
    outputs = [output.name for output in model.graph.output]
    makers = _makers(model)
    if name is not None and name in makers:
        return name
    if name is not None or (len(outputs) != 1 and "logits" not in outputs):
        rule = f"the name of one of its tensors ({', '.join(outputs[-12:])})"
        _check.fail(caller, "logits", rule, repr(name))
    found = outputs[0] if len(outputs) == 1 else "logits"
    node = _before_same(found, makers)
    if node is not None and node.op_type in _PROBABILITIES:
        got = f"{found!r}, the {node.op_type} of {node.input[0]!r}"
        remedy = "Name the tensor the rejector was calibrated on: logits=..."
        _check.fail(caller, "logits", "the output of the last layer", got, remedy)
    return found


def input_of_head(model: ModelProto, logits: str, *, caller: str = _CALLER) -> str:
    """Return the input of the last linear layer: the features."""
    node, _ = _last_layer(model, logits)
    if node is None or node.op_type not in _LINEAR:
        kind = "nothing" if node is None else f"a {node.op_type}"
        got = f"none found: {logits!r} is the output of {kind}"
        rule, remedy = "the input of its last linear layer", "Name it: features=..."
        _check.fail(caller, "features", rule, got, remedy)
    return str(node.input[0])


def weights_of_head(model: ModelProto, logits: str) -> Arrays:
    """Return weight and bias of the last linear layer, if the file has them."""
    node, added = _last_layer(model, logits)
    if node is None or node.op_type not in _LINEAR:
        return {}
    values = _constants(model)
    names = [node.input[1], *added]
    if not all(name in values for name in names):
        return {}
    options = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    weight, *biases = (numpy_helper.to_array(values[name]) for name in names)
    weight = weight * weight.dtype.type(options.get("alpha", 1))
    weight = weight if options.get("transB") else weight.T
    bias = np.zeros(len(weight), weight.dtype)
    for one in biases:
        bias = bias + one.ravel() * one.dtype.type(options.get("beta", 1))
    return {"weight": weight.copy(), "bias": bias}


def _last_layer(
    model: ModelProto, logits: str
) -> tuple[NodeProto | None, Sequence[str]]:
    """Search back from the logits to the last linear layer, and what is added to it.

    Its node is a Gemm or a MatMul if there is one, else what was found instead.
    """
    makers, values = _makers(model), _constants(model)
    node = _before_same(logits, makers)
    if node is None or node.op_type != "Add":
        return node, [] if node is None else list(node.input[2:3])
    # x W + b, the bias on either side.
    before = [name for name in node.input if name not in values]
    added = [name for name in node.input if name in values]
    return _before_same(before[0], makers) if len(before) == 1 else None, added


def _makers(model: ModelProto) -> dict[str, NodeProto]:
    return {name: node for node in model.graph.node for name in node.output}


def _constants(model: ModelProto) -> dict[str, Any]:
    found = {one.name: one for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = node.attribute[0].t
    return found


def _before_same(name: str, makers: Mapping[str, NodeProto]) -> NodeProto | None:
    node = makers.get(name)
    while node is not None and node.op_type in _SAME:
        node = makers.get(node.input[0])
    return node


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxNetwork(Network):
    """A session of onnxruntime that gives logits and features, on the CPU."""

    input: str
    weights: Arrays = field(default_factory=dict)

    @property
    def head(self) -> LinearHead | None:
        """The last layer, if the file has its weights."""
        if self.embeds or not self.weights:
            return None
        return LinearHead(**self.weights, classes=self.classes)

    def outputs(self, batches: Batches, *, device: Any, **how: Any) -> Outputs:
        """Run the session."""
        del device
        step, layers = how.pop("step"), how.pop("layers")
        if step is not None or layers:
            rule = "left out for an ONNX file, which has no gradients and no layers"
            remedy = "Load the network in PyTorch"
            _check.fail("Network.apply", "step, layers", rule, step or layers, remedy)

        def forward(inputs: Any) -> Arrays:
            logits, features = self.model.run(None, {self.input: inputs})
            made = {} if self.embeds else {"logits": logits}
            return made | {"features": features.reshape(len(features), -1)}

        rows = batches.of(64)
        how |= {"classes": self.classes} | ({} if self.embeds else self.weights)
        return gather(forward, rows, total=len(rows), **how)

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
    kept = [one for one in model.graph.output if one.name not in _DECISION]
    if not kept:
        rule, got = "a network", f"{path}, a rejector exported without one"
        _check.fail(_CALLER, "network", rule, got, error=ArtefactError)
    del model.graph.output[:]
    model.graph.output.extend(kept)
    logits = logits_of(model)
    is_named = any(one.name == "features" for one in kept)
    features = "features" if is_named else input_of_head(model, logits)
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
    inputs = session.get_inputs()
    shapes = [len(one.shape) for one in inputs if one.type in _TYPES]
    if len(inputs) != 1 or shapes not in ([2], [4]):
        kinds = " or ".join(_TYPES.values())
        rule = f"one with one input (n, 3, h, w), (n, 1, h, w) or (n, d), of {kinds}"
        got = ", ".join(f"{i.name} {i.shape} of {i.type}" for i in inputs)
        _check.fail(_CALLER, str(path), rule, got, error=ArtefactError)
    dtype, shape = _TYPES[inputs[0].type], inputs[0].shape
    about: dict[str, Any] = {"name": str(path), "model": session}
    about |= {"input": inputs[0].name, "weights": weights_of_head(model, logits)}
    if len(shape) == 2:
        return OnnxNetwork(
            kind="table", transform=lambda rows: np.asarray(rows, dtype), **about
        )
    side = shape[-1] if side is None and isinstance(shape[-1], int) else side
    n_channels = shape[1] if isinstance(shape[1], int) else 3
    pixels = Pixels(n_channels, side, mean, std, dtype)
    return OnnxNetwork(transform=pixels, **pixels.about, **about)
