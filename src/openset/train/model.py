"""A trained network as a module, as one that `openset.extract` runs; its scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from openset import _check, detectors
from openset._types import UNKNOWN
from openset._xp import to_numpy
from openset.datasets import Samples, lazy_inputs
from openset.extract.head import evaluating
from openset.extract.loop import Arrays
from openset.extract.modules import ModuleNetwork
from openset.extract.network import Batches, Network
from openset.outputs import Outputs
from openset.scores import Scores
from openset.train.batches import as_tensor, blank
from openset.train.learner import Learner
from openset.train.methods import Method
from openset.train.networks import Network as TrainingNetwork

_CALLER = "Trained.apply"
_AT_ONCE = 2048  # samples that the network predicts together
_BACKBONE = "learner.network.backbone"  # of a `TrainedNetwork`


class TrainedNetwork(nn.Module):
    """A trained network: images as uint8 (n, 3, h, w), or rows (n, d), to logits.

    Parameters
    ----------
    learner
        The trained learner.
    """

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.learner = learner

    @property
    def example(self) -> Tensor:
        """Two blank inputs, to trace the module with."""
        return blank(self.learner.shape)

    @property
    def backbone(self) -> nn.Module:
        """All layers but the last, from prepared inputs to features."""
        return self.learner.network.backbone

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return what the backbone takes: images resized and normalised."""
        if inputs.dtype == torch.uint8:
            inputs = self.learner.pipeline.resized(inputs)
        return self.learner.prepared(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.learner.respond(self.prepared(inputs))[1].logits


@dataclass(frozen=True, eq=False, kw_only=True)
class RunNetwork(ModuleNetwork):
    """A network with its preparation in training: `model` is a `TrainedNetwork`."""

    model: TrainedNetwork
    of_files: bool = False  # which get the size of the images in training

    @property
    def layers(self) -> dict[str, str]:
        """Names of the layers, and their kinds."""
        named = self.model.backbone.named_modules()
        return {name: type(one).__name__ for name, one in named if name}

    @property
    def blank(self) -> Any:
        """A black image of the size in training."""
        return np.zeros((*self.model.learner.shape[1:], 3), np.uint8)

    def prepare(self, inputs: Any) -> Tensor:
        """Return a batch for the module: bytes of images, or rows."""
        learner, is_image = self.model.learner, self.kind == "image"
        shape = learner.shape
        if self.of_files:
            inputs = lazy_inputs.resize(inputs, shape[-1], channels=3)
        tensor = as_tensor(inputs, self.kind, None, caller=_CALLER, finite=False)
        # Images of any size will do if the pipeline resizes them.
        is_resized = is_image and learner.pipeline.side is not None
        if tuple(tensor.shape[1:]) != shape and not is_resized:
            size = " × ".join(map(str, shape[-2:]))
            what = f"images of {size}" if is_image else f"rows of {size} numbers"
            got = f"shape {tuple(np.shape(inputs))}"
            _check.fail(_CALLER, "inputs", f"{what}, as in training", got)
        return self.model.prepared(tensor.to(learner.device))

    def outputs(
        self, batches: Batches, *, device: Any, layers: Sequence[str] = (), **how: Any
    ) -> Outputs:
        """Run the network, in batches as in training."""
        of_files = lazy_inputs.is_lazy(batches.inputs)
        batches = replace(
            batches.of(_AT_ONCE), network=replace(self, of_files=of_files)
        )
        how["layers"] = [f"{_BACKBONE}.{name}" for name in layers]
        learner = self.model.learner
        head = _Answer("the method", learner.method, learner.network)
        return super().outputs(batches, device=device, head=head, **how)

    with_head = Network.with_head  # refused: the logits are what the method makes them

    def traced(self) -> tuple[Any, Any]:
        """Return the module and an example."""
        return self.model, self.model.example


def opened(model: TrainedNetwork, classes: Sequence[str], name: str = "") -> RunNetwork:
    """Return a trained network with its preparation in training."""
    about: dict[str, Any] = {"name": name, "preprocessing": "as in training"}
    if len(model.learner.shape) == 3:  # a step of ODIN is one of pixels in [0, 1]
        about |= {"kind": "image", "std": model.learner.pipeline.std}
    else:
        about |= {"kind": "table"}
    return RunNetwork(model=model, classes=tuple(classes), **about)


class _Answer(NamedTuple):
    """A method in place of the last layer: it takes features and gives logits."""

    name: str
    layer: Method
    network: TrainingNetwork

    def arrays(self) -> Arrays:
        """Return weight and bias of the last layer, if the logits are its output."""
        if not self.layer.has_linear_head:
            return {}
        head, n = self.network.head, self.layer.n_classes
        bias = head.weight.new_zeros(n) if head.bias is None else head.bias[:n]
        weight = head.weight[:n].float()
        return {"weight": to_numpy(weight), "bias": to_numpy(bias.float())}


def predict(learner: Learner, samples: Samples) -> tuple[Outputs, Scores]:
    """Return the learner's outputs of samples, and their published scores.

    It runs in float32 whatever the precision of training: scores that differ must not
    be rounded to one number.
    """
    about: dict[str, Any] = {"labels": samples.labels, "groups": samples.groups}
    how: dict[str, Any] = {"device": learner.device, "progress": False}
    run = opened(TrainedNetwork(learner), samples.classes)
    outputs = run.apply(samples.inputs, **about, **how)
    method, network = learner.method, learner.network
    parts = torch.tensor(outputs.features).split(_AT_ONCE)
    with evaluating(learner):
        found = [method.respond(network, one.to(learner.device)).known for one in parts]
    known = torch.cat(found).double().cpu()
    predicted = to_numpy(outputs.logits).argmax(axis=1)
    return outputs, Scores(predicted=predicted, known=known, **about)


def logit_scores(outputs: Outputs) -> dict[str, Scores]:
    """Return the scores of the detectors maxlogit and msp, which is log-odds."""
    known = outputs.take(outputs.labels != UNKNOWN)  # they learn nothing from it
    return {
        name: detectors.make(name).fit(known).score(outputs)
        for name in ("maxlogit", "msp")
    }
