"""Objectosphere: unknowns are told by flat probabilities and short features."""

import torch
from torch import Tensor

from openset import _check
from openset.train.methods._base import Method, Response, full_precision, mean_of
from openset.train.methods._mixing import beta, mix, other_class
from openset.train.methods.noise import noise_like
from openset.train.networks import Network

NEGATIVES = ("mixtures", "noise")


class Objectosphere(Method):
    r"""Entropic open-set loss, and long features for knowns, short ones for negatives.

    .. math:: L(x) = \begin{cases}
              -\log p_y + \lambda \max(0, \xi - \|f\|)^2 & x \text{ known} \\
              -\tfrac1C \sum_c \log p_c + \lambda \|f\|^2 & x \text{ negative}
              \end{cases}

    with features f, averaged over all samples of both kinds; the score is
    :math:`\max_c p_c \cdot \|f\|`.

    Parameters
    ----------
    weight
        λ; 0 gives the entropic open-set loss alone.
    length
        ξ: features of knowns should be at least this long.
    negatives
        Where negatives come from: "mixtures" of two inputs of different classes with a
        weight from Beta(α, α), or uniform "noise" in the range of the batch.
    ratio
        Negatives per known sample.
    alpha
        Of the Beta distribution, an integer.

    Notes
    -----
    The paper trains with negative samples of other data sets. Where only known classes
    are at hand they have to be made up, and results will differ.

    References
    ----------
    Dhamija et al. (2018), Reducing network agnostophobia. ξ = 50 is the default of the
    authors' library, λ = 1e-4 what a later study uses with it; both depend on how long
    the features of a network are.
    """

    name = "objectosphere"
    title = "Objectosphere"
    paper = "Network agnostophobia (Dhamija et al. 2018)"
    score = "custom"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 1e-4,
        length: float = 50.0,
        negatives: str = "mixtures",
        ratio: float = 0.5,
        alpha: int = 2,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)
        self.length = _check.number(caller, "length", length, low=0, open_high=True)
        self.negatives = _check.one_of(caller, "negatives", negatives, NEGATIVES)
        exact = _check.rate(caller, "ratio", ratio, open_low=True)
        self.part, self.whole = exact.as_integer_ratio()
        self.alpha = _check.positive_int(caller, "alpha", alpha)

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Both losses of known samples and negatives, one batch for the network."""
        n = labels.shape[0]
        made, is_made = self.make(inputs, labels)
        features = network.backbone(torch.cat([inputs, made]))
        logits = full_precision(network.head(features))
        lengths = lengths_of(features)
        # The share of each kind in the mean over all samples that count.
        n_made = is_made.sum()
        known = self.cross_entropy(logits[:n], labels)
        known = known + self.weight * ((self.length - lengths[:n]).relu() ** 2).mean()
        flat = -logits[n:].log_softmax(dim=1).mean(dim=1)
        negative = mean_of(flat + self.weight * lengths[n:] ** 2, is_made)
        return (n * known + n_made * negative) / (n + n_made), logits[:n]

    def make(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Make negatives up; say which of them count."""
        n_made = labels.shape[0] * self.part // self.whole
        own = inputs[:n_made]
        if self.negatives == "noise":
            made = noise_like(own, inputs, "min_max")
            return made, torch.ones_like(labels[:n_made], dtype=torch.bool)
        partner, exists = other_class(labels)
        share = beta(self.alpha, (n_made,), inputs.device)
        return mix(own, inputs[partner[:n_made]], share), exists[:n_made]

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits; the largest probability times the length of the features."""
        logits = full_precision(self.logits(network, features))
        known = logits.softmax(dim=1).amax(dim=1) * lengths_of(features)
        return Response(logits, known)


def lengths_of(features: Tensor) -> Tensor:
    """Euclidean norm of each row."""
    return torch.linalg.vector_norm(full_precision(features), dim=1)
