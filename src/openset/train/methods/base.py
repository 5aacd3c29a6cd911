"""`Method`: what a training method adds to a network, and the registry of methods."""

from collections.abc import Mapping
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from numpy.typing import NDArray
from torch import Tensor, nn

from openset import _check, _plugins
from openset.train.networks import Network

Floats = NDArray[np.float64]
Loss = tuple[Tensor, Tensor]
"""The loss of a batch, and its logits (n, C), for the accuracy."""


class Response(NamedTuple):
    """Logits (n, C) of the known classes, and the method's score, knownness (n,)."""

    logits: Tensor
    known: Tensor


class Method(nn.Module):
    """A loss with its own parameters, and the score it is tested with.

    One object belongs to one training run. Most methods are a few options and a
    :meth:`loss`; one with parameters makes them in :meth:`build`.

    Options are annotated attributes with a default. Integers are positive, numbers
    finite and, unless their default is, not negative; of a `Literal` one of the values
    is taken; :meth:`check` can say more.

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
    **options
        Those of the class; every method has `smoothing`, label smoothing as in CE+: the
        target is 1 − ε for the true class and ε / (C − 1) for each other one.

    Examples
    --------
    >>> class Halved(Method):
    ...     factor: float = 0.5  # openset train --set factor=0.2
    ...
    ...     def loss(self, network, inputs, labels):
    ...         logits = network(inputs)
    ...         return self.factor * self.cross_entropy(logits, labels), logits
    >>> Halved.options()
    {'smoothing': 0.0, 'factor': 0.5}
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
    passes: ClassVar[tuple[tuple[str, ...], ...]] = (("loss",),)
    """Passes over the training data per epoch: the names of the methods that give the
    losses of the updates made with each batch. Those of "loss" are logged."""
    parts: ClassVar[Mapping[str, str]] = {}
    """Updates that move a part of the method with its own :meth:`optimiser`; all others
    move everything else, by the optimiser of the recipe."""

    smoothing: float = 0.0

    def __init_subclass__(cls, *, register: bool = True) -> None:
        super().__init_subclass__()
        for fact, value in (("name", cls.__name__.lower()), ("title", cls.__name__)):
            if fact not in cls.__dict__:
                setattr(cls, fact, value)
        if register and not cls.__name__.startswith("_"):
            REGISTRY.register(cls.name, cls)

    def __init__(self, *, n_classes: int, network: Network, **options: Any) -> None:
        super().__init__()
        caller, known = f"method {self.name}", _kinds(type(self))
        if n_classes < 2:
            name = "the number of known classes"
            _check.fail(caller, name, "at least 2", n_classes)
        for option, value in options.items():
            _check.one_of(caller, "option", option, tuple(known))
            setattr(self, option, _checked(caller, option, value, *known[option]))
        _check.number(
            caller, "smoothing", self.smoothing, low=0, high=1, open_high=True
        )
        self.n_classes = n_classes
        self.check(caller, network)
        self.build(network)

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Return the options and their default values."""
        return {name: default for name, (_, default) in _kinds(cls).items()}

    def check(self, caller: str, network: Network) -> None:
        """Raise ValueError for options that do not go together."""

    def build(self, network: Network) -> None:
        """Make the method's own parameters."""

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Return the loss of a batch and its logits (n, C)."""
        raise NotImplementedError

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Logits of the known classes, one each."""
        return network.head(features)

    def forward(self, network: Network, features: Tensor) -> Response:
        """Return what :meth:`respond` does, as a call that hooks can record."""
        return self.respond(network, features)

    def respond(self, network: Network, features: Tensor) -> Response:
        """Return logits and the published score, from features, at test time."""
        logits = full_precision(self.logits(network, features))
        shown = logits.softmax(dim=1) if self.score == "msp" else logits
        return Response(logits, shown.amax(dim=1))

    @classmethod
    def published_margin(cls, logits: Floats, known: Floats) -> Floats | None:  # noqa: ARG003  # an interface
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
        raise KeyError(part)


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


def find(method: str | type[Method], *, caller: str = "train.fit") -> type[Method]:
    """Return a method's class by its name, or by ``package.module:Class``."""
    if isinstance(method, type):
        return _accept(caller, method)
    return REGISTRY.find(method, caller=caller, argument="method")


def make(
    method: str | type[Method], *, n_classes: int, network: Network, **options: Any
) -> Method:
    """Make a method's object, for a training loop of your own.

    Examples
    --------
    >>> from openset.train.networks import MLP
    >>> network = MLP(3, example=torch.eye(4))
    >>> make("arpl", n_classes=3, network=network, weight=0.2).points.shape
    torch.Size([3, 64])
    """
    return find(method)(n_classes=n_classes, network=network, **options)


def _kinds(method: type[Method]) -> dict[str, tuple[Any, Any]]:
    """Return annotation and default of each option, those of base classes first."""
    return {
        name: (kind, getattr(method, name))
        for name, kind in get_type_hints(method).items()
        if ClassVar not in (kind, get_origin(kind))  # a fact, not an option
        and name != "score"
        and hasattr(method, name)
        and not hasattr(nn.Module, name)
    }


def _checked(caller: str, name: str, value: Any, kind: Any, default: Any) -> Any:
    if get_origin(kind) is Literal:
        return _check.one_of(caller, name, value, get_args(kind))
    if kind is bool:
        return _check.boolean(caller, name, value)
    if kind is int:
        return _check.positive_int(caller, name, value)
    if kind is float:
        low = 0.0 if default >= 0 else -np.inf
        return _check.number(
            caller, name, value, low=low, open_low=low < 0, open_high=True
        )
    return value


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
    if counts is None:
        return losses.mean()
    return (losses * counts).sum() / counts.sum().clamp(min=1)  # 0 if none counts
