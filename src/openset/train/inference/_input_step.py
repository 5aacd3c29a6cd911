"""Inputs changed by a small step along a gradient, before a network runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openset import _check, _extras
from openset.train.networks import last_layer

with _extras.importing("openset.train", "torch"):
    import torch
    from torch import Tensor, nn

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_ODIN = "odin"


@dataclass(frozen=True, kw_only=True)
class Odin:
    r"""ODIN's input step: towards a larger probability of the predicted class.

    .. math:: x' = x + \varepsilon\,\mathrm{sign}\bigl(
              \nabla_x \log \max_c \mathrm{softmax}_c(f(x) / T)\bigr)

    This raises the probability of known samples more than that of unknown ones. Give it
    to :func:`openset.train.extract`; ODIN is ``MSP(temperature=T)`` on the outputs it
    returns. Other detectors may be fitted on and score such outputs, too.

    Parameters
    ----------
    temperature
        T, which the logits are divided by.
    epsilon
        Length of the step, in units of the network's inputs; with `std`, in units of
        the inputs before they were divided by `std`. Liang et al. chose it on known
        samples and on unknowns of another kind than in the test; 0.0014 is their value
        for DenseNet on CIFAR-10.
    std
        What the pixels of each channel were divided by, if `epsilon` is meant for
        pixels in [0, 1].

    References
    ----------
    Liang, Li and Srikant, "Enhancing the reliability of out-of-distribution image
    detection in neural networks", ICLR 2018.

    Examples
    --------
    The step of this network raises its first input, and with it the larger logit.

    >>> network = nn.Linear(2, 2)
    >>> _ = network.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> step = Odin(temperature=1, epsilon=0.5)
    >>> step.moved(network, (torch.tensor([[2.0, 1.0]]),), {})[0]
    (tensor([[2.5000, 0.5000]]),)
    """

    temperature: float = 1000.0
    epsilon: float = 0.0014
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, is_open in (("temperature", True), ("epsilon", False)):
            value = getattr(self, name)
            number = _check.number("Odin", name, value, low=0, open_low=is_open)
            object.__setattr__(self, name, number)
        if self.std is not None:
            checked = tuple(
                _check.number("Odin", "std", one, low=0, open_low=True)
                for one in self.std
            )
            object.__setattr__(self, "std", checked)

    @property
    def words(self) -> str:
        """The step in words, for :class:`openset.Outputs`; :meth:`of` reads them.

        Examples
        --------
        >>> Odin(std=(0.5, 0.25)).words
        'odin:temperature=1000.0,epsilon=0.0014,std=0.5 0.25'
        >>> Odin.of(Odin(std=(0.5, 0.25)).words) == Odin(std=(0.5, 0.25))
        True
        """
        numbers = f"temperature={self.temperature},epsilon={self.epsilon}"
        return f"{_ODIN}:{numbers}{listed_std(self.std)}"

    @classmethod
    def of(cls, words: str) -> "Odin":
        """Make the step that :attr:`words` describes."""
        try:
            kind, _, rest = words.partition(":")
            given = dict(one.split("=") for one in rest.split(","))
            std = given.pop("std", None)
            options: dict[str, Any] = {key: float(one) for key, one in given.items()}
            if std is not None:
                options["std"] = tuple(float(one) for one in std.split())
            if kind == _ODIN:
                return cls(**options)
        except (ValueError, TypeError) as error:
            raise ValueError(_no_odin(words)) from error
        raise ValueError(_no_odin(words))

    def moved(
        self, model: nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Arguments:
        """Return the arguments of the model after the step."""

        def confidence(*arguments: Any, **keywords: Any) -> Tensor:
            logits = last_layer.logits_of("Odin", model(*arguments, **keywords))
            return (logits / self.temperature).log_softmax(dim=-1).amax(dim=-1)

        return moved(
            confidence,
            arguments,
            keywords,
            caller="Odin",
            epsilon=self.epsilon,
            std=self.std,
        )


def _no_odin(words: str) -> str:
    return _check.must(
        f"that of ODIN, {_ODIN}:temperature=NUMBER,epsilon=NUMBER",
        caller="Odin.of",
        name="input_step",
        got=repr(words),
        remedy="Only the code that perturbed the inputs can do the same to others",
    )


def listed_std(std: tuple[float, ...] | None) -> str:
    """Return the end of the words of a step.

    Examples
    --------
    >>> listed_std((0.5, 0.25)), listed_std(None)
    (',std=0.5 0.25', '')
    """
    return "" if std is None else f",std={' '.join(map(str, std))}"


def words_of(step: Any) -> str:
    """Return the words of a step; for a step of the caller's own, its class."""
    if step is None:
        return ""
    return str(getattr(step, "words", type(step).__name__))


def moved(
    objective: Callable[..., Tensor],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    *,
    caller: str,
    epsilon: float,
    std: tuple[float, ...] | None,
) -> Arguments:
    """Return the arguments after a step of `epsilon` that raises the objective.

    The objective maps the same arguments to a number per sample. Weights collect no
    gradients.
    """
    place, inputs = _the_inputs(caller, arguments, keywords)
    with torch.inference_mode(mode=False), torch.enable_grad():
        start = inputs.detach().clone().requires_grad_()
        positional, named = _with(arguments, keywords, place, start)
        values = objective(*positional, **named)
        (gradient,) = torch.autograd.grad(values.sum(), start)
    direction = gradient.sign()
    if std is not None:
        direction = direction / _per_channel(caller, std, direction)
    return _with(arguments, keywords, place, inputs + epsilon * direction)


def _the_inputs(
    caller: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[int | str, Tensor]:
    """Return the one argument of real numbers, and its place."""
    given: dict[int | str, Any] = dict(enumerate(arguments)) | dict(keywords)
    found = {
        place: one
        for place, one in given.items()
        if isinstance(one, Tensor) and one.is_floating_point()
    }
    if len(found) != 1:
        kinds = ", ".join(
            str(one.dtype) for one in given.values() if isinstance(one, Tensor)
        )
        msg = _check.must(
            "one tensor of real numbers, which can be changed by a small step",
            caller=caller,
            name="inputs",
            got=kinds or "no tensor",
            remedy="Convert bytes of images to numbers in the loader. Texts cannot "
            "be changed by a step: token numbers have no gradient",
        )
        raise TypeError(msg)
    return next(iter(found.items()))


def _with(
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    place: int | str,
    value: Tensor,
) -> Arguments:
    """Return the arguments with another value in one place."""
    if isinstance(place, str):
        return arguments, {**keywords, place: value}
    return (*arguments[:place], value, *arguments[place + 1 :]), dict(keywords)


def _per_channel(caller: str, std: tuple[float, ...], like: Tensor) -> Tensor:
    if like.ndim < 2 or like.shape[1] != len(std):
        msg = _check.must(
            "a number for each channel of the inputs",
            caller=caller,
            name="std",
            got=f"{len(std)} for inputs of shape {tuple(like.shape)}",
        )
        raise ValueError(msg)
    return like.new_tensor(std).reshape(1, -1, *[1] * (like.ndim - 2))
