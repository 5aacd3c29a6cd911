"""`Learner`: network and method as one module, from raw inputs to the loss."""

import torch
from torch import Tensor, nn

from openset.train import networks
from openset.train._spec import Spec
from openset.train.augment import Pipeline
from openset.train.methods import Method, Response, find, make
from openset.train.networks import Network


class Learner(nn.Module):
    """What is trained. One forward pass is one loss: DDP, Fabric and compilers see all.

    Images arrive as bytes and are scaled here, so that a saved learner knows how.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, network: Network, method: Method, pipeline: Pipeline) -> None:
        super().__init__()
        self.network = network
        self.method = method
        mean = torch.tensor(pipeline.mean or (0.0, 0.0, 0.0)).reshape(1, 3, 1, 1)
        std = torch.tensor(pipeline.std or (1.0, 1.0, 1.0)).reshape(1, 3, 1, 1)
        self.register_buffer("scale", 1 / (255 * std), persistent=False)
        self.register_buffer("shift", -mean / std, persistent=False)

    def forward(
        self, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and the number of right answers."""
        loss, logits = self.method.loss(
            self.network, self.prepared(inputs), labels, phase
        )
        known = logits[:, : self.method.n_classes]
        return loss, (known.argmax(dim=1) == labels).sum()

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return what the network is fed: images scaled, rows as they are."""
        if inputs.dtype != torch.uint8:
            return inputs
        images = inputs.to(self.scale.dtype) * self.scale + self.shift
        if images.is_cuda:
            return images.contiguous(memory_format=torch.channels_last)
        return images

    def respond(self, inputs: Tensor) -> tuple[Tensor, Response]:
        """Return features, and what the method makes of them, at test time."""
        features = self.network.backbone(self.prepared(inputs))
        return features, self.method.respond(self.network, features)


def make_learner(spec: Spec, network: str | nn.Module, example: Tensor) -> Learner:
    """Make what a spec describes, for inputs like `example`, on the CPU."""
    kind, pipeline = find(spec.method), spec.recipe.pipeline
    if example.dtype == torch.uint8:
        example = pipeline.evaluate(example)
    n_classes = spec.protocol.n_known
    made = networks.make(
        network, n_classes + kind.n_extra, example, two_norms=kind.two_norms
    )
    # What the method asks of the images comes from the recipe.
    offered = {
        "smoothing": spec.recipe.smoothing,
        "mean": pipeline.mean,
        "std": pipeline.std,
        "side": example.shape[-1],
    }
    options = {k: v for k, v in offered.items() if k in kind.options()} | spec.options
    method = make(spec.method, n_classes=n_classes, network=made, **options)
    return Learner(made, method, pipeline)
