"""An ONNX model before the rejector: inputs to logits and features."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io
from openset._types import ArtefactError
from openset.outputs import Outputs
from openset.serve._errors import RequestError, refuse

_KINDS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
}


class Model:
    """A session of onnxruntime with one input and one or two outputs we use."""

    def __init__(self, path: str | Path) -> None:
        runtime = _io.optional("openset.serve", "onnxruntime", name="onnx")
        path = Path(path)
        if not path.exists():
            msg = f"openset.serve: no such file: {path}"
            raise FileNotFoundError(msg)
        try:
            self._session = runtime.InferenceSession(
                str(path), providers=["CPUExecutionProvider"]
            )
        # onnxruntime raises kinds of its own, which derive from nothing in common.
        except Exception as error:
            msg = f"openset.serve: {path} is no ONNX model we can run ({error})"
            raise ArtefactError(msg) from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _KINDS:
            msg = _check.must(
                f"a model with one input of {', '.join(_KINDS)}",
                caller="openset.serve",
                name=str(path),
                got=", ".join(f"{i.name} of {i.type}" for i in inputs) or "none",
            )
            raise ArtefactError(msg)
        self._input = inputs[0]
        self._dtype = np.dtype(_KINDS[inputs[0].type])
        self._outputs = _outputs([one.name for one in self._session.get_outputs()])

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of the input; None where it may vary."""
        sizes = self._input.shape
        return tuple(n if isinstance(n, int) else None for n in sizes)

    def __call__(self, inputs: NDArray[Any]) -> Outputs:
        """Run the model on a batch."""
        fits = len(inputs.shape) == len(self.shape) and all(
            wanted is None or wanted == got
            for wanted, got in zip(self.shape, inputs.shape, strict=True)
        )
        if not fits or 0 in inputs.shape:
            wanted = ", ".join("any" if n is None else str(n) for n in self.shape)
            rule = f"of shape ({wanted}), not empty"
            refuse(rule, name="inputs", got=f"shape {inputs.shape}")
        if inputs.dtype.kind == "f" and self._dtype.kind != "f":
            rule = f"integers ({self._dtype})"
            refuse(rule, name="inputs", got=f"dtype {inputs.dtype}")
        # Values that do not fit become ±inf, and the rejector says what it makes of it.
        with np.errstate(over="ignore"):
            batch = np.ascontiguousarray(inputs, dtype=self._dtype)
        if batch.dtype.kind == "f" and np.isnan(batch.min()):
            refuse("free of NaN", name="inputs", got="NaN")
        try:
            values = self._session.run(
                list(self._outputs.values()), {self._input.name: batch}
            )
        except Exception as error:  # see __init__
            msg = f"predict: the model cannot run these inputs ({error})"
            raise RequestError(422, msg) from error
        return Outputs(**dict(zip(self._outputs, values, strict=True)))


def _outputs(names: list[str]) -> dict[str, str]:
    """Map logits and features to outputs: by their names, else by their order."""
    wanted = ("logits", "features")
    named = {name: name for name in wanted if name in names}
    return named or dict(zip(wanted, names, strict=False))
