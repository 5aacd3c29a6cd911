"""PROSER: placeholders for unknown classes, in the classifier and in the data."""

import math

import torch
from torch import Tensor, nn

from openset import _check
from openset.train.methods._base import (
    Method,
    Response,
    full_precision,
    smooth_cross_entropy,
)
from openset.train.methods._mixing import beta, mix, other_class
from openset.train.networks import Network


class PROSER(Method):
    r"""A dummy output that should be second for each sample, and first for mixtures.

    .. math:: L = \text{CE}(\hat z(x), y)
              + \beta \, \text{CE}(\hat z(x) \setminus y, C+1)
              + \gamma \, \text{CE}(\hat z(u), C+1), \qquad
              \hat z = (z_1, \dots, z_C, \max_k d_k)

    where :math:`d_k` are the dummy classifiers, :math:`\hat z \setminus y` leaves out
    the true class, and u mixes hidden states of two samples of different classes with
    one weight from Beta(α, α) per batch. The score is
    :math:`\max_c z_c - \max_k d_k`.

    Parameters
    ----------
    second
        β: weight of the term that makes the dummy second.
    mixed
        γ: weight of the term for mixtures.
    dummies
        Number of dummy classifiers. They belong to the method, so the network has one
        output per known class.
    place
        Where samples are mixed: "input", a layer ("conv6"), or "penultimate". None: two
        thirds of the way, in `Classifier32` after the sixth convolution.
    alpha
        α of the Beta distribution, an integer.

    Notes
    -----
    Published numbers come from ten epochs of fine-tuning a trained network at a low
    rate. The released code mixes one half of the batch (same-class pairs included) and
    classifies the other; here, as in the text, all samples are classified, each is
    mixed with one of another class, and both run through the rest of the network in
    one batch. Their score, the difference of the two probabilities at temperature
    1024, orders samples as the difference of logits does, up to terms of that size.

    References
    ----------
    Zhou et al. (2021), Learning placeholders for open-set recognition; β = 1, γ = 0.01
    and α = 1 are the constants of the released code.
    """

    name = "proser"
    title = "PROSER"
    paper = "Placeholders (Zhou et al. 2021)"
    score = "custom"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        second: float = 1.0,
        mixed: float = 0.01,
        dummies: int = 1,
        place: str | None = None,
        alpha: int = 1,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        self.second = _check.number(caller, "second", second, low=0, open_high=True)
        self.mixed = _check.number(caller, "mixed", mixed, low=0, open_high=True)
        n_dummies = _check.positive_int(caller, "dummies", dummies)
        self.alpha = _check.positive_int(caller, "alpha", alpha)
        place = two_thirds(network.places) if place is None else place
        self.place = network.check_place(caller, place)
        self.dummies = nn.Linear(network.n_features, n_dummies)

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy, the dummy second, the dummy first for mixtures."""
        n, of_dummy = labels.shape[0], torch.full_like(labels, self.n_classes)
        partner, exists = other_class(labels)
        share = beta(self.alpha, (1,), inputs.device)
        hidden = network.before(inputs, self.place)
        both = torch.cat([hidden, mix(hidden, hidden[partner], share)])
        outputs = self.outputs(network, network.after(both, self.place))
        samples, mixtures = outputs[:n], outputs[n:]
        without_own = samples.scatter(1, labels[:, None], -math.inf)
        loss = (
            self.cross_entropy(samples, labels)
            + self.second * smooth_cross_entropy(without_own, of_dummy, 0)
            + self.mixed * smooth_cross_entropy(mixtures, of_dummy, 0, exists)
        )
        return loss, samples[:, : self.n_classes]

    def outputs(self, network: Network, features: Tensor) -> Tensor:
        """Logits of the known classes and of the best dummy, shape (n, C + 1)."""
        best = self.dummies(features).amax(dim=1, keepdim=True)
        return full_precision(torch.cat([network.head(features), best], dim=1))

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits of the known classes; the best of them minus the best dummy."""
        outputs = self.outputs(network, features)
        logits, dummy = outputs[:, :-1], outputs[:, -1]
        return Response(logits, logits.amax(dim=1) - dummy)


def two_thirds(places: tuple[str, ...]) -> str:
    """Return the layer two thirds of the way from the input to the features.

    Examples
    --------
    >>> two_thirds(("input", "conv1", "conv2", "conv3", "penultimate"))
    'conv2'
    >>> two_thirds(("input", "penultimate"))
    'input'
    """
    return places[math.ceil((len(places) - 2) * 2 / 3)]
