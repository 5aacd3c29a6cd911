"""Base of methods that are trained with negatives: samples of no known class."""

from typing import ClassVar

import torch
from torch import Tensor

from openset import _check
from openset.train.methods._base import Method, full_precision
from openset.train.networks import Network


class WithNegatives(Method, register=False):
    """A method whose loss takes known samples and negatives.

    In a training run they are the negative part of the protocol, or another data set
    (``train.fit(negatives=...)``). Each batch of n samples gets :meth:`n_negatives` of
    them; both go through the network together, so that batch norm treats them alike.

    Parameters
    ----------
    ratio
        Negatives per known sample.
    """

    needs_negatives: ClassVar[bool] = True
    """Whether it cannot be trained without negatives."""

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        ratio: float = 1.0,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        _check.number(caller, "ratio", ratio, low=0, open_low=True, open_high=True)
        self.part, self.whole = _check.fraction(ratio).as_integer_ratio()

    def n_negatives(self, n: int) -> int:
        """Return the number of negatives for n known samples, rounded up."""
        return -(-n * self.part // self.whole)

    def loss(
        self,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and of negatives, and the logits of the batch."""
        raise NotImplementedError

    def together(
        self, network: Network, inputs: Tensor, negatives: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return features and logits of samples and negatives, from one pass."""
        if negatives is None:
            raise ValueError(missing(self.name, caller=f"method {self.name}"))
        features = network.backbone(torch.cat([inputs, negatives]))
        return features, full_precision(self.logits(network, features))


def missing(method: str, *, caller: str) -> str:
    """Return the message for a training without negatives."""
    return _check.must(
        f"given for the method {method!r}",
        caller=caller,
        name="negatives",
        got="none",
        remedy="Name a data set without samples of the known classes, such as "
        "negatives='svhn', or use a protocol with negative classes",
    )


def to_uniform(logits: Tensor) -> Tensor:
    r"""Cross-entropy to equal probabilities, one value per sample.

    .. math:: -\tfrac1C \sum_c \log p_c

    It is smallest, log C, if all probabilities are equal.

    Examples
    --------
    >>> to_uniform(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    tensor([0.6931, 1.1269])
    """
    return -logits.log_softmax(dim=1).mean(dim=1)


def mean_over_both(known: Tensor, negative: Tensor, n: int, m: int | Tensor) -> Tensor:
    """Mean over n known samples and m negatives together, from the mean of each."""
    return (n * known + m * negative) / (n + m)
