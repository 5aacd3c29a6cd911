"""ODIN: inputs moved by a small step along a gradient, before a network runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openset import _check
from openset._optional import needs
from openset.extract.head import logits_of

with needs("torch"):
    import torch
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Odin:
    r"""ODIN's input step: towards a larger probability of the predicted class.

    .. math:: x' = x + \varepsilon\,\mathrm{sign}\bigl(
              \nabla_x \log \max_c \mathrm{softmax}_c(f(x) / T)\bigr)

    This raises the probability of known samples more than that of unknown ones. Give it
    to :func:`openset.extract.extract`; ODIN is ``MSP(temperature=T)`` on the outputs it
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
        _check.number("Odin", "temperature", self.temperature, low=0, open_low=True)
        _check.number("Odin", "epsilon", self.epsilon, low=0)
        for divisor in self.std or ():
            _check.number("Odin", "std", divisor, low=0, open_low=True)

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
        std = " ".join(str(float(one)) for one in self.std or ())
        numbers = {"temperature": self.temperature, "epsilon": self.epsilon}
        words = ",".join(f"{name}={float(one)}" for name, one in numbers.items())
        return f"odin:{words}" + f",std={std}" * bool(std)

    @classmethod
    def of(cls, words: str) -> "Odin":
        """Make the step that :attr:`words` describes; "odin" alone: the defaults."""
        name, _, rest = words.partition(":")
        if name != "odin":
            remedy = "Only the code that perturbed the inputs can perturb others"
            _check.fail("Odin.of", "step", "that of ODIN", repr(words), remedy)
        given = dict(one.split("=") for one in rest.split(",") if one)
        numbers = {key: tuple(map(float, one.split())) for key, one in given.items()}
        std = numbers.pop("std", None)
        return cls(**{key: one for key, (one,) in numbers.items()}, std=std)

    def moved(
        self, model: nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the model after the step.

        Weights collect no gradients.
        """
        given: dict[Any, Any] = dict(enumerate(arguments)) | dict(keywords)
        tensors = {k: one for k, one in given.items() if isinstance(one, Tensor)}
        places = [k for k, one in tensors.items() if one.is_floating_point()]
        if len(places) != 1:
            rule = "one tensor of real numbers, which can be changed by a small step"
            remedy = "Convert bytes of images; the tokens of texts have no gradient"
            got = [one.dtype for one in tensors.values()]
            _check.fail("Odin", "inputs", rule, got, remedy, TypeError)
        inputs = given[places[0]]

        def called(changed: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
            named = given | {places[0]: changed}
            return tuple(named.pop(i) for i in range(len(arguments))), named

        with torch.inference_mode(mode=False), torch.enable_grad():
            start = inputs.detach().clone().requires_grad_()
            positional, named = called(start)
            logits = logits_of("Odin", model(*positional, **named)) / self.temperature
            best = logits.log_softmax(dim=-1).amax(dim=-1)
            (gradient,) = torch.autograd.grad(best.sum(), start)
        step = gradient.sign()
        if self.std is not None:
            shape = (1, -1, *[1] * (step.ndim - 2))
            step = step / step.new_tensor(self.std).reshape(shape)
        return called(inputs + self.epsilon * step)
