"""A network in an ONNX file, in front of the rejector."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset._types import ArtefactError
from openset.serve._errors import refuse
from openset.serve._model import (
    CALLER,
    WANTED,
    Images,
    Preprocessing,
    ServedModel,
    numbers,
)

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
_DECISION = ("class", "knownness", "set")


class OnnxModel(ServedModel):
    """A session of onnxruntime with one input and one or two outputs we use."""

    def __init__(self, path: Path, how: Preprocessing, needs: tuple[str, ...]) -> None:
        self._session = _session(path, str(path))
        inputs = self._session.get_inputs()
        is_exported = _DETECTOR in self._session.get_modelmeta().custom_metadata_map
        if is_exported and inputs and inputs[0].name in WANTED:
            msg = _check.must(
                "a network",
                caller=CALLER,
                name="model",
                got=f"{path}, a rejector that was exported without a network",
                remedy="Serve the rejector's folder without a model, or export it with "
                "the network",
            )
            raise ArtefactError(msg)
        if len(inputs) != 1 or inputs[0].type not in _KINDS:
            msg = _check.must(
                f"an ONNX model with one input of {', '.join(_KINDS)}",
                caller=CALLER,
                name="model",
                got=", ".join(f"{i.name} of {i.type}" for i in inputs) or "none",
            )
            raise ArtefactError(msg)
        names = [one.name for one in self._session.get_outputs()]
        if is_exported:  # its own decision is not an output of the network
            names = [name for name in names if name not in _DECISION]
        self._outputs_of = outputs_by_name(names)
        if "features" in needs and len(names) == 1 and "logits" in self._outputs_of:
            self._find_features(path)
        self.gives = tuple(self._outputs_of)
        self._input = inputs[0]
        self.dtype = np.dtype(_KINDS[inputs[0].type])
        sizes = inputs[0].shape
        self.shape = tuple(n if isinstance(n, int) else None for n in sizes)
        self._how = how
        if len(self.shape) == 4 and self.shape[1] == 3:
            self.preprocessing = self._described()

    def run(self, batch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the session."""
        wanted, given = list(self._outputs_of.values()), {self._input.name: batch}
        found = self._session.run(wanted, given)
        rows = (array.reshape(len(array), -1) for array in found)
        return dict(zip(self._outputs_of, rows, strict=True))

    def run_images(self, images: Images) -> dict[str, NDArray[Any]]:
        """Resize, scale and normalise images; bytes stay bytes."""
        pillow = _extras.optional("openset.serve", "PIL.Image", name="vision")
        height, width = self._size()
        if height and width:
            images = [
                np.asarray(pillow.fromarray(one).resize((width, height)))
                for one in images
            ]
        shapes = sorted({one.shape[:2] for one in images})
        if len(shapes) > 1:
            rule = "of one size, as the network does not define it"
            refuse(rule, name="images", got=f"sizes {shapes[0]} and {shapes[1]}")
        pixels: NDArray[Any] = np.stack(images).transpose(0, 3, 1, 2)
        if self.dtype.kind == "f":
            scaled = pixels.astype(np.float32) / np.float32(255)
            mean, std = (
                np.array(v, np.float32)[:, None, None]
                for v in (self._how.mean, self._how.std)
            )
            pixels = (scaled - mean) / std
        return self.run(np.ascontiguousarray(pixels, dtype=self.dtype))

    def _size(self) -> tuple[int | None, int | None]:
        height, width = self.shape[2:]
        return height or self._how.side, width or self._how.side

    def _described(self) -> str:
        height, width = self._size()
        size = (
            f"resized to {height} x {width}"
            if height
            else "of any size, the same for all images"
        )
        if self.dtype.kind != "f":
            return f"{size}, RGB, as {self.dtype}"
        return (
            f"{size}, RGB, scaled to [0, 1], mean {numbers(self._how.mean)}, std "
            f"{numbers(self._how.std)}"
        )

    def _find_features(self, path: Path) -> None:
        """Add the input of the last linear layer as an output, if there is one."""
        _extras.optional("openset.serve", "onnx", name="onnx")
        from openset.extract import onnx_file  # noqa: PLC0415  # the extra

        graph = (model := onnx_file.read(path)).graph
        kept = [one.name for one in graph.output if one.name not in _DECISION]
        try:
            logits = onnx_file.logits_of(model, kept[0] if len(kept) == 1 else None)
            features = onnx_file.input_of_head(model, logits)
        except ValueError:
            return  # said in words when the outputs are compared with the needs
        del graph.output[:]
        for name in (logits, features):
            graph.output.add(name=name)
        self._session = _session(model.SerializeToString(), str(path))
        self._outputs_of = {"logits": logits, "features": features}


def _session(source: Path | bytes, name: str) -> Any:
    runtime = _extras.optional("openset.serve", "onnxruntime", name="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors; it would warn of our input `threshold`
    # onnxruntime has its own threads; 0 means one per core.
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    try:
        return runtime.InferenceSession(
            source if isinstance(source, bytes) else str(source),
            options,
            providers=["CPUExecutionProvider"],
        )
    except Exception as error:  # see ServedModel
        msg = (
            f"{CALLER}: model must be an ONNX model that onnxruntime can run, got "
            f"{name} ({error})"
        )
        raise ArtefactError(msg) from error


def outputs_by_name(names: list[str]) -> dict[str, str]:
    """Map logits and features to outputs: by their names, else by their order."""
    named = {name: name for name in WANTED if name in names}
    return named or dict(zip(WANTED, names, strict=False))
