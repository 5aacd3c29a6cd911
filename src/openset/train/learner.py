"""`Learner`: network and method as one module, from raw inputs to the loss."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

from openset import _check
from openset.train import networks
from openset.train.augment import Pipeline
from openset.train.methods import Method, Response
from openset.train.methods.base import full_precision
from openset.train.networks import Network
from openset.train.plan import Spec


class Learner(nn.Module):
    r"""The module that is trained: one forward pass is one loss.

    Images arrive as uint8 and are normalised here, so that a saved learner can be used
    on raw images. The `rotation` layer serves training only: it predicts from the
    features by how many quarter turns an image was turned,

    .. math:: L = L_\text{method} + w \, \overline{\text{CE}(h(f(x)), \text{turns})}

    over the images of a batch, upright, and half as many turned ones
    (:func:`quarter_turns`), which run through the network in one batch.

    References
    ----------
    Gidaris et al. (2018), Unsupervised representation learning by predicting image
    rotations; Hendrycks et al. (2019), Using self-supervised learning can improve model
    robustness and uncertainty, who add it to a classifier with weight 0.5.
    """

    def __init__(
        self,
        network: Network,
        method: Method,
        pipeline: Pipeline,
        shape: tuple[int, ...],
        *,
        rotation: float | None = None,
    ) -> None:
        super().__init__()
        self.network, self.method = network, method
        self.pipeline, self.normalize = pipeline, pipeline.normalizer()
        self.shape = shape  # of one raw sample
        # Made last: network and method start from the weights they have without it.
        is_on = rotation is not None
        self.rotation = nn.Linear(network.n_features, 4) if is_on else None
        self.rotation_weight = rotation or 0.0

    @property
    def device(self) -> torch.device:
        """Where the learner is."""
        return self.normalize.scale.device

    def forward(
        self,
        inputs: Tensor,
        labels: Tensor,
        update: str = "loss",
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and the number of correctly classified samples."""
        loss_of, samples = getattr(self.method, update), self.prepared(inputs)
        # Only methods that take negatives are given any.
        more = {} if negatives is None else {"negatives": self.prepared(negatives)}
        if self.rotation is None or update != "loss":
            loss, logits = loss_of(self.network, samples, labels, **more)
        else:
            images, turns = quarter_turns(inputs)
            # A method uses the network as it always does; the turned images go along.
            both = WithExtraSamples(self.network, self.prepared(images))
            loss, logits = loss_of(both, samples, labels, **more)
            guess = full_precision(self.rotation(both.features(labels.shape[0])))
            loss = loss + self.rotation_weight * F.cross_entropy(guess, turns)
        known = logits[:, : self.method.n_classes]
        return loss, (known.argmax(dim=1) == labels).sum()

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return the network's input: normalised images, or rows as they are."""
        return self.normalize(inputs) if inputs.dtype == torch.uint8 else inputs

    def respond(self, inputs: Tensor) -> tuple[Tensor, Response]:
        """Return features, and the method's logits and score, at test time."""
        features = self.network.backbone(self.prepared(inputs))
        return features, self.method(self.network, features)


def make_learner(
    spec: Spec,
    network: str | nn.Module | None,
    example: Tensor,
    *,
    pretrained: bool | str | Path = False,
) -> Learner:
    """Make the learner a spec describes, for inputs like `example`, on the CPU.

    `pretrained` weights are read only if they are given: a finished run has its own.
    """
    kind, recipe, pipeline = spec.method_class, spec.recipe, spec.recipe.pipeline
    shape, n_classes = tuple(example.shape[1:]), spec.protocol.n_known
    if example.dtype == torch.uint8:
        example = pipeline.normalizer()(pipeline.resized(example))
    made = networks.make(
        network,
        n_classes + kind.n_extra,
        example,
        two_norms=kind.two_norms,
        dropout=recipe.dropout,
        pretrained=pretrained,
    )
    # Settings of the recipe that the method takes as options.
    offered: dict[str, Any] = {"smoothing": recipe.smoothing, "side": example.shape[-1]}
    offered |= {"mean": pipeline.mean, "std": pipeline.std}
    options = {k: v for k, v in offered.items() if k in kind.options()} | spec.options
    method = kind(n_classes=n_classes, network=made, **options)
    rotation = recipe.auxiliary_weight if recipe.auxiliary == "rotation" else None
    if rotation is not None and example.shape[2:] != (example.shape[-1],) * 2:
        got = f"'rotation' for samples of shape {tuple(example.shape[1:])}"
        rule = "'none' unless the samples are square images"
        _check.fail("train.fit", "auxiliary", rule, got, "Resize images: side=32")
    return Learner(made, method, pipeline, shape, rotation=rotation)


def quarter_turns(images: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the first half of a batch, a third of it by 90, by 180 and by 270 degrees.

    The batch is in random order, so its first half is a random one. Of fewer than six
    images, three are turned, or all. No random numbers are drawn, and no shape depends
    on values.

    Returns
    -------
    tuple
        The turned images, and the number of quarter turns of all images: of the batch
        itself (0), then of the turned ones.

    Examples
    --------
    >>> images = torch.arange(24).reshape(6, 1, 2, 2)
    >>> turned, turns = quarter_turns(images)
    >>> turned[0, 0].tolist(), turns.tolist()
    ([[1, 3], [0, 2]], [0, 0, 0, 0, 0, 0, 1, 2, 3])
    """
    n = images.shape[0]
    n_turned = min(n, max(3, n // 2))
    third = n_turned // 3
    sizes = [third, n_turned - 2 * third, third]
    parts = images[:n_turned].split(sizes)
    turned = [torch.rot90(part, k, (2, 3)) for k, part in enumerate(parts, start=1)]
    turns = [
        torch.full((m,), k, device=images.device) for k, m in enumerate([n, *sizes])
    ]
    return torch.cat(turned), torch.cat(turns)


class WithExtraSamples:
    """A network for one call of a method's loss, which also runs additional samples.

    It is used like the network itself. The first pass also runs the additional samples,
    in one batch, so that batch norm treats them like the others; they are removed again
    before the method gets a result, also where it mixes hidden states.

    Examples
    --------
    >>> from openset.train.networks import MLP
    >>> rows = torch.eye(4)
    >>> both = WithExtraSamples(MLP(3, example=rows), rows[:1])
    >>> both(rows).shape, both.features(4).shape
    (torch.Size([4, 3]), torch.Size([5, 64]))
    """

    def __init__(self, network: Network, more: Tensor) -> None:
        self._network, self._n = network, more.shape[0]
        # The additional samples: at the door, half way (at a place), or through.
        self._waiting: Tensor | None = more
        self._place = ""
        self._features: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)  # sizes, places, the head

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the logits of the method's samples."""
        return self._network.head(self.backbone(inputs))

    def backbone(self, inputs: Tensor) -> Tensor:
        """Return the features of the method's samples."""
        return self.after(self.before(inputs, "input"), "input")

    def before(self, inputs: Tensor, place: str) -> Tensor:
        """Run the part of the backbone that lies before `place`."""
        if self._waiting is None or self._place:
            return self._network.before(inputs, place)
        hidden = self._network.before(torch.cat([inputs, self._waiting]), place)
        self._waiting, self._place = hidden[-self._n :], place
        return hidden[: -self._n]

    def after(self, hidden: Tensor, place: str) -> Tensor:
        """Run the part of the backbone behind `place`; return features."""
        if self._waiting is None:
            return self._network.after(hidden, place)
        together, self._waiting = torch.cat([hidden, self._waiting]), None
        self._features = self._network.after(together, place)
        return self._features[: -self._n]

    def features(self, n: int) -> Tensor:
        """Return the features of the first `n` samples, then of the additional ones.

        The first samples of a method are those of its batch; synthetic ones follow.
        """
        return torch.cat([self._features[:n], self._features[-self._n :]])
