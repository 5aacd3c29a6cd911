"""Read or export the user's network, and find its logits and features."""

import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _extras
from openset._types import ArtefactError
from openset.integrations.onnx._sample import CALLER

with _extras.importing("openset.integrations.onnx", "onnx"):
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, NodeProto, version_converter

# Operators that do not change the numbers of the last layer's output.
_SAME = ("Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Dropout")
_PROBABILITIES = ("Softmax", "LogSoftmax", "Sigmoid")


def load(model: Any, example: Any) -> ModelProto:
    """Read an ONNX file, or export a torch module."""
    if isinstance(model, str | Path):
        path = Path(model)
        if not path.exists():
            msg = f"{CALLER}: no such file: {path}"
            raise FileNotFoundError(msg)
        try:
            read = onnx.load(path)
            onnx.checker.check_model(read)
        except (DecodeError, onnx.checker.ValidationError) as error:
            msg = f"{CALLER}: {path} is damaged or not an ONNX model ({error})"
            raise ArtefactError(msg) from error
        return read
    if isinstance(model, ModelProto):
        copy = ModelProto()
        copy.CopyFrom(model)
        return copy
    return _from_torch(model, example)


def _from_torch(model: Any, example: Any) -> ModelProto:
    torch = _extras.optional(CALLER, "torch", name="torch")
    if not isinstance(model, torch.nn.Module):
        msg = _check.must(
            "an ONNX file or a torch module",
            caller=CALLER,
            name="model",
            got=type(model).__name__,
        )
        raise TypeError(msg)
    # Imported here: an ONNX file does not need torch.
    from openset.integrations.torch import OpenSetModule  # noqa: PLC0415

    if isinstance(model, OpenSetModule):
        msg = _check.must(
            "the plain network",
            caller=CALLER,
            name="model",
            got="an OpenSetModule",
            remedy="Give the wrapped network: module.model",
        )
        raise TypeError(msg)
    if example is None:
        rule = "an input of the module, to trace it with"
        msg = _check.must(rule, caller=CALLER, name="example", got="none")
        raise ValueError(msg)
    inputs = example if isinstance(example, tuple) else (example,)
    if not all(isinstance(one, torch.Tensor) for one in inputs):
        got = ", ".join(type(one).__name__ for one in inputs)
        rule = "a tensor, or a tuple of them"
        raise TypeError(_check.must(rule, caller=CALLER, name="example", got=got))
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with tempfile.TemporaryDirectory() as folder, _quiet():
            file = Path(folder) / "model.onnx"
            # By position: the names of the arguments differ between models.
            axes = tuple({0: torch.export.Dim("n")} for _ in inputs)
            program = torch.onnx.export(
                model, inputs, dynamo=True, dynamic_shapes=axes, verbose=False
            )
            program.save(file)
            return onnx.load(file)
    finally:
        for module, mode in modes:
            module.training = mode


class _quiet:  # noqa: N801  # used like a function
    """Suppress messages of the exporter, but not its errors."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        self._level = logging.root.manager.disable
        logging.disable(logging.WARNING)

    def __exit__(self, *error: object) -> None:
        logging.disable(self._level)
        self._warnings.__exit__(None, None, None)


def at_least(model: ModelProto, opset: int) -> ModelProto:
    """Convert a model to a newer operator set if it is older than ours."""
    version = {entry.domain: entry.version for entry in model.opset_import}.get("", 1)
    if version >= opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except RuntimeError as error:
        msg = (
            f"{CALLER}: model must have operator set {opset} or newer, got {version}, "
            f"and cannot be converted ({error}). Export it again with a newer one"
        )
        raise ValueError(msg) from error


def tensors(
    model: ModelProto, logits: str | None, features: str | None, *, needs_features: bool
) -> tuple[str, str | None]:
    """Return the names of the tensors that hold logits and features."""
    outputs = [output.name for output in model.graph.output]
    makers = {name: node for node in model.graph.node for name in node.output}
    if logits is None:
        if len(outputs) != 1 and "logits" not in outputs:
            _refuse_name("logits", None, outputs)
        logits = outputs[0] if len(outputs) == 1 else "logits"
        _refuse_probabilities(logits, makers)
    elif logits not in makers:
        _refuse_name("logits", logits, outputs)
    inputs = {entry.name for entry in model.graph.input}
    if features is not None and features not in {*makers, *inputs}:
        _refuse_name("features", features, list(makers))
    if not needs_features:
        return logits, None
    if features is None:
        features = _input_of_head(logits, model)
    return logits, features


def with_features(
    path: str | Path, *, without: Sequence[str] = ()
) -> tuple[bytes, str, str]:
    """Read a network, with the features as an output beside the logits.

    Features are the input of the last linear layer, as for :func:`export`.

    Parameters
    ----------
    path
        An ONNX file.
    without
        Outputs to leave out.

    Returns
    -------
    bytes, str, str
        The model, and the names of the outputs that hold logits and features.
    """
    model = load(path, None)
    kept = [one for one in model.graph.output if one.name not in without]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    logits, features = tensors(model, None, None, needs_features=True)
    del model.graph.output[:]
    for name in (logits, features):
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(str(name)))
    return model.SerializeToString(), logits, str(features)


def _refuse_probabilities(logits: str, makers: dict[str, NodeProto]) -> None:
    """Raise if the output is known not to be logits, unless it was named."""
    node = _before_same(makers.get(logits), makers)
    if node is not None and node.op_type in _PROBABILITIES:
        msg = _check.must(
            "the output of the last linear layer",
            caller=CALLER,
            name="logits",
            got=f"{logits!r}, the {node.op_type} of {node.input[0]!r}",
            remedy="Name the tensor the rejector was calibrated on: logits=...",
        )
        raise ValueError(msg)


def _before_same(
    node: NodeProto | None, makers: dict[str, NodeProto]
) -> NodeProto | None:
    while node is not None and node.op_type in _SAME:
        node = makers.get(node.input[0])
    return node


def _refuse_name(what: str, got: str | None, names: Sequence[str]) -> None:
    some = ", ".join(names[-12:])
    rule = f"the name of one of its tensors ({some})"
    msg = _check.must(rule, caller=CALLER, name=what, got=repr(got))
    raise ValueError(msg)


def _last_layer(
    logits: str, model: ModelProto
) -> tuple[NodeProto | None, Sequence[str]]:
    """Search back from the logits to the last linear layer, and what is added to it.

    Its node is a Gemm or a MatMul if there is one, else what was found instead.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    weights = {entry.name for entry in model.graph.initializer}
    node = _before_same(makers.get(logits), makers)
    if node is None or node.op_type != "Add":
        return node, list(node.input[2:3]) if node is not None else []
    # x W + b, the bias on either side.
    constant = [name for name in node.input if _is_constant(name, weights, makers)]
    before = [makers.get(name) for name in node.input if name not in constant]
    found = _before_same(before[0], makers) if len(before) == 1 else None
    return found, constant


def _is_constant(name: str, weights: set[str], makers: dict[str, NodeProto]) -> bool:
    return name in weights or (name in makers and makers[name].op_type == "Constant")


def _input_of_head(logits: str, model: ModelProto) -> str:
    """Return the input of the last linear layer."""
    node, _ = _last_layer(logits, model)
    if node is None or node.op_type not in ("Gemm", "MatMul"):
        got = "nothing" if node is None else f"a {node.op_type}"
        msg = _check.must(
            "the input of its last linear layer",
            caller=CALLER,
            name="features",
            got=f"none found: {logits!r} is the output of {got}",
            remedy="Name the tensor: features=...",
        )
        raise ValueError(msg)
    return node.input[0]


def head(model: ModelProto, logits: str) -> dict[str, Any]:
    """Return weight and bias of the last linear layer, if the file has them."""
    node, added = _last_layer(logits, model)
    values = {one.name: one for one in model.graph.initializer}
    for one in model.graph.node:
        if one.op_type == "Constant" and one.attribute[0].HasField("t"):
            values[one.output[0]] = one.attribute[0].t
    names = (*(() if node is None else node.input[1:2]), *added)
    if node is None or not all(name in values for name in names):
        return {}
    arrays = [onnx.numpy_helper.to_array(values[name]) for name in names]
    options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    weight = arrays[0] * arrays[0].dtype.type(options.get("alpha", 1))
    weight = weight if options.get("transB") else weight.T
    bias = np.zeros(len(weight), weight.dtype)
    for one in arrays[1:]:
        bias = bias + one.ravel() * one.dtype.type(options.get("beta", 1))
    return {"weight": weight.copy(), "bias": bias}


def check_names(model: ModelProto, names: Sequence[str]) -> None:
    """Raise if the network already uses the names of the added tensors."""
    graph = model.graph
    used = {name for node in graph.node for name in (*node.input, *node.output)}
    used |= {entry.name for entry in (*graph.input, *graph.output, *graph.initializer)}
    taken = [name for name in used if name in names or name.startswith("openset_")]
    if taken:
        msg = _check.must(
            f"free of tensors named {', '.join(names)}",
            caller=CALLER,
            name="model",
            got=", ".join(sorted(taken)[:5]),
            remedy="Rename them, or export the plain network",
        )
        raise ValueError(msg)


def width(model: ModelProto, name: str | None) -> int | None:
    """Return the width of a tensor, if the graph has it."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    for entry in (*graph.value_info, *graph.output, *graph.input):
        sizes = entry.type.tensor_type.shape.dim
        if entry.name == name and len(sizes):
            if len(sizes) != 2:
                msg = _check.must(
                    "of shape (n, d)",
                    caller=CALLER,
                    name=repr(name),
                    got=f"{len(sizes)} axes",
                    remedy="Name another tensor: logits=..., features=...",
                )
                raise ValueError(msg)
            return sizes[-1].dim_value or None
    return None
