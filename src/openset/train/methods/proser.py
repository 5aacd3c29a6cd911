"""PROSER: placeholders for unknown classes, in the classifier and in the data."""

import math

import torch
from torch import Tensor, nn

from openset.train.methods.base import (
    Loss,
    Method,
    Response,
    full_precision,
    smooth_cross_entropy,
)
from openset.train.methods.mixing import beta, mix, other_class
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
    second, mixed
        β and γ.
    dummies
        Number of dummy classifiers.
    place
        Where samples are mixed. None: two thirds of the way, in `Classifier32` after
        the sixth convolution.
    alpha
        α of the Beta distribution.

    Notes
    -----
    Published numbers come from ten epochs of fine-tuning. The released code mixes one
    half of the batch and classifies the other; here, as in the text, all samples are
    classified, and each is mixed with one of another class.

    References
    ----------
    Zhou et al. (2021), Learning placeholders for open-set recognition.
    """

    paper = "Placeholders (Zhou et al. 2021)"
    score = "custom"
    second: float = 1.0
    mixed: float = 0.01
    dummies: int = 1
    place: str | None = None
    alpha: int = 1

    def build(self, network: Network) -> None:
        """Choose the place, make the dummy classifiers."""
        places = network.places
        place = self.place or places[math.ceil((len(places) - 2) * 2 / 3)]
        self.at = network.check_place(f"method {self.name}", place)
        self.dummy = nn.Linear(network.n_features, self.dummies)

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy, the dummy second, the dummy first for mixtures."""
        n, of_dummy = labels.shape[0], torch.full_like(labels, self.n_classes)
        partner, exists = other_class(labels)
        share = beta(self.alpha, 1, inputs.device)
        hidden = network.before(inputs, self.at)
        both = torch.cat([hidden, mix(hidden, hidden[partner], share)])
        outputs = self.outputs(network, network.after(both, self.at))
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
        best = self.dummy(features).amax(dim=1, keepdim=True)
        return full_precision(torch.cat([network.head(features), best], dim=1))

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits of the known classes; the best of them minus the best dummy."""
        outputs = self.outputs(network, features)
        logits, dummy = outputs[:, :-1], outputs[:, -1]
        return Response(logits, logits.amax(dim=1) - dummy)
