"""`Learner`: network and method as one module, from raw inputs to the loss."""

from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from openset import _check
from openset.train import networks
from openset.train.augment import Normalize
from openset.train.jobs._spec import Spec
from openset.train.learner._extra_samples import WithExtraSamples
from openset.train.learner._rotation import RotationHead, check_images, quarter_turns
from openset.train.methods import Method, Response, make
from openset.train.networks import Network


class Learner(nn.Module):
    """The module that is trained: network, method and normalisation of images.

    One forward pass is one loss, so that DDP, Fabric and compilers see everything.
    Images arrive as uint8 and are normalised here, so that a saved learner can be used
    on raw images. The auxiliary head, if there is one, is used in training only.
    """

    def __init__(
        self,
        network: Network,
        method: Method,
        normalize: Normalize,
        auxiliary: RotationHead | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.method = method
        self.normalize = normalize
        self.auxiliary = auxiliary

    @property
    def device(self) -> torch.device:
        """Where the learner is."""
        return self.normalize.scale.device

    def forward(
        self,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and the number of correctly classified samples."""
        samples = self.prepared(inputs)
        loss_of = getattr(self.method, phase)
        # Only methods that take negatives are given any.
        more = {} if negatives is None else {"negatives": self.prepared(negatives)}
        if self.auxiliary is None or phase != "loss":
            loss, logits = loss_of(self.network, samples, labels, **more)
        else:
            images, turns = quarter_turns(inputs)
            both = WithExtraSamples(self.network, self.prepared(images))
            # A method uses the network as it always does; the turned images go along.
            network = cast("Network", both)
            loss, logits = loss_of(network, samples, labels, **more)
            features = both.features(labels.shape[0])
            loss = loss + self.auxiliary.loss(features, turns)
        known = logits[:, : self.method.n_classes]
        return loss, (known.argmax(dim=1) == labels).sum()

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return the network's input: normalised images, or rows as they are."""
        return self.normalize(inputs) if inputs.dtype == torch.uint8 else inputs

    def respond(self, inputs: Tensor) -> tuple[Tensor, Response]:
        """Return features, and the method's logits and score, at test time."""
        features = self.network.backbone(self.prepared(inputs))
        return features, self.method.respond(self.network, features)


def make_learner(
    spec: Spec,
    network: str | nn.Module,
    example: Tensor,
    *,
    pretrained: bool | Path = False,
) -> Learner:
    """Make the learner a spec describes, for inputs like `example`, on the CPU.

    `pretrained` weights are read only if they are given: a finished run has its own.
    """
    kind, pipeline = spec.method_class, spec.recipe.pipeline
    normalize = pipeline.normalizer()
    if example.dtype == torch.uint8:
        example = normalize(pipeline.resized(example))
    elif "side" in kind.options():  # it generates images of that side
        rule = "one that does not generate images, for samples that are no images"
        remedy = "openset train --list shows the others, arpl among them"
        msg = _check.must(
            rule, caller="train.fit", name="method", got=repr(kind.name), remedy=remedy
        )
        raise ValueError(msg)
    n_classes = spec.protocol.n_known
    made = networks.make(
        network,
        n_classes + kind.n_extra,
        example,
        two_norms=kind.two_norms,
        dropout=spec.recipe.dropout,
        pretrained=pretrained,
    )
    # Settings of the recipe that the method takes as options.
    offered = {
        "smoothing": spec.recipe.smoothing,
        "mean": pipeline.mean,
        "std": pipeline.std,
        "side": example.shape[-1],
    }
    options = {k: v for k, v in offered.items() if k in kind.options()} | spec.options
    method = make(kind, n_classes=n_classes, network=made, **options)
    # Made last: network and method start from the weights they have without it.
    auxiliary = None
    if spec.recipe.auxiliary == "rotation":
        check_images(example)
        auxiliary = RotationHead(made.n_features, weight=spec.recipe.auxiliary_weight)
    return Learner(made, method, normalize, auxiliary)
