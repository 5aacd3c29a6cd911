"""Objectosphere: negatives get equal probabilities and short features."""

import torch
from torch import Tensor

from openset import _check
from openset.train.methods._base import Response, full_precision, mean_of
from openset.train.methods._mixing import beta, mix, other_class
from openset.train.methods._negatives import WithNegatives, mean_over_both, to_uniform
from openset.train.methods.noise import noise_like
from openset.train.networks import Network

SYNTHETIC = ("mixtures", "noise")


class Objectosphere(WithNegatives):
    r"""Entropic open-set loss that also makes features of negatives short.

    .. math:: L(x) = \begin{cases}
              -\log p_y + \lambda \max(0, \xi - \|f\|)^2 & x \text{ known} \\
              -\tfrac1C \sum_c \log p_c + \lambda \|f\|^2 & x \text{ negative}
              \end{cases}

    with features f, averaged over all samples of both kinds; the score is
    :math:`\max_c p_c \cdot \|f\|`.

    Parameters
    ----------
    weight
        λ; 0 leaves the entropic open-set loss.
    length
        ξ: features of known samples should be at least this long.
    synthetic
        Where negatives come from in a run without real ones: "mixtures" of two inputs
        of different classes with a weight from Beta(α, α), or uniform "noise" in the
        range of the batch.
    ratio
        Negatives per known sample. Default: 1, or 0.5 (of at most 1) if they are
        synthetic.
    alpha
        α of the Beta distribution of mixtures, an integer.

    Notes
    -----
    The paper trains with real negatives, and results with synthetic ones will differ.

    References
    ----------
    Dhamija et al. (2018), Reducing network agnostophobia. ξ = 50 is the default of the
    authors' library, λ = 1e-4 what a later study uses with it; both depend on how long
    the features of a network are.

    Examples
    --------
    >>> from openset.train.methods import make
    >>> from openset.train.networks import MLP
    >>> rows = torch.eye(4)
    >>> network = MLP(3, example=rows)
    >>> method = make("objectosphere", n_classes=3, network=network, length=10.0)
    >>> labels = torch.tensor([0, 1, 2])
    >>> loss, logits = method.loss(network, rows[:3], labels, "classify", rows[3:])
    >>> logits.shape
    torch.Size([3, 3])
    """

    name = "objectosphere"
    title = "Objectosphere"
    paper = "Network agnostophobia (Dhamija et al. 2018)"
    score = "custom"
    needs_negatives = False

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 1e-4,
        length: float = 50.0,
        synthetic: str = "mixtures",
        ratio: float | None = None,
        alpha: int = 2,
    ) -> None:
        super().__init__(
            n_classes=n_classes,
            network=network,
            smoothing=smoothing,
            ratio=1.0 if ratio is None else ratio,
        )
        caller = f"method {self.name}"
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)
        self.length = _check.number(caller, "length", length, low=0, open_high=True)
        self.synthetic = _check.one_of(caller, "synthetic", synthetic, SYNTHETIC)
        made = _check.fraction(0.5 if ratio is None else ratio)
        self.made, self.per = made.as_integer_ratio()
        self.alpha = _check.positive_int(caller, "alpha", alpha)

    def loss(
        self,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Both losses of known samples and negatives, which run as one batch."""
        n = labels.shape[0]
        if negatives is None:
            negatives, counts = self.make(inputs, labels)
        else:
            counts = labels.new_ones(negatives.shape[0], dtype=torch.bool)
        features, logits = self.together(network, inputs, negatives)
        lengths = lengths_of(features)
        known = self.cross_entropy(logits[:n], labels)
        known = known + self.weight * ((self.length - lengths[:n]).relu() ** 2).mean()
        each = to_uniform(logits[n:]) + self.weight * lengths[n:] ** 2
        negative = mean_of(each, counts)
        return mean_over_both(known, negative, n, counts.sum()), logits[:n]

    def make(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return synthetic negatives, and a mask of those that count."""
        if self.made > self.per:
            msg = _check.must(
                "at most 1 for synthetic negatives",
                caller=f"method {self.name}",
                name="ratio",
                got=f"{self.made / self.per:g}",
            )
            raise ValueError(msg)
        n_made = labels.shape[0] * self.made // self.per
        own = inputs[:n_made]
        if self.synthetic == "noise":
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
