"""Energy-bounded training: low energies for known samples, high ones for negatives."""

from torch import Tensor

from openset import _check
from openset.train.methods._base import Response, full_precision
from openset.train.methods._negatives import WithNegatives
from openset.train.networks import Network


class EnergyBounded(WithNegatives):
    r"""Cross-entropy, and squared hinges on the energies of both kinds of samples.

    .. math:: E(x) = -\log \sum_c e^{z_c}, \qquad
              L = \overline{-\log p_y} + \lambda \left(
              \overline{\max(0, E(x) - m_\text{in})^2} +
              \overline{\max(0, m_\text{out} - E(u))^2} \right)

    with means over known samples x and over negatives u; the score is -E, the
    log-sum-exp of the logits.

    Parameters
    ----------
    weight
        λ.
    m_in
        Energies of known samples should be at most this.
    m_out
        Energies of negatives should be at least this; larger than `m_in`.
    ratio
        Negatives per known sample: 256 beside 128 in the authors' code.

    Notes
    -----
    The authors fine-tune a trained network (10 epochs, learning rate 0.001); -23 and -5
    are their bounds for CIFAR-10, and -27 and -5 those for CIFAR-100. Bounds depend on
    how large the logits of a network are: choose them near the mean energies of known
    samples and of negatives before.

    References
    ----------
    Liu et al. (2020), Energy-based out-of-distribution detection, section 3.2.

    Examples
    --------
    >>> import torch
    >>> from openset.train.methods import make
    >>> from openset.train.networks import MLP
    >>> network = MLP(3, example=torch.eye(4))
    >>> method = make("energy_bounded", n_classes=3, network=network)
    >>> method.energy(torch.zeros(1, 3))
    tensor([-1.0986])
    """

    name = "energy_bounded"
    title = "Energy-bounded training"
    paper = "Energy-based OOD detection (Liu et al. 2020)"
    score = "custom"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.1,
        m_in: float = -23.0,
        m_out: float = -5.0,
        ratio: float = 2.0,
    ) -> None:
        super().__init__(
            n_classes=n_classes, network=network, smoothing=smoothing, ratio=ratio
        )
        caller = f"method {self.name}"
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)
        either = {"open_low": True, "open_high": True}
        self.m_in = _check.number(caller, "m_in", m_in, **either)
        self.m_out = _check.number(caller, "m_out", m_out, **either)
        if self.m_in >= self.m_out:
            rule, got = "above m_in", f"{m_out} with m_in={m_in}"
            raise ValueError(_check.must(rule, caller=caller, name="m_out", got=got))

    def loss(
        self,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and what exceeds the bounds of the energies, squared."""
        n = labels.shape[0]
        _, logits = self.together(network, inputs, negatives)
        energy = self.energy(logits)
        above = (energy[:n] - self.m_in).relu() ** 2
        below = (self.m_out - energy[n:]).relu() ** 2
        bounds = above.mean() + below.mean()
        known = self.cross_entropy(logits[:n], labels)
        return known + self.weight * bounds, logits[:n]

    def energy(self, logits: Tensor) -> Tensor:
        """Minus the log-sum-exp of the logits of each sample."""
        return -logits.logsumexp(dim=1)

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits; minus the energy."""
        logits = full_precision(self.logits(network, features))
        return Response(logits, -self.energy(logits))
