"""OpenAUC and Acc+AUC: rank known samples above mixtures of them."""

from typing import ClassVar

import torch
from torch import Tensor

from openset import _check
from openset.train.methods._base import Method, full_precision
from openset.train.methods._mixing import beta, mix, shuffled
from openset.train.networks import Network

PRESETS: dict[str, dict[str, str]] = {
    "paper": {"pairing": "full_batch", "normaliser": "pairs", "ranking": "softmax"},
    "released": {"pairing": "halves", "normaliser": "hits", "ranking": "logit"},
}
_CHOICES = {
    "pairing": ("halves", "full_batch"),
    "normaliser": ("hits", "pairs"),
    "ranking": ("logit", "softmax"),
    "share": ("batch", "sample"),
}


class OpenAUC(Method):
    r"""Cross-entropy plus a square loss on pairs of a known sample and a mixture.

    .. math:: L = \text{CE} + \frac{\lambda}{N} \sum_i [\hat y_i = y_i]
              \bigl(1 + s(u_i) - s(x_i)\bigr)^2

    where :math:`u_i` mixes two samples of different classes with a weight from
    Beta(α, α) and s is the knownness: the largest logit (`ranking` "logit"), or the
    largest probability ("softmax", bounded as in Definition 1 of the paper). The gate
    :math:`[\hat y_i = y_i]` takes no gradient.

    Parameters
    ----------
    weight
        λ. Choose it by held-out known classes (`openset.train.tune`), never by test
        unknowns.
    preset
        "paper": the text (full batch, all kept pairs count, bounded score);
        "released": the authors' code (halves, correct pairs count, raw logits). It sets
        `pairing`, `normaliser` and `ranking` where they are None.
    place
        Where samples are mixed: "input", a layer ("conv3"), or "penultimate". The paper
        names no layer; the released code mixes at the last, which is mixing logits.
    pairing
        "halves": known samples from one half of the batch, mixtures from the other;
        "full_batch": each sample against the mixture in its slot.
    normaliser
        N: pairs that are "hits" (kept and correct), or all kept "pairs".
    ranking
        Score inside the loss: "logit" or "softmax".
    share
        One mixing weight per "batch", or per "sample".
    alpha
        Of the Beta distribution, an integer.
    drop_same_class
        Leave out mixtures of two samples of one class.

    Notes
    -----
    Mixtures made before the last layer run through the rest of the network in one
    batch with the samples themselves, so batch norm treats both alike, as it will
    treat unknown samples at test time. A batch of odd size has no halves: with
    "halves" its loss is the cross-entropy alone.

    References
    ----------
    Wang et al. (2022), OpenAUC: towards AUC-oriented open-set recognition, eq. 17 and
    section 4.2.
    """

    name = "openauc"
    title = "OpenAUC"
    paper = "OpenAUC (Wang et al. 2022)"
    gate: ClassVar[bool] = True
    """Do only correctly classified samples count?"""

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.1,
        preset: str = "released",
        place: str = "penultimate",
        pairing: str | None = None,
        normaliser: str | None = None,
        ranking: str | None = None,
        share: str = "batch",
        alpha: int = 2,
        drop_same_class: bool = True,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        chosen = PRESETS[_check.one_of(caller, "preset", preset, tuple(PRESETS))]
        given = {"pairing": pairing, "normaliser": normaliser, "ranking": ranking}
        chosen = chosen | {k: v for k, v in given.items() if v is not None}
        chosen["share"] = share
        for option, value in chosen.items():
            _check.one_of(caller, option, value, _CHOICES[option])
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)
        self.alpha = _check.positive_int(caller, "alpha", alpha)
        self.place = network.check_place(caller, place)
        self.pairing, self.normaliser = chosen["pairing"], chosen["normaliser"]
        self.ranking, self.share = chosen["ranking"], chosen["share"]
        self.drop_same_class = _check.boolean(
            caller, "drop_same_class", drop_same_class
        )

    def check_batch(self, batch: int) -> None:
        """Ask for two halves."""
        if self.pairing == "halves" and batch % 2:
            msg = _check.must(
                "even",
                caller=f"method {self.name}",
                name="batch",
                got=batch,
                remedy="One half is ranked, the other mixed (or: pairing='full_batch')",
            )
            raise ValueError(msg)

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy and the weighted ranking term."""
        n = labels.shape[0]
        if self.pairing == "halves" and n % 2:
            logits = network(inputs)
            return self.cross_entropy(logits, labels), logits
        # Halves: the first is ranked, the second mixed. Full batch: all of both.
        n_ranked, first_mixed = (n // 2, n // 2) if self.pairing == "halves" else (n, 0)
        own = labels[first_mixed:]
        partner = shuffled(own.shape[0], inputs.device)
        shape = (own.shape[0],) if self.share == "sample" else (1,)
        share = beta(self.alpha, shape, inputs.device)
        logits, mixed = self._forward(network, inputs, first_mixed, partner, share)
        is_kept = torch.ones_like(own, dtype=torch.bool)
        if self.drop_same_class:
            is_kept = own != own[partner]
        term = self.ranking_term(logits[:n_ranked], mixed, labels[:n_ranked], is_kept)
        return self.cross_entropy(logits, labels) + self.weight * term, logits

    def _forward(
        self,
        network: Network,
        inputs: Tensor,
        first_mixed: int,
        partner: Tensor,
        share: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the samples, and of the mixtures of those from `first_mixed` on."""
        if self.place == "penultimate":
            # The last layer is affine and the shares sum to one: mixing its input is
            # mixing its output, and costs no second pass.
            logits = full_precision(network(inputs))
            of_mixed = logits[first_mixed:]
            return logits, mix(of_mixed, of_mixed[partner], share)
        hidden = network.before(inputs, self.place)
        own = hidden[first_mixed:]
        both = torch.cat([hidden, mix(own, own[partner], share)])
        logits = full_precision(network.head(network.after(both, self.place)))
        return logits[: inputs.shape[0]], logits[inputs.shape[0] :]

    def ranking_term(
        self, logits: Tensor, mixed: Tensor, labels: Tensor, is_kept: Tensor
    ) -> Tensor:
        """Mean square loss of the pairs that count."""
        if self.ranking == "softmax":
            known, unknown = logits.softmax(dim=1), mixed.softmax(dim=1)
        else:
            known, unknown = logits, mixed
        losses = (1 + unknown.amax(dim=1) - known.amax(dim=1)) ** 2
        counts = is_kept
        if self.gate:
            counts = is_kept & (logits.argmax(dim=1) == labels)
        over = counts if self.normaliser == "hits" else is_kept
        return (losses * counts).sum() / over.sum().clamp(min=1)


class AccAUC(OpenAUC):
    r"""OpenAUC without the gate: misclassified samples are ranked as well.

    .. math:: L = \text{CE} + \frac{\lambda}{N} \sum_i \bigl(1 + s(u_i) - s(x_i)\bigr)^2

    References
    ----------
    Wang et al. (2022), the ablation "Acc+AUC" of their Table 2. It is not in the
    released code; everything but the gate is as in `OpenAUC`.
    """

    name = "acc_auc"
    title = "Acc+AUC"
    paper = "OpenAUC (Wang et al. 2022), ablation"
    gate = False
