"""`Method`: what a training method adds to a network, and the registry of methods."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from numpy.typing import NDArray
from torch import Tensor, nn

from openset import _check, _plugins
from openset.train.networks import Network

Floats = NDArray[np.float64]


class Response(NamedTuple):
    """Logits (n, C) of the known classes, and the method's score, knownness (n,)."""

    logits: Tensor
    known: Tensor


@dataclass(frozen=True)
class Phase:
    """One update: which loss, and whose parameters it changes.

    Attributes
    ----------
    name
        Name of the update, passed to :meth:`Method.loss`.
    part
        Whose parameters are updated: "classifier" (network and method, by the recipe's
        optimiser) or the name of a part of the method with its own
        :meth:`Method.optimiser`.
    """

    name: str = "classify"
    part: str = "classifier"


class Method(nn.Module):
    """A loss with its own parameters, and the score it is tested with.

    One object belongs to one training run. Subclasses set the class attributes, take
    their options as keywords, and write :meth:`loss`; most need nothing else.

    A subclass is registered under its `name`, for ``train.fit(method=name)``, as soon
    as it is defined (but not with ``class Base(Method, register=False)``, nor if the
    class name begins with an underscore). Where it was not imported yet, it is found as
    ``"package.module:Class"``, or by an entry point of the group ``openset.methods``.

    Parameters
    ----------
    n_classes
        Number of known classes.
    network
        The network to train.
    smoothing
        Label smoothing as in CE+: the target is 1 − ε for the true class and
        ε / (C − 1) for each other one.

    Examples
    --------
    Your own method, in a module that can be imported::

        class Halved(Method):
            def loss(self, network, inputs, labels, phase):
                logits = network(inputs)
                return self.cross_entropy(logits, labels) / 2, logits
    """

    name: ClassVar[str]
    """What users type; by default the class name in lower case."""
    title: ClassVar[str]
    """The name in papers and tables; by default the class name."""
    paper: ClassVar[str] = ""
    """Where it was published, for lists."""
    score: str = "maxlogit"
    """The score it was published with: "maxlogit", "msp" (the largest probability), or
    "custom", which :meth:`respond` computes. An object may have another than its class,
    if an option decides."""
    n_extra: ClassVar[int] = 0
    """Outputs of the last layer beyond the known classes."""
    has_linear_head: ClassVar[bool] = True
    """Whether the logits are a linear function of the features."""
    two_norms: ClassVar[bool] = False
    """Whether it needs two batch norms in place of each."""
    passes: ClassVar[tuple[tuple[Phase, ...], ...]] = ((Phase(),),)
    """Passes over the training data per epoch; the updates made with each batch."""

    def __init_subclass__(cls, *, register: bool = True) -> None:
        super().__init_subclass__()
        for fact, value in (("name", cls.__name__.lower()), ("title", cls.__name__)):
            if fact not in cls.__dict__:
                setattr(cls, fact, value)
        if register and not cls.__name__.startswith("_"):
            REGISTRY.register(cls.name, cls)

    def __init__(
        self, *, n_classes: int, network: Network, smoothing: float = 0.0
    ) -> None:
        super().__init__()
        caller = f"method {self.name}"
        if n_classes < 2:
            msg = _check.must(
                "at least 2",
                caller=caller,
                name="the number of known classes",
                got=n_classes,
                remedy="With one known class there is nothing to classify",
            )
            raise ValueError(msg)
        _check.number(caller, "smoothing", smoothing, low=0, high=1, open_high=True)
        self.n_classes = n_classes
        self.smoothing = smoothing

    def check_batch(self, batch: int) -> None:
        """Raise ValueError for a batch size that the loss cannot work with."""

    def start_epoch(self, epoch: int, epochs: int) -> None:
        """Prepare for an epoch, counted from 0; called before its updates.

        An update may be recorded and replayed as a CUDA graph: numbers that change must
        be in a buffer that is filled in place. A run that is continued starts at a
        later epoch.
        """

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and its logits (n, C), for the accuracy."""
        raise NotImplementedError

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Logits of the known classes, one each."""
        return network.head(features)

    def respond(self, network: Network, features: Tensor) -> Response:
        """Return logits and the published score, from features, at test time."""
        logits = full_precision(self.logits(network, features))
        if self.score == "msp":
            return Response(logits, logits.softmax(dim=1).amax(dim=1))
        return Response(logits, logits.amax(dim=1))

    @classmethod
    def published_margin(
        cls,
        logits: Floats,  # noqa: ARG003  # an interface
        known: Floats,  # noqa: ARG003  # an interface
    ) -> Floats | None:
        """Return the margin of the published rule; >= 0 means accepted.

        Computed from logits (n, C) and published scores (n,). None: the method was
        published without a rule to reject samples.
        """
        return None

    def cross_entropy(
        self, logits: Tensor, labels: Tensor, counts: Tensor | None = None
    ) -> Tensor:
        """Mean cross-entropy with the method's label smoothing."""
        return smooth_cross_entropy(logits, labels, self.smoothing, counts)

    def optimiser(self, part: str) -> torch.optim.Optimizer:
        """Return the optimiser of a part that the recipe's one does not update."""
        msg = f"{self.name}: no part {part!r}"
        raise KeyError(msg)

    @classmethod
    def caution(cls, options: Mapping[str, Any]) -> str:  # noqa: ARG003  # for others
        """Return a caution about these options, or an empty string."""
        return ""

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Return the options and their default values."""
        parameters = inspect.signature(cls).parameters
        given = ("n_classes", "network")
        return {n: p.default for n, p in parameters.items() if n not in given}


_accept = _plugins.subclass_of(Method, "a training method")
REGISTRY: _plugins.Registry[type[Method]] = _plugins.Registry(
    "openset.methods", "a training method", _accept, package="train.methods"
)
"""All training methods: built in, registered, or offered by installed packages."""


def names() -> tuple[str, ...]:
    """Return the names of all methods.

    Examples
    --------
    >>> "openauc" in names()
    True
    """
    return tuple(REGISTRY.names())


def find(
    method: str | type[Method], *, caller: str = "train.fit", argument: str = "method"
) -> type[Method]:
    """Return a method's class by its name, or by ``package.module:Class``."""
    if isinstance(method, type):
        return _accept(caller, method)
    return REGISTRY.find(method, caller=caller, argument=argument)


def make(
    method: str | type[Method], *, n_classes: int, network: Network, **options: Any
) -> Method:
    """Make a method's object; an option it does not have is an error.

    Examples
    --------
    >>> from openset.train.networks import MLP
    >>> network = MLP(3, example=torch.eye(4))
    >>> make("arpl", n_classes=3, network=network, weight=0.2).points.shape
    torch.Size([3, 64])
    """
    kind = find(method)
    for option in options:
        _check.one_of(f"method {kind.name}", "option", option, tuple(kind.options()))
    return kind(n_classes=n_classes, network=network, **options)


def full_precision(tensor: Tensor) -> Tensor:
    """Convert half precision to float32, as sums in a loss need the digits."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def smooth_cross_entropy(
    logits: Tensor, labels: Tensor, smoothing: float, counts: Tensor | None = None
) -> Tensor:
    r"""Cross-entropy with target 1 − ε for the true class, ε/(C − 1) for the others.

    Frameworks spread ε over all classes, the true one included; their value for the
    same targets is :math:`\varepsilon C / (C - 1)`. The mean is over the samples that
    count, by default all.

    Examples
    --------
    >>> logits = torch.tensor([[2.0, 0.0, 0.0]])
    >>> round(float(smooth_cross_entropy(logits, torch.tensor([0]), 0.0)), 4)
    0.2395
    >>> round(float(smooth_cross_entropy(logits, torch.tensor([0]), 0.5)), 4)
    1.2395
    """
    logits = full_precision(logits)
    if smoothing == 0 and counts is None:
        return F.cross_entropy(logits, labels)
    logs = logits.log_softmax(dim=1)
    other = smoothing / (logits.shape[1] - 1)
    of_true = logs.gather(1, labels[:, None]).squeeze(1)
    losses = -((1 - smoothing - other) * of_true + other * logs.sum(dim=1))
    return losses.mean() if counts is None else mean_of(losses, counts)


def mean_of(losses: Tensor, counts: Tensor) -> Tensor:
    """Mean over the samples that count; 0 if none does."""
    return (losses * counts).sum() / counts.sum().clamp(min=1)
