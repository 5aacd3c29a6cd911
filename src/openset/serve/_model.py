"""A network in front of the rejector: turns inputs into logits and features."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset._types import InvalidSamplesError
from openset.outputs import Outputs
from openset.serve._errors import RequestError, refuse

CALLER = "openset.serve.app"
WANTED = ("logits", "features")

Images = Sequence[NDArray[np.uint8]]


@dataclass(frozen=True)
class Preprocessing:
    """How the images of a plain ONNX file become its input.

    Attributes
    ----------
    side
        Height and width; None: the size in the file, or that of the images.
    mean, std
        Mean and standard deviation of each channel, red first, for pixels in [0, 1].
    weights
        A file of weights, for networks of timm and torchvision.
    head
        The last layer of a network by name.
    """

    side: int | None = None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    weights: str | None = None
    head: Any = None


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
    preprocessing
        What happens to images, in a sentence; empty if it takes none.
    """

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    gives: tuple[str, ...]
    preprocessing: str = ""

    @abstractmethod
    def run(self, batch: NDArray[Any]) -> Any:
        """Run a batch of that shape and dtype; the result is for :func:`as_outputs`."""

    def run_images(self, images: Images) -> Any:
        """Run images, each (h, w, 3); they may have different sizes."""
        raise NotImplementedError

    def example(self, n: int) -> NDArray[Any]:
        """Return `n` samples (or as many as it takes) between 0 and 1.

        Axes of variable size have length 2.
        """
        sizes = [n if self.shape[0] is None else self.shape[0]]
        sizes += [2 if size is None else size for size in self.shape[1:]]
        values = np.random.default_rng(0).random(sizes).round(3)
        return values.astype(self.dtype)

    def try_out(self) -> Outputs | None:
        """Run a synthetic batch; return None if nothing is known about the inputs.

        Raises ValueError if the network cannot work.
        """
        try:
            if self.preprocessing:
                rng = np.random.default_rng(0)
                image = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
                return self.outputs_of_images([image])
            return self(self.example(1))
        except (RequestError, InvalidSamplesError) as error:
            if not self.preprocessing and None in self.shape[1:]:
                return None  # the sizes were guessed: requests will show
            what = (
                "an image of 64 x 64"
                if self.preprocessing
                else f"{self.example(1).shape} of {self.dtype}"
            )
            msg = (
                f"{CALLER}: model must be able to run a batch of its own input "
                f"shape, got an error for {what} ({error})"
            )
            raise ValueError(msg) from error

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
            # Writeable: torch warns about arrays that are views of a body.
            batch = np.require(inputs, self.dtype, ["C", "W"])
        if batch.dtype.kind == "f" and np.isnan(batch.min()):
            rows = np.flatnonzero(np.isnan(batch).reshape(len(batch), -1).any(axis=1))
            got = f"NaN in {rows.size} samples, first in row {rows[0]}"
            msg = _check.must("free of NaN", caller="predict", name="inputs", got=got)
            raise InvalidSamplesError(msg, rows.tolist())
        return self._outputs(self.run, batch)

    def outputs_of_images(self, images: Images) -> Outputs:
        """Run the model on images."""
        return self._outputs(self.run_images, images)

    def run_some(
        self, run: Callable[[Any], Outputs], samples: Any, is_valid: NDArray[np.bool_]
    ) -> Outputs:
        """Run the samples that a mask marks, as if the others were not there.

        In a network whose batches have a fixed size, another sample takes the place of
        each that is left out.
        """
        if is_valid.all():
            return run(samples)
        rows = np.flatnonzero(is_valid)
        if self.shape[:1] in ((), (None,)):
            return run(
                [samples[i] for i in rows] if _is_list(samples) else samples[rows]
            )
        filled = [samples[i if is_valid[i] else rows[0]] for i in range(len(samples))]
        try:
            found = run(filled if _is_list(samples) else np.stack(filled))
        except InvalidSamplesError as error:
            again = np.cumsum(is_valid) - 1  # their numbers among the valid ones
            left = {int(again[i]) for i in error.rows if is_valid[i]}
            raise InvalidSamplesError(str(error), sorted(left)) from error
        return found.take(rows)

    def _outputs(self, run: Callable[[Any], Any], batch: Any) -> Outputs:
        try:
            return as_outputs(run(batch))
        except InvalidSamplesError:  # the network gives NaN for some of them
            raise
        # Runtimes raise classes of their own, without a common base.
        except Exception as error:
            msg = f"predict: the model cannot run these inputs ({error})"
            raise RequestError(422, msg) from error


def _is_list(samples: Any) -> bool:
    return not isinstance(samples, np.ndarray)


def as_outputs(found: Any) -> Outputs:
    """Convert the result of a model to `Outputs`.

    `Outputs`, a mapping with logits and features, both in a tuple, or logits alone.
    """
    if isinstance(found, Outputs):
        return found
    if isinstance(found, dict):
        return Outputs(**{name: found[name] for name in WANTED if name in found})
    both = found if isinstance(found, tuple) else (found,)
    return Outputs(**dict(zip(WANTED, both, strict=False)))


def load(
    model: Any,
    how: Preprocessing,
    example: ArrayLike | None,
    needs: tuple[str, ...],
    *,
    input_step: str = "",
) -> ServedModel:
    """Open a network.

    Parameters
    ----------
    model
        See :func:`openset.serve.app`.
    how
        Preprocessing of images, if the network does not define it.
    example
        A batch for a Python function.
    needs
        The outputs the rejector needs.
    input_step
        Of the rejector: how the inputs are perturbed before.
    """
    pixels: dict[str, Any] = {"side": how.side}
    pixels["mean"] = how.mean if any(how.mean) else None
    pixels["std"] = how.std if {*how.std} != {1} else None
    if hasattr(model, "forward") and hasattr(model, "state_dict"):  # a torch module
        # Here, not above: a server without a network needs no torch.
        from openset import extract  # noqa: PLC0415

        return NamedModel(extract.load(model, **pixels), input_step)
    if callable(model):
        return CallableModel(model, example)
    if not isinstance(model, str | Path):
        if hasattr(model, "apply") and hasattr(model, "prepare"):
            return NamedModel(model, input_step)
        msg = _check.must(
            "a file, a folder, the name of a network, an extract.Network or a function",
            caller=CALLER,
            name="model",
            got=type(model).__name__,
        )
        raise TypeError(msg)
    path, text = Path(model), str(model)
    if ":" in text and not path.exists():
        from openset import extract  # noqa: PLC0415  # as above

        found = extract.load(text, weights=how.weights, head=how.head, **pixels)
        return NamedModel(found, input_step)
    if not path.exists():
        msg = _check.must(
            "an ONNX file, the folder of a training run, or a name like timm:NAME",
            caller=CALLER,
            name="model",
            got=f"no such file: {path}",
        )
        raise FileNotFoundError(msg)
    if path.is_dir():
        return TrainedModel(path, input_step)
    if input_step:
        msg = _check.must(
            "a network in PyTorch, to move the inputs along a gradient by "
            f"{input_step}, as in the calibration",
            caller=CALLER,
            name="model",
            got=f"{path}, an ONNX file, which has no gradients",
        )
        raise ValueError(msg)
    from openset.serve._onnx_model import OnnxModel  # noqa: PLC0415  # it imports us

    return OnnxModel(path, how, needs)


class TrainedModel(ServedModel):
    """A network in the folder of a run of ``openset train``."""

    gives = WANTED

    def __init__(self, folder: Path, input_step: str) -> None:
        from openset.train import Trained  # noqa: PLC0415  # see load

        self._model = Trained.load(folder).model()
        self._options = _options(input_step)
        self._lock = threading.Lock()
        shape = self._model.shape
        is_image = len(shape) == 3
        is_sized = is_image and self._model.pipeline.side is not None
        self.shape = (None, shape[0], None, None) if is_sized else (None, *shape)
        self.dtype = np.dtype(np.uint8 if is_image else np.float32)
        if is_image:
            pipeline, side = self._model.pipeline, shape[-1]
            last = "" if pipeline.side is None else f", then to {pipeline.side}"
            mean, std = pipeline.mean or (0, 0, 0), pipeline.std or (1, 1, 1)
            self.preprocessing = (
                f"resized to {side} x {side}{last}, RGB, scaled to [0, 1], mean "
                f"{numbers(mean)}, std {numbers(std)}"
            )

    def run(self, batch: Any) -> Outputs:
        """Run the network, one batch after another."""
        with self._lock:
            return Outputs(**self._model.arrays(batch, **self._options))

    def run_images(self, images: Images) -> Outputs:
        """Prepare images as in training, and run them."""
        return self.run(self._model.tensor(list(images)))


class NamedModel(ServedModel):
    """An `extract.Network`: of timm, torchvision, Hugging Face, or your own."""

    gives = WANTED
    shape = (None, 3, None, None)
    dtype = np.dtype(np.uint8)

    def __init__(self, network: Any, input_step: str) -> None:
        if network.kind != "image":
            msg = _check.must(
                "a network for images",
                caller=CALLER,
                name="model",
                got=f"{network.name}, which takes texts",
                remedy="Serve the rejector alone and post the network's outputs",
            )
            raise ValueError(msg)
        self._network = network
        self._options = _options(input_step)
        self._lock = threading.Lock()
        self.preprocessing = network.preprocessing or "as the network defines it"

    def run(self, batch: NDArray[Any]) -> Outputs:
        """Run images (n, 3, h, w), one batch after another."""
        return self.run_images(list(batch.transpose(0, 2, 3, 1)))

    def run_images(self, images: Images) -> Outputs:
        """Preprocess images as the network defines it, and run them."""
        with self._lock:
            return self._network.apply(images, progress=False, **self._options)


class CallableModel(ServedModel):
    """Any Python function of a batch."""

    gives = WANTED
    shape = ()
    dtype = np.dtype(np.float32)

    def __init__(self, function: Callable[[Any], Any], example: Any) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._example = None if example is None else np.asarray(example)
        if self._example is not None:
            self.shape = (None, *self._example.shape[1:])
            self.dtype = self._example.dtype

    def example(self, n: int) -> NDArray[Any]:
        """Return the batch that was given."""
        return np.zeros((n, 1)) if self._example is None else self._example[:n]

    def try_out(self) -> Outputs | None:
        """Run the batch that was given, if any."""
        return None if self._example is None else super().try_out()

    def run(self, batch: NDArray[Any]) -> Any:
        """Call the function, in one thread at a time."""
        with self._lock:
            return self._function(batch)

    def __call__(self, inputs: NDArray[Any]) -> Outputs:
        """Run a batch; without an example the function itself refuses."""
        if self._example is None:
            return self._outputs(self.run, inputs)
        return super().__call__(inputs)


def _options(input_step: str) -> dict[str, Any]:
    """Return how the inputs are perturbed, as for the calibration."""
    if not input_step:
        return {}
    from openset.extract import Odin  # noqa: PLC0415  # see load

    return {"step": Odin.of(input_step)}


def numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.4g}" for v in values)
