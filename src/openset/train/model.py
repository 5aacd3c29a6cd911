"""`TrainedNetwork`: a trained network as a module, from raw inputs to logits."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from openset import _check
from openset.datasets import lazy_inputs
from openset.extract.odin import Odin
from openset.outputs import WithGaps
from openset.train.augment import Pipeline
from openset.train.batches import as_tensor, blank
from openset.train.learner import Learner
from openset.train.predict import forward

_AT_ONCE = 256


class TrainedNetwork(nn.Module):
    """A trained network: images as uint8 (n, 3, h, w), or rows (n, d), to logits.

    Parameters
    ----------
    learner
        The trained learner.
    pipeline
        How images are resized.
    shape
        Shape of one sample in training.
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

    @property
    def backbone(self) -> nn.Module:
        """All layers but the last, from prepared inputs to features."""
        return self.learner.network.backbone

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        if inputs.dtype == torch.uint8:
            inputs = self.pipeline.resized(inputs)
        return self.learner.respond(inputs)[1].logits

    def moved(self, inputs: Tensor, step: Odin) -> Tensor:
        """Return inputs as the network takes them, perturbed by the step."""
        std = self.pipeline.std
        if inputs.dtype == torch.uint8 and step.std is None and std is not None:
            step = replace(step, std=tuple(std))  # of pixels in [0, 1]
        parts = []
        for part in inputs.split(_AT_ONCE):
            batch = part.to(self.learner.device)
            is_bytes = batch.dtype == torch.uint8
            resized = self.pipeline.resized(batch) if is_bytes else batch
            (made,), _ = step.moved(self, (self.learner.prepared(resized),), {})
            parts.append(made)
        return torch.cat(parts)

    def arrays(
        self,
        inputs: Tensor,
        *,
        step: Odin | None = None,
        layers: Sequence[str] = (),
        progress: bool = False,
    ) -> dict[str, Any]:
        """Return logits and features, and `input_step`: for `Outputs`.

        The arguments are those of :meth:`openset.train.Trained.apply`.
        """
        about = {} if step is None else {"input_step": step.words}
        inputs = inputs if step is None else self.moved(inputs, step)
        found = forward(
            self.learner, inputs, self.pipeline, layers=layers, progress=progress
        )
        return about | {name: found[name] for name in ("logits", "features")}

    def tensor(self, inputs: Any) -> Tensor:
        """Return arrays or image files as :meth:`forward` takes them."""
        caller, is_image = "Trained.apply", len(self.shape) == 3
        kind = "image" if is_image else "table"
        # Files are read at the size of the training images.
        tensor = as_tensor(inputs, kind, self.shape[-1], caller=caller)
        if len(tensor) == 0:
            _check.fail(caller, "inputs", "at least one sample", "none")
        # Images of any size will do if the pipeline resizes them.
        is_resized = is_image and self.pipeline.side is not None
        if tuple(tensor.shape[1:]) != self.shape and not is_resized:
            size = " × ".join(map(str, self.shape[-2:]))
            what = f"images of {size}" if is_image else f"rows of {size} numbers"
            got = f"shape {tuple(np.shape(inputs))}"
            _check.fail(caller, "inputs", f"{what}, as in training", got)
        return tensor


def readable(model: TrainedNetwork, inputs: Any) -> WithGaps:
    """Return samples that can be read: images that are not damaged, finite rows."""
    is_read = np.ones(len(inputs), dtype=bool)
    is_array = isinstance(inputs, np.ndarray)
    if is_array and inputs.ndim == 2 and inputs.dtype.kind == "f":
        is_read = np.isfinite(inputs).all(axis=1)
        tensor = model.tensor(np.where(is_read[:, None], inputs, 0))
    elif lazy_inputs.is_lazy(inputs):
        mended = lazy_inputs.Mended(inputs)
        tensor = model.tensor(mended)
        is_read[list(mended.damaged)] = False
    else:
        tensor = model.tensor(inputs)
    if not is_read.all():
        tensor = tensor[is_read] if is_read.any() else tensor[:1]
    return WithGaps(tensor, is_read)
