"""LogitNorm: cross-entropy of logits of one length, so that lengths do not grow."""

from torch import Tensor

from openset import _check
from openset.train.methods._base import Method, full_precision
from openset.train.networks import Network

_TINY = 1e-7  # of the authors' code: no division by zero


class LogitNorm(Method):
    r"""Cross-entropy of the logits divided by their length and a temperature.

    .. math:: L = -\log \operatorname{softmax}_y
              \left( \frac{z}{\tau (\|z\| + 10^{-7})} \right)

    Training only: at test time the logits stay as they are, and the score is their
    largest probability. No negatives are needed.

    Parameters
    ----------
    temperature
        τ: the smaller, the closer to 0 the loss can get.

    References
    ----------
    Wei et al. (2022), Mitigating neural network overconfidence with logit
    normalization. τ = 0.04 is their choice for CIFAR-10, by validation.

    Examples
    --------
    >>> import torch
    >>> from openset.train.methods import make
    >>> from openset.train.networks import MLP
    >>> network = MLP(2, example=torch.eye(4))
    >>> method = make("logitnorm", n_classes=2, network=network, temperature=0.5)
    >>> method.scaled(torch.tensor([[3.0, 4.0], [30.0, 40.0]]))
    tensor([[1.2000, 1.6000],
            [1.2000, 1.6000]])
    """

    name = "logitnorm"
    title = "LogitNorm"
    paper = "LogitNorm (Wei et al. 2022)"
    score = "msp"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        temperature: float = 0.04,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        self.temperature = _check.number(
            f"method {self.name}",
            "temperature",
            temperature,
            low=0,
            open_low=True,
            open_high=True,
        )

    def loss(
        self,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the scaled logits."""
        logits = network(inputs)
        return self.cross_entropy(self.scaled(logits), labels), logits

    def scaled(self, logits: Tensor) -> Tensor:
        """Logits of length 1/τ."""
        logits = full_precision(logits)
        lengths = logits.norm(dim=1, keepdim=True) + _TINY
        return logits / lengths / self.temperature
