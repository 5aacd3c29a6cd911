"""Writing a rejector as an ONNX file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _extras, _io, detectors
from openset._types import UNKNOWN
from openset._version import __version__
from openset.detectors import Detector
from openset.integrations.onnx import _network, _scores, _sets
from openset.integrations.onnx._graph import Graph, Var, where
from openset.integrations.onnx._sample import CALLER, Sample
from openset.rejector import Rejector, need_rejector

with _extras.importing("openset.integrations.onnx", "onnx"):
    import onnx
    from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 18
"""The ONNX operator set graphs are written in."""

_IR_VERSION = 8  # the version of operator set 18, which older runtimes can read
_CLASS, _KNOWN, _SET, _THRESHOLD = "class", "knownness", "set", "threshold"


def exportable() -> list[str]:
    """Return the names of the detectors that can be exported."""
    return [n for n in detectors.names() if _scores.has_graph(detectors.find(n))]


def _check_exportable(detector: Detector) -> None:
    if not _scores.has_graph(type(detector)):
        msg = _check.must(
            f"one of {', '.join(exportable())}",
            caller=CALLER,
            name="detector",
            got=detector.name,
            remedy=f"Give {type(detector).__name__} a method write_onnx(sample) that "
            "writes its graph",
        )
        raise ValueError(msg)
    if getattr(detector, "backend", None) == "faiss":
        rule, got = "'matmul', which gives the same numbers", "'faiss'"
        msg = _check.must(rule, caller=CALLER, name="backend", got=got)
        raise ValueError(msg)


def export(
    rejector: Rejector,
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
    inputs and outputs of the network are kept, and the outputs below are added.

    Added outputs: ``class`` (int64, -1 for unknown) and ``knownness`` (float32); if the
    rejector has prediction sets also ``set`` (bool, samples by classes). The threshold
    is an optional input whose default is the calibrated value; with thresholds per
    class it has one entry per class, and one for all other classes. A sample that
    contains NaN has knownness NaN and class -1. The batch axis is dynamic, the operator
    set is 18 (`OPSET`), or the network's own if that is newer.

    Parameters
    ----------
    rejector
        A calibrated rejector, with one of the detectors :func:`exportable` lists, or a
        combination of them.
    path
        File to write; it is created only when complete and checked.
    model
        The network: an ONNX file, or a torch module (exported first; this needs
        `example`).
    example
        Inputs of the torch module: a tensor, or a tuple of them. The first axis is the
        batch.
    logits
        Name of the network's output that holds the logits, if it has several.
    features
        Name of the input tensor of its last linear layer; found automatically by
        default.

    Examples
    --------
    >>> import tempfile, onnxruntime
    >>> from openset import Outputs, detectors
    >>> known = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
    >>> rejector = Rejector.calibrate(
    ...     detectors.MSP().fit(known), known=known, objective="at_tpr", tpr=1.0)
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
    path = Path(path)
    need_rejector(CALLER, rejector)
    detector = rejector.fitted.detector
    for part in _scores.parts_of(detector):
        _check_exportable(part)
    needs_features = "features" in detector.score_needs
    if model is None:
        given = {"example": example, "logits": logits, "features": features}
        for name, value in given.items():
            if value is not None:
                rule = "left out without a model"
                got = repr(value) if isinstance(value, str) else type(value).__name__
                msg = _check.must(rule, caller=CALLER, name=name, got=got)
                raise ValueError(msg)
        built = _alone(rejector, needs_features=needs_features)
    else:
        if detector.scored_layers:
            msg = _check.must(
                "left out for a detector over several layers, whose features the graph "
                "of a network does not give",
                caller=CALLER,
                name="model",
                got=type(model).__name__,
                remedy="Export the rejector alone: its input is the features of the "
                "layers, side by side. Or serve both: openset serve --model",
            )
            raise ValueError(msg)
        if rejector.input_step:
            msg = _check.must(
                "left out for a rejector whose inputs are perturbed along a gradient "
                f"({rejector.input_step}), which a graph does not compute",
                caller=CALLER,
                name="model",
                got=type(model).__name__,
                remedy="Export the rejector alone, and give it outputs of moved "
                "inputs. Or serve both: openset serve --model",
            )
            raise ValueError(msg)
        network = _network.load(model, example)
        built = _behind(
            rejector,
            network,
            logits=logits,
            features=features,
            needs_features=needs_features,
        )
    _describe(built, rejector)
    onnx.checker.check_model(built, full_check=True)
    _io.put(path, built.SerializeToString())
    return path


def _alone(rejector: Rejector, *, needs_features: bool) -> ModelProto:
    graph = Graph()
    widths = rejector.fitted.widths
    inputs = [_rows("logits", widths.get("n_classes") or "C")]
    if needs_features:
        inputs.append(_rows("features", widths.get("n_features") or "d"))
    features = Var(graph, "features") if needs_features else None
    _write(graph, rejector, Var(graph, "logits"), features)
    default = _default(rejector)
    made = helper.make_graph(
        graph.nodes,
        "openset rejector",
        [*inputs, _described(default)],
        _outputs(rejector),
        initializer=[default, *graph.constants],
    )
    return helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="openset",
        producer_version=__version__,
    )


def _behind(
    rejector: Rejector,
    network: ModelProto,
    *,
    logits: str | None,
    features: str | None,
    needs_features: bool,
) -> ModelProto:
    network = _network.at_least(network, OPSET)
    # Older files also list every constant as an input.
    network.ir_version = max(network.ir_version, _IR_VERSION)
    found = _network.tensors(
        network,
        logits,
        features,
        needs_features=needs_features,
    )
    added = [_CLASS, _KNOWN, _THRESHOLD]
    _network.check_names(network, added if rejector.sets is None else [*added, _SET])
    n_classes, n_features = (_network.width(network, name) for name in found)
    rejector.check_network(
        CALLER, "the model", n_classes=n_classes, n_features=n_features
    )
    graph = Graph(prefix="openset_")
    seen, inner = (
        None if name is None else Var(graph, name).cast(np.float32) for name in found
    )
    _write(graph, rejector, seen, inner)  # type: ignore[arg-type]  # logits are there
    default = _default(rejector)
    network.graph.node.extend(graph.nodes)
    network.graph.initializer.extend([default, *graph.constants])
    network.graph.input.append(_described(default))
    network.graph.output.extend(_outputs(rejector))
    return network


def _write(graph: Graph, rejector: Rejector, logits: Var, features: Var | None) -> None:
    """Add the nodes from logits and features to class, knownness and set."""
    sample = Sample(graph, rejector.fitted, logits, features)
    known = _scores.known(sample, rejector.fitted.detector)
    limits = Var(graph, _THRESHOLD)
    n_own = len(rejector.threshold.per_class)
    last = graph.constant(n_own, np.int64)
    # The last entry is for classes without their own threshold.
    place = graph.op("Min", sample.top_class, last)
    accepted = known >= limits.entries(place)
    decided = where(accepted, sample.top_class, graph.constant(UNKNOWN, np.int64))
    for value, name in ((decided, _CLASS), (known, _KNOWN)):
        inputs = [value.name, graph.constant([1], np.int64).name]
        node = graph.name("node_Squeeze")
        graph.nodes.append(helper.make_node("Squeeze", inputs, [name], name=node))
    if rejector.sets is not None:
        members = _sets.contains(rejector.sets, logits, sample.top_class)
        inputs, node = [members.name, accepted.name], graph.name("node_And")
        graph.nodes.append(helper.make_node("And", inputs, [_SET], name=node))


def _default(rejector: Rejector) -> TensorProto:
    threshold = rejector.threshold
    limits = np.array([*threshold.per_class, threshold.value], dtype=np.float64)
    return numpy_helper.from_array(_scores.table_of(limits), _THRESHOLD)


def _described(default: TensorProto) -> Any:
    return helper.make_tensor_value_info(
        default.name, default.data_type, list(default.dims)
    )


def _rows(name: str, width: int | str) -> Any:
    shape: Sequence[int | str] = ["n", width]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _outputs(rejector: Rejector) -> list[Any]:
    found = [
        helper.make_tensor_value_info(_CLASS, TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info(_KNOWN, TensorProto.FLOAT, ["n"]),
    ]
    if rejector.sets is not None:
        shape = ["n", rejector.fitted.widths.get("n_classes") or "C"]
        found.append(helper.make_tensor_value_info(_SET, TensorProto.BOOL, shape))
    return found


def _describe(model: ModelProto, rejector: Rejector) -> None:
    """Write the origin of the graph into the file."""
    facts = {
        "openset.version": __version__,
        "openset.detector": json.dumps(
            {
                "name": rejector.fitted.detector.name,
                "params": rejector.fitted.detector.params(),
            }
        ),
        "openset.threshold": rejector.threshold.to_json(),
        "openset.classes": json.dumps(list(rejector.classes)),
        "openset.cautions": json.dumps([str(one) for one in rejector.cautions]),
    }
    if rejector.sets is not None:
        facts["openset.sets"] = json.dumps(rejector.sets.to_dict())
    if rejector.input_step:
        facts["openset.input_step"] = rejector.input_step
    own = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, own | facts)
