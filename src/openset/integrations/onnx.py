"""Export rejectors as ONNX graphs, alone or behind a network. Needs the extra `onnx`.

What is traced is the detector's own code, run on torch tensors: graph and Python cannot
disagree, and every detector that runs on torch can be exported, those of plug-ins too.
"""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from openset import _check, _io
from openset._optional import needs
from openset._types import UNKNOWN
from openset._version import __version__
from openset.rejector import Rejector, need_rejector

with needs("onnx"):
    import onnx
    import onnxscript
    from onnx import ModelProto, TensorProto, compose, helper, numpy_helper
    from onnx import version_converter as versions

    from openset.extract.network import Network
    from openset.extract.onnx_file import head_of, logits_of, read
with needs("torch"):
    import torch
    from torch import Tensor, nn

    from openset.extract.head import evaluating
    from openset.integrations.sklearn_layers import layers_of
    from openset.integrations.torch import Decision

__all__ = ["OPSET", "export"]

OPSET = 18
"""The ONNX operator set that graphs are written in, unless the network's is newer."""

_CALLER = "onnx.export"
_OUTPUTS = ("class", "knownness")
_NAMES = (*_OUTPUTS, "threshold")
_PREFIX = "openset_"  # of the names in the added part
op: Any = onnxscript.opset18


def export(
    rejector: Any,
    path: str | Path,
    model: Any = None,
    *,
    example: Any = None,
    logits: str | None = None,
    features: str | None = None,
) -> Path:
    """Write an ONNX file that returns the class (or -1) and the knownness.

    Without `model` its inputs are ``logits`` (n, C) and, if the detector needs them,
    ``features`` (n, d), float32. With `model`, the graph is appended to the network:
    its inputs and outputs are kept, and the outputs below are added.

    Added outputs: ``class`` (int64, -1 for unknown) and ``knownness`` (float32). The
    threshold is an optional input of one number, whose default is the calibrated one. A
    sample with NaN, or without a score, has knownness NaN and class -1. The batch axis
    is dynamic.

    Parameters
    ----------
    rejector
        A calibrated rejector. Or an `OpenSetClassifier` of scikit-learn, or a pipeline
        that ends in one: a linear classifier behind scalers, PCA and `Normalizer` is
        exported as a whole, with an input of float64.
    path
        File to write; it is created only when complete and checked.
    model
        The network: an ONNX file, what :func:`openset.extract.load` opened, or a torch
        module (exported first; this needs `example`).
    example
        Inputs of the torch module: a tensor, or a tuple of them. The first axis is the
        batch.
    logits, features
        Names of the network's tensors that hold the logits and the input of the last
        linear layer. Default: its only output, or the one called "logits"; and the
        input of the linear layer that makes it.

    Examples
    --------
    >>> import tempfile, onnxruntime
    >>> from openset import Outputs, detectors
    >>> known = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
    >>> rejector = Rejector.calibrate(
    ...     detectors.MaxLogit().fit(), known=known, objective="at_tpr", tpr=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = export(rejector, Path(folder) / "rejector.onnx")
    ...     session = onnxruntime.InferenceSession(file)
    >>> batch = np.array([[5, 0], [0, 3]], dtype=np.float32)
    >>> [values.tolist() for values in session.run(None, {"logits": batch})]
    [[0, -1], [5.0, 3.0]]
    >>> lower = {"logits": batch, "threshold": np.float32([2])}
    >>> session.run(["class"], lower)[0].tolist()
    [0, 1]
    """
    if isinstance(rejector, BaseEstimator):
        rejector, model, example = layers_of(_CALLER, rejector)
    need_rejector(_CALLER, rejector)
    if isinstance(model, Network):
        model, example = model.traced()
    if model is None:
        built = _decision(rejector, OPSET)
    else:
        if rejector.input_step:
            rule = "left out for a rejector of perturbed inputs"
            remedy = "Export the rejector alone"
            _check.fail(_CALLER, "model", rule, type(model).__name__, remedy)
        network, opset = _network(model, example)
        found = {"logits": logits_of(network, logits)}
        if "features" in rejector.fitted.detector.score_needs:
            found["features"], _ = head_of(network, found["logits"], features)
        widths = {f"n_{k}": _width(network, name) for k, name in found.items()}
        widths["n_classes"] = widths.pop("n_logits")
        rejector.fitted.need_widths(_CALLER, widths, " of the model")
        built = _joined(network, _decision(rejector, opset), found)
    _describe(built, rejector)
    onnx.checker.check_model(built, full_check=True)
    _io.put(Path(path), built.SerializeToString())
    return Path(path)


class _Decision(Decision):
    """From logits and features to class and knownness, by a threshold that is given."""

    def __init__(self, rejector: Rejector) -> None:
        super().__init__(rejector, torch.float32, "cpu")
        # Single numbers are constants of the graph: some of them are counts.
        for name, array in list(self.named_buffers()):
            if not array.ndim:
                delattr(self, name)
                setattr(self, name, array)

    def forward(self, threshold: Tensor, logits: Tensor, features: Any = None) -> Any:
        predicted, known = self.known(logits, features)
        known = known.float()
        return torch.where(known >= threshold, predicted, UNKNOWN), known


def _decision(rejector: Rejector, opset: int) -> ModelProto:
    """Trace the rejector; its threshold is an input with a default."""
    module = _Decision(rejector)
    widths = rejector.fitted.widths
    example = {"logits": torch.rand(7, widths.get("n_classes") or 5)}
    if "features" in rejector.fitted.detector.score_needs:
        n_features = widths.get("n_features")
        if n_features is None:
            _check.fail(_CALLER, "rejector", "fitted on outputs with features", "none")
        example["features"] = torch.rand(7, n_features)
    exact = np.array([rejector.threshold.value])
    near = exact.astype(np.float32)  # rounded up: float32 scores are accepted as before
    near = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
    n = torch.export.Dim("n")
    made = _traced(
        module,
        {"threshold": torch.from_numpy(near), **example},
        {"threshold": None, **{name: {0: n} for name in example}},
        opset_version=opset,
        output_names=_OUTPUTS,
        input_names=["threshold", *example],
    )
    made.graph.input.append(made.graph.input.pop(0))  # the optional one comes last
    made.graph.initializer.append(numpy_helper.from_array(near, "threshold"))
    return made


def _traced(model: nn.Module, inputs: Any, axes: Any, **options: Any) -> ModelProto:
    """Return the ONNX graph of a module in evaluation mode."""
    args: Any = {"kwargs": inputs} if isinstance(inputs, Mapping) else {"args": inputs}
    aten = torch.ops.aten
    with evaluating(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            model,
            dynamo=True,
            verbose=False,
            dynamic_shapes=axes,
            custom_translation_table={
                aten.log1p.default: _log1p,
                aten.expm1.default: _expm1,
                aten.logaddexp.default: _logaddexp,
            },
            **args,
            **options,
        )
    proto: ModelProto = program.model_proto
    for node in proto.graph.node:  # torch notes the file and line each was made in
        node.ClearField("metadata_props")
    return proto


# torch translates these three by their definitions, which lose all digits of small
# numbers or overflow.
def _log1p(x: Any) -> Any:
    """Write log(1 + x) to full precision (Kahan)."""
    one = op.CastLike(1.0, x)
    more = op.Add(x, one)
    is_lost = op.Equal(more, one)
    step = op.Where(is_lost, one, op.Sub(more, one))
    return op.Where(is_lost, x, op.Div(op.Mul(op.Log(more), x), step))


def _expm1(x: Any) -> Any:
    """Write exp(x) - 1 to full precision."""
    half = op.Mul(x, op.CastLike(0.5, x))
    return op.Mul(op.Tanh(half), op.Add(op.Exp(x), op.CastLike(1.0, x)))


def _logaddexp(a: Any, b: Any) -> Any:
    """Write log(exp(a) + exp(b)) without overflow or underflow."""
    most, least = op.Max(a, b), op.Min(a, b)
    gap = op.Sub(least, most)  # of two infinities: NaN, and their sum is the larger
    gap = op.Where(op.IsNaN(gap), op.CastLike(0.0, a), gap)
    return op.Add(most, _log1p(op.Exp(gap)))


def _network(model: Any, example: Any) -> tuple[ModelProto, int]:
    """Read an ONNX file, or export a torch module; return it and its operator set."""
    if isinstance(model, nn.Module):
        if example is None:
            rule = "an input of the module, to trace it with"
            _check.fail(_CALLER, "example", rule, "none")
        inputs = example if isinstance(example, tuple) else (example,)
        # Two of each: an axis of length one would be taken as fixed.
        inputs = tuple(torch.cat([one, one]) for one in inputs)
        n = torch.export.Dim("n")
        network = _traced(model, inputs, tuple({0: n} for _ in inputs))
    else:
        network = read(model)
    version = {one.domain: one.version for one in network.opset_import}.get("", 1)
    if version < OPSET:
        network, version = versions.convert_version(network, OPSET), OPSET
    return network, version


def _width(network: ModelProto, name: str) -> int | None:
    """Return the width of a tensor (n, d), if the graph states it."""
    graph = onnx.shape_inference.infer_shapes(network).graph
    for entry in (*graph.value_info, *graph.output, *graph.input):
        sizes = entry.type.tensor_type.shape.dim
        if entry.name == name and len(sizes) == 2:
            return sizes[1].dim_value or None
    return None


def _joined(
    network: ModelProto, decision: ModelProto, found: Mapping[str, str]
) -> ModelProto:
    """Append the decision to the tensors of a network."""
    kept = [one.name for one in network.graph.output]
    for inner, name in found.items():
        link = f"{_PREFIX}of_{inner}"
        network.graph.node.append(
            helper.make_node("Cast", [name], [link], to=TensorProto.FLOAT)
        )
        network.graph.output.append(
            helper.make_tensor_value_info(link, TensorProto.FLOAT, None)
        )
    network.ir_version = decision.ir_version
    joined = compose.merge_models(
        network,
        compose.add_prefix(decision, _PREFIX),
        io_map=[(f"{_PREFIX}of_{inner}", _PREFIX + inner) for inner in found],
        outputs=[*kept, *(_PREFIX + name for name in _OUTPUTS)],
    )
    graph, names = joined.graph, {_PREFIX + name: name for name in _NAMES}
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for one in (*graph.input, *graph.output, *graph.initializer):
        one.name = names.get(one.name, one.name)
    return joined


def _describe(model: ModelProto, rejector: Rejector) -> None:
    """Write the origin of the graph into the file."""
    detector = rejector.fitted.detector
    recipe = {"name": detector.name, "params": detector.params()}
    facts = {
        "openset.version": __version__,
        "openset.detector": json.dumps(recipe),
        "openset.threshold": rejector.threshold.to_json(),
        "openset.classes": json.dumps(list(rejector.classes)),
        "openset.cautions": json.dumps([str(one) for one in rejector.cautions]),
    }
    own = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, own | facts)
