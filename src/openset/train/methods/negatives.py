"""Methods trained with negatives: Entropic, Objectosphere, Outlier Exposure, energy."""

import torch
from torch import Tensor

from openset import _check
from openset.train.methods.base import Loss, Method, Response, full_precision
from openset.train.networks import Network


class WithNegatives(Method, register=False):
    """A method whose loss takes known samples and negatives, of no known class.

    Each batch of n samples gets :meth:`n_negatives` of them, through the network
    together, so that batch norm treats them alike. They are the negative part of the
    protocol, or another data set (``train.fit(negatives=...)``).
    """

    ratio: float = 1.0

    def check(self, caller: str, network: Network) -> None:
        """Raise for a ratio of 0."""
        _check.number(caller, "ratio", self.ratio, low=0, open_low=True)
        # Plain integers: n_negatives may be compiled.
        self.per, self.each = _check.fraction(self.ratio).as_integer_ratio()

    def n_negatives(self, n: int) -> int:
        """Return the number of negatives for n known samples, rounded up."""
        return -(-n * self.per // self.each)

    def loss(  # type: ignore[override]  # others take no negatives
        self, network: Network, inputs: Tensor, labels: Tensor, negatives: Tensor
    ) -> Loss:
        """Return the loss of a batch and of negatives, and the logits of the batch."""
        n = labels.shape[0]
        features = network.backbone(torch.cat([inputs, negatives]))
        logits = full_precision(self.logits(network, features))
        known = self.cross_entropy(logits[:n], labels)
        return self.total(known, logits, features, n), logits[:n]

    def total(self, known: Tensor, logits: Tensor, features: Tensor, n: int) -> Tensor:
        """Return the loss; the first n outputs are those of known samples."""
        raise NotImplementedError


class Entropic(WithNegatives):
    r"""Cross-entropy; the target of negatives is the same probability for each class.

    .. math:: L(x) = \begin{cases}
              -\log p_y & x \text{ known} \\
              -\tfrac1C \sum_c \log p_c & x \text{ negative}
              \end{cases}

    averaged over all samples of both kinds; the score is the largest probability.

    References
    ----------
    Dhamija et al. (2018), Reducing network agnostophobia.
    """

    title = "Entropic open-set loss"
    paper = "Network agnostophobia (Dhamija et al. 2018)"
    score = "msp"

    def total(self, known: Tensor, logits: Tensor, features: Tensor, n: int) -> Tensor:
        """Mean over all samples of both kinds."""
        return of_all(known, to_uniform(logits[n:]), n)


class OutlierExposure(WithNegatives):
    r"""Cross-entropy, and λ times that of negatives to equal probabilities.

    .. math:: L = \frac1n \sum_x -\log p_y(x)
              + \lambda \frac1m \sum_u -\tfrac1C \sum_c \log p_c(u)

    References
    ----------
    Hendrycks et al. (2019), Deep anomaly detection with outlier exposure: λ = 0.5 for
    images, 256 negatives beside 128 samples.
    """

    name = "outlier_exposure"
    title = "Outlier Exposure"
    paper = "Outlier Exposure (Hendrycks et al. 2019)"
    score = "msp"
    weight: float = 0.5
    ratio: float = 2.0

    def total(self, known: Tensor, logits: Tensor, features: Tensor, n: int) -> Tensor:
        """Sum of both means."""
        return known + self.weight * to_uniform(logits[n:]).mean()


class EnergyBounded(WithNegatives):
    r"""Cross-entropy, and squared hinges on the energies of both kinds of samples.

    .. math:: E(x) = -\log \sum_c e^{z_c}, \qquad
              L = \overline{-\log p_y} + \lambda \left(
              \overline{\max(0, E(x) - m_\text{in})^2} +
              \overline{\max(0, m_\text{out} - E(u))^2} \right)

    The score is -E. The authors fine-tune a trained network (10 epochs, rate 0.001);
    the bounds are theirs for CIFAR-10 and depend on how large the logits are.

    References
    ----------
    Liu et al. (2020), Energy-based out-of-distribution detection, section 3.2.
    """

    name = "energy_bounded"
    title = "Energy-bounded training"
    paper = "Energy-based OOD detection (Liu et al. 2020)"
    score = "custom"
    weight: float = 0.1
    m_in: float = -23.0
    m_out: float = -5.0
    ratio: float = 2.0

    def check(self, caller: str, network: Network) -> None:
        """Raise unless the bounds leave room between them."""
        super().check(caller, network)
        if self.m_in >= self.m_out:
            got = f"{self.m_out} with m_in={self.m_in}"
            _check.fail(caller, "m_out", "above m_in", got)

    def total(self, known: Tensor, logits: Tensor, features: Tensor, n: int) -> Tensor:
        """Cross-entropy and both hinges."""
        energy = -logits.logsumexp(dim=1)
        above = (energy[:n] - self.m_in).relu() ** 2
        below = (self.m_out - energy[n:]).relu() ** 2
        return known + self.weight * (above.mean() + below.mean())

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits; minus the energy."""
        logits = full_precision(self.logits(network, features))
        return Response(logits, logits.logsumexp(dim=1))


class Objectosphere(WithNegatives):
    r"""Entropic open-set loss that also makes features of negatives short.

    .. math:: L(x) = \begin{cases}
              -\log p_y + \lambda \max(0, \xi - \|f\|)^2 & x \text{ known} \\
              -\tfrac1C \sum_c \log p_c + \lambda \|f\|^2 & x \text{ negative}
              \end{cases}

    averaged over all samples of both kinds; the score is
    :math:`\max_c p_c \cdot \|f\|`.

    Parameters
    ----------
    weight, length
        λ and ξ; both depend on how long the features of a network are.

    References
    ----------
    Dhamija et al. (2018), Reducing network agnostophobia.
    """

    paper = "Network agnostophobia (Dhamija et al. 2018)"
    score = "custom"
    weight: float = 1e-4
    length: float = 50.0

    def total(self, known: Tensor, logits: Tensor, features: Tensor, n: int) -> Tensor:
        """Mean over all samples of both kinds."""
        lengths = lengths_of(features)
        known = known + self.weight * ((self.length - lengths[:n]).relu() ** 2).mean()
        each = to_uniform(logits[n:]) + self.weight * lengths[n:] ** 2
        return of_all(known, each, n)

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits; the largest probability times the length of the features."""
        logits = full_precision(self.logits(network, features))
        known = logits.softmax(dim=1).amax(dim=1) * lengths_of(features)
        return Response(logits, known)


def of_all(known: Tensor, each: Tensor, n: int) -> Tensor:
    """Mean over n known samples, whose own mean is given, and over each negative."""
    m = each.shape[0]
    return (n * known + m * each.mean()) / (n + m)


def to_uniform(logits: Tensor) -> Tensor:
    r"""Cross-entropy to equal probabilities, :math:`-\tfrac1C \sum_c \log p_c`.

    Examples
    --------
    >>> to_uniform(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    tensor([0.6931, 1.1269])
    """
    return -logits.log_softmax(dim=1).mean(dim=1)


def lengths_of(features: Tensor) -> Tensor:
    """Euclidean norm of each row."""
    return torch.linalg.vector_norm(full_precision(features), dim=1)
