"""Run a classifier that is an ONNX file: logits and features of batches of images."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _extras
from openset._progress import bar
from openset._types import UNKNOWN, ArtefactError
from openset.integrations.onnx import _network
from openset.outputs import Invalid, Outputs, WithGaps

with _extras.importing("openset.integrations.onnx", "onnx"):
    from onnx import helper

_CALLER = "networks.load"
_TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}


@dataclass(frozen=True, eq=False)
class OnnxClassifier:
    """A session of onnxruntime that also returns the input of the last linear layer."""

    session: Any
    input: str
    dtype: str
    side: int | None
    """Height and width of the images it takes; None if any."""
    head: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> "OnnxClassifier":
        """Read a file; the features are found as for ``openset export``."""
        runtime = _extras.optional(_CALLER, "onnxruntime", name="onnx")
        model = _network.load(path, None)
        logits, features = _network.tensors(model, None, None, needs_features=True)
        head = _network.head(model, logits)
        del model.graph.output[:]
        for name in (logits, features):
            model.graph.output.append(helper.make_empty_tensor_value_info(str(name)))
        session = runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        inputs = session.get_inputs()
        if (
            len(inputs) != 1
            or inputs[0].type not in _TYPES
            or len(inputs[0].shape) != 4
        ):
            msg = _check.must(
                f"a model with one input (n, 3, h, w) of {' or '.join(_TYPES)}",
                caller=_CALLER,
                name=str(path),
                got=", ".join(f"{i.name} {i.shape} of {i.type}" for i in inputs),
            )
            raise ArtefactError(msg)
        side = inputs[0].shape[-1]
        return cls(
            session=session,
            input=inputs[0].name,
            dtype=_TYPES[inputs[0].type],
            side=side if isinstance(side, int) else None,
            head=head,
        )

    def outputs(
        self,
        batches: Iterable[Any],
        *,
        classes: Sequence[str] = (),
        groups: Any = None,
        ids: Any = None,
        unknown: bool = False,
        out: str | Path | None = None,
        invalid: Invalid = "error",
        progress: bool = True,
    ) -> Outputs:
        """Return the outputs of prepared batches, ``(inputs, labels)`` or inputs."""
        found: list[list[Any]] = []
        labels: list[Any] = []
        for batch in bar(batches, "extracting", show=progress):
            inputs, *rest = batch.batch if isinstance(batch, WithGaps) else batch
            rows = self.session.run(None, {self.input: np.asarray(inputs)})
            made = dict(zip(("logits", "features"), rows, strict=True))
            if isinstance(batch, WithGaps):
                made = batch.filled(made)
            found.append(list(made.values()))
            n = len(found[-1][0])
            labels.extend([np.full(n, UNKNOWN)] if unknown else rest)
        logits, features = (np.concatenate(parts) for parts in zip(*found, strict=True))
        result = Outputs(
            logits=logits,
            features=features.reshape(len(features), -1),
            labels=np.concatenate(labels) if labels else None,
            groups=np.full(len(logits), groups) if isinstance(groups, str) else groups,
            ids=ids,
            classes=classes,
            invalid=invalid,
            **self.head,
        )
        if out is None:
            return result
        return Outputs.load(result.save(out), invalid=invalid)
