"""A network in front of the rejector: turns inputs into logits and features."""

import os
from abc import ABC, abstractmethod
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


# What openset.integrations.onnx.export writes into its files.
_DETECTOR = "openset.detector"
_DECISION = ("class", "knownness")


class ServedModel(ABC):
    """A network with one input.

    Attributes
    ----------
    shape
        Shape of the input; None where a size may vary.
    dtype
        Type of the input; arrays of clients are converted to it.
    gives
        Names of its outputs: logits, features or both.
    """

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    gives: tuple[str, ...]

    @abstractmethod
    def run(self, batch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return logits, features or both, of a batch of the right shape and dtype."""

    def example(self, n: int) -> NDArray[Any]:
        """Return `n` samples (or as many as it takes) between 0 and 1.

        Sizes that may vary are 2.
        """
        sizes = [n if self.shape[0] is None else self.shape[0]]
        sizes += [2 if size is None else size for size in self.shape[1:]]
        values = np.random.default_rng(0).random(sizes).round(3)
        return values.astype(self.dtype)

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
        if inputs.dtype.kind == "f" and self.dtype.kind != "f":
            rule = f"integers ({self.dtype})"
            refuse(rule, name="inputs", got=f"dtype {inputs.dtype}")
        if self.dtype.kind in "iu" and inputs.dtype != self.dtype:
            limits = np.iinfo(self.dtype)
            low, high = int(inputs.min()), int(inputs.max())
            if low < limits.min or high > limits.max:  # they would wrap: 256 to 0
                rule = f"from {limits.min} to {limits.max} ({self.dtype})"
                refuse(rule, name="inputs", got=f"values from {low} to {high}")
        # Values beyond the range of the type become ±inf; the rejector handles those.
        with np.errstate(over="ignore"):
            batch = np.ascontiguousarray(inputs, dtype=self.dtype)
        if batch.dtype.kind == "f" and np.isnan(batch.min()):
            refuse("free of NaN", name="inputs", got="NaN")
        try:
            return Outputs(**self.run(batch))
        # Runtimes raise classes of their own, without a common base.
        except Exception as error:
            msg = f"predict: the model cannot run these inputs ({error})"
            raise RequestError(422, msg) from error


def load(path: str | Path) -> ServedModel:
    """Open an ONNX file, or the folder of a training run."""
    path = Path(path)
    if not path.exists():
        msg = _check.must(
            "an ONNX file, or the folder of a training run",
            caller="openset.serve.app",
            name="model",
            got=f"no such file: {path}",
        )
        raise FileNotFoundError(msg)
    return TrainedModel(path) if path.is_dir() else OnnxModel(path)


class TrainedModel(ServedModel):
    """A network in the folder of a run of ``openset train``."""

    gives = ("logits", "features")

    def __init__(self, folder: Path) -> None:
        # Here, not above: a server without a network needs no torch.
        from openset.train import Trained  # noqa: PLC0415

        self._model = Trained.load(folder).model()
        shape = self._model.shape
        is_image = len(shape) == 3
        is_sized = is_image and self._model.pipeline.side is not None
        self.shape = (None, shape[0], None, None) if is_sized else (None, *shape)
        self.dtype = np.dtype(np.uint8 if is_image else np.float32)

    def run(self, batch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the network, one batch after another."""
        return self._model.outputs(batch)


class OnnxModel(ServedModel):
    """A session of onnxruntime with one input and one or two outputs we use."""

    def __init__(self, path: Path) -> None:
        runtime = _io.optional("openset.serve", "onnxruntime", name="onnx")
        options = runtime.SessionOptions()
        # onnxruntime has its own threads; 0 means one per core.
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        try:
            self._session = runtime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # see ServedModel
            msg = (
                f"openset.serve.app: model must be an ONNX model that onnxruntime can "
                f"run, got {path} ({error})"
            )
            raise ArtefactError(msg) from error
        inputs = self._session.get_inputs()
        facts = self._session.get_modelmeta().custom_metadata_map
        if _DETECTOR in facts and inputs and inputs[0].name in ("logits", "features"):
            msg = _check.must(
                "a network",
                caller="openset.serve.app",
                name="model",
                got=f"{path}, a rejector that was exported without a network",
                remedy="Serve the rejector's folder without a model, or export it with "
                "the network",
            )
            raise ArtefactError(msg)
        if len(inputs) != 1 or inputs[0].type not in _KINDS:
            msg = _check.must(
                f"an ONNX model with one input of {', '.join(_KINDS)}",
                caller="openset.serve.app",
                name="model",
                got=", ".join(f"{i.name} of {i.type}" for i in inputs) or "none",
            )
            raise ArtefactError(msg)
        self._input = inputs[0]
        self.dtype = np.dtype(_KINDS[inputs[0].type])
        sizes = inputs[0].shape
        self.shape = tuple(n if isinstance(n, int) else None for n in sizes)
        names = [one.name for one in self._session.get_outputs()]
        if _DETECTOR in facts:  # its own decision is not an output of the network
            names = [name for name in names if name not in _DECISION]
        self._outputs = _outputs(names)
        self.gives = tuple(self._outputs)

    def run(self, batch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the session."""
        wanted, given = list(self._outputs.values()), {self._input.name: batch}
        return dict(zip(self._outputs, self._session.run(wanted, given), strict=True))


def _outputs(names: list[str]) -> dict[str, str]:
    """Map logits and features to outputs: by their names, else by their order."""
    wanted = ("logits", "features")
    named = {name: name for name in wanted if name in names}
    return named or dict(zip(wanted, names, strict=False))
