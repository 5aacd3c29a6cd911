"""`Model`: a trained network as others use it, from raw inputs to logits."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from openset import _check
from openset._types import ArtefactError
from openset.train import _checkpoint
from openset.train._batches import as_tensor
from openset.train._learner import Learner, make_learner
from openset.train._respond import run
from openset.train._spec import Spec
from openset.train.augment import Pipeline

_CALLER = "Trained.model"


class Model(nn.Module):
    """A trained network: images as bytes (n, 3, h, w), or rows (n, d), to logits.

    Parameters
    ----------
    learner
        The trained one.
    pipeline
        How images are brought to size.
    shape
        Of one sample in training.
    """

    def __init__(
        self, learner: Learner, pipeline: Pipeline, shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.learner, self.pipeline, self.shape = learner, pipeline, shape

    @property
    def example(self) -> Tensor:
        """Two blank inputs, to trace the module with."""
        return blank(self.shape)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        if inputs.dtype == torch.uint8:
            inputs = self.pipeline.resized(inputs)
        return self.learner.respond(inputs)[1].logits

    def outputs(
        self, inputs: Tensor | NDArray[Any], *, progress: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Return logits and features of inputs as the module takes them."""
        tensor = torch.as_tensor(inputs)
        rows = torch.arange(len(tensor))
        found = run(self.learner, tensor, rows, self.pipeline, progress=progress)
        arrays = {"logits": found.logits, "features": found.features}
        return {name: one.cpu().numpy() for name, one in arrays.items()}

    def tensor(self, inputs: Any) -> Tensor:
        """Return arrays as the module takes them."""
        caller, is_image = "Trained.apply", len(self.shape) == 3
        kind = "image" if is_image else "table"
        # Files are brought to the size the training images had, then go their way.
        tensor = as_tensor(inputs, kind, self.shape[-1], caller=caller)
        if len(tensor) == 0:
            rule, got = "at least one sample", "none"
            raise ValueError(_check.must(rule, caller=caller, name="inputs", got=got))
        # Images that are brought to size have any.
        is_sized = is_image and self.pipeline.side is not None
        if tuple(tensor.shape[1:]) != self.shape and not is_sized:
            size = " × ".join(map(str, self.shape[-2:]))
            what = f"images of {size}" if is_image else f"rows of {size} numbers"
            got = f"shape {tuple(np.shape(inputs))}"
            rule = f"{what}, as in training"
            raise ValueError(_check.must(rule, caller=caller, name="inputs", got=got))
        return tensor


def blank(shape: tuple[int, ...]) -> Tensor:
    """Return two black images, or two rows of zeros."""
    dtype = torch.uint8 if len(shape) == 3 else torch.float32
    return torch.zeros(2, *shape, dtype=dtype)


def restore(
    folder: Path,
    spec: Spec,
    shape: tuple[int, ...] | None,
    network: nn.Module | None,
) -> Learner:
    """Make the learner of a finished run again, with its weights.

    Parameters
    ----------
    folder, spec
        Of the run.
    shape
        Of one sample as the network's tensors have it.
    network
        The caller's own model, if one was trained.
    """
    path = folder / "checkpoint.safetensors"
    if not path.exists() or shape is None:
        what = "no checkpoint" if shape is not None else "not said what its inputs are"
        msg = _check.must(
            "a folder in which a run has ended",
            caller=_CALLER,
            name="the run",
            got=f"{folder} with {what}",
            remedy="Train again with out=",
        )
        raise ArtefactError(msg)
    if network is None and " " in spec.network:  # a module's name and hash
        msg = _check.must(
            "given",
            caller=_CALLER,
            name="network",
            got=None,
            remedy=f"The run trained a model of your own, {spec.network.split()[0]}: "
            "make one and pass it",
        )
        raise ValueError(msg)
    chosen = spec.network if network is None else network
    learner = make_learner(spec, chosen, blank(shape))
    _checkpoint.load(path, learner, {})
    return learner
