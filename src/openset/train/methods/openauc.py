"""OpenAUC and Acc+AUC: rank known samples above mixtures of them."""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from openset.train.methods.base import Loss, Method, full_precision
from openset.train.methods.mixing import beta, mix, shuffled
from openset.train.networks import Network


class OpenAUC(Method):
    r"""Cross-entropy plus a square loss on pairs of a known sample and a mixture.

    .. math:: L = \text{CE} + \frac{\lambda}{N} \sum_i [\hat y_i = y_i]
              \bigl(1 + s(u_i) - s(x_i)\bigr)^2

    where :math:`u_i` mixes two samples of different classes with one weight per batch
    from Beta(α, α). The gate :math:`[\hat y_i = y_i]` takes no gradient.

    Parameters
    ----------
    weight
        λ. Choose it on held-out known classes (`openset.train.tune`).
    preset
        "paper": s is the largest probability (bounded, Definition 1), each sample is
        ranked against the mixture in its slot, N is the number of pairs. "released",
        the authors' code: s is the largest logit, known samples are one half of the
        batch and mixtures the other, N is the number of correct pairs. In our
        measurements "released" has a much lower OpenAUC by the score it trains.
    place
        Where samples are mixed: "input", a layer ("conv3"), or "penultimate", which is
        mixing logits, as the released code does.
    alpha
        α of the Beta distribution.

    Notes
    -----
    Mixtures made before the last layer run through the rest of the network in one
    batch with the samples themselves, so batch norm treats both alike, as it will
    treat unknown samples at test time. A batch of odd size has no halves: with
    "released" its loss is the cross-entropy alone.

    References
    ----------
    Wang et al. (2022), OpenAUC: towards AUC-oriented open-set recognition, eq. 17 and
    section 4.2.
    """

    paper = "OpenAUC (Wang et al. 2022)"
    score = "msp"  # of the default preset
    gate: ClassVar[bool] = True
    """Do only correctly classified samples count?"""
    weight: float = 0.1
    preset: Literal["paper", "released"] = "paper"
    place: str = "penultimate"
    alpha: int = 2

    def check(self, caller: str, network: Network) -> None:
        """Raise for a place that the network does not have."""
        network.check_place(caller, self.place)

    def build(self, network: Network) -> None:
        """Take the score that is trained for the score of tests."""
        self.released = self.preset == "released"
        self.score = "maxlogit" if self.released else "msp"

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy and the weighted ranking term."""
        n = labels.shape[0]
        first = n // 2 if self.released else 0  # of those that are mixed
        if self.released and n % 2:  # such a batch has no halves
            logits = network(inputs)
            return self.cross_entropy(logits, labels), logits
        own = labels[first:]
        partner = shuffled(own.shape[0], inputs.device)
        share = beta(self.alpha, 1, inputs.device)

        def mixtures(hidden: Tensor) -> Tensor:
            mixed = hidden[first:]
            return mix(mixed, mixed[partner], share)

        if self.place == "penultimate":  # mixing the input of an affine layer
            logits = full_precision(network(inputs))
            mixed = mixtures(logits)
        else:  # through the rest of the network, in one batch
            hidden = network.before(inputs, self.place)
            both = network.after(torch.cat([hidden, mixtures(hidden)]), self.place)
            outputs = full_precision(network.head(both))
            logits, mixed = outputs[:n], outputs[n:]
        ranked = slice(0, own.shape[0])
        is_kept = own != own[partner]
        term = self.ranking_term(logits[ranked], mixed, labels[ranked], is_kept)
        return self.cross_entropy(logits, labels) + self.weight * term, logits

    def ranking_term(
        self, logits: Tensor, mixed: Tensor, labels: Tensor, is_kept: Tensor
    ) -> Tensor:
        """Mean loss of the pairs that count."""
        both = (logits, mixed)
        if not self.released:
            both = (logits.softmax(dim=1), mixed.softmax(dim=1))
        known, unknown = (z.amax(dim=1) for z in both)
        counts = is_kept & (logits.argmax(dim=1) == labels) if self.gate else is_kept
        over = counts if self.released else is_kept
        return ((1 + (unknown - known)) ** 2 * counts).sum() / over.sum().clamp(min=1)


class AccAUC(OpenAUC):
    r"""OpenAUC without the gate: misclassified samples are ranked as well.

    References
    ----------
    Wang et al. (2022), the ablation "Acc+AUC" of their Table 2, which is not in the
    released code.
    """

    name = "acc_auc"
    title = "Acc+AUC"
    paper = "OpenAUC (Wang et al. 2022), ablation"
    gate = False
