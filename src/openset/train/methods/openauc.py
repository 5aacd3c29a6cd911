"""OpenAUC and Acc+AUC: rank known samples above mixtures of them."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor

from openset import _check
from openset.train.methods._base import Method, full_precision
from openset.train.methods._mixing import beta, mix, shuffled
from openset.train.networks import Network

PRESETS: dict[str, dict[str, str]] = {
    "paper": {"pairing": "full_batch", "normaliser": "pairs", "ranking": "softmax"},
    "released": {"pairing": "halves", "normaliser": "hits", "ranking": "logit"},
}
# Of s(u) − s(x), which should be negative.
SURROGATES: dict[str, Callable[[Tensor], Tensor]] = {
    "square": lambda gap: (1 + gap) ** 2,
    "hinge": lambda gap: (1 + gap).relu(),
    "logistic": F.softplus,
}
_CHOICES = {
    "pairing": ("halves", "full_batch", "all_pairs"),
    "normaliser": ("hits", "pairs"),
    "ranking": ("logit", "softmax"),
    "share": ("batch", "sample"),
    "surrogate": tuple(SURROGATES),
    "moves": ("both", "known", "unknown"),
}
_MEASURED = (
    "preset 'released' reproduces the authors' code. On CIFAR-10 (100 epochs, "
    "four splits, two seeds) its OpenAUC is 16.4 points below that of plain "
    "cross-entropy with its own score, the largest logit, and 1.0 points below "
    "with the largest probability; with preset 'paper', the default, no "
    "difference was found in eight pairs of runs"
)


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
        λ. Choose it on held-out known classes (`openset.train.tune`), never on test
        data.
    preset
        "paper": the text (full batch, all kept pairs count, bounded score); "released":
        the authors' code (halves, correct pairs count, raw logits). It sets `pairing`,
        `normaliser` and `ranking` where they are None. In our measurements "released"
        has a much lower OpenAUC by the score it trains.
    place
        Where samples are mixed: "input", a layer ("conv3"), or "penultimate". The paper
        names no layer; the released code mixes at the last, which is mixing logits.
    pairing
        "halves": known samples from one half of the batch, mixtures from the other;
        "full_batch": each sample against the mixture in its slot; "all_pairs": each
        sample against every mixture, as in the definition of OpenAUC.
    normaliser
        N: pairs that are "hits" (kept and correct), or all kept "pairs".
    ranking
        Score inside the loss: "logit" or "softmax". The same score is the published
        one at test time: the largest logit, or the largest probability.
    share
        One mixing weight per "batch", or per "sample".
    alpha
        α of the Beta distribution, an integer.
    drop_same_class
        Leave out mixtures of two samples of one class.
    surrogate
        Loss of a pair, with :math:`g = s(u) - s(x)`: "square" :math:`(1 + g)^2` as in
        the paper, "hinge" :math:`\max(0, 1 + g)`, or "logistic"
        :math:`\ln(1 + e^g)`.
    hardest
        Share of the mixtures that count, those of the highest score: an empirical
        partial OpenAUC, which the paper proposes in its outlook.
    moves
        Which side of a pair the ranking term moves: "both", or the "known" or the
        "unknown" one alone (no gradient runs through the other).
    ramp
        Share of the epochs over which λ rises from 0 to `weight`, linearly.

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
    score = "msp"  # of the default preset
    ramped: Tensor
    gate: ClassVar[bool] = True
    """Do only correctly classified samples count?"""

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.1,
        preset: str = "paper",
        place: str = "penultimate",
        pairing: str | None = None,
        normaliser: str | None = None,
        ranking: str | None = None,
        share: str = "batch",
        alpha: int = 2,
        drop_same_class: bool = True,
        surrogate: str = "square",
        hardest: float = 1.0,
        moves: str = "both",
        ramp: float = 0.0,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        chosen = PRESETS[_check.one_of(caller, "preset", preset, tuple(PRESETS))]
        given = {"pairing": pairing, "normaliser": normaliser, "ranking": ranking}
        chosen = chosen | {k: v for k, v in given.items() if v is not None}
        chosen |= {"share": share, "surrogate": surrogate, "moves": moves}
        for option, value in chosen.items():
            _check.one_of(caller, option, value, _CHOICES[option])
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)
        self.alpha = _check.positive_int(caller, "alpha", alpha)
        self.place = network.check_place(caller, place)
        self.pairing, self.normaliser = chosen["pairing"], chosen["normaliser"]
        self.ranking, self.share = chosen["ranking"], chosen["share"]
        self.surrogate, self.moves = surrogate, moves
        self.drop_same_class = _check.boolean(
            caller, "drop_same_class", drop_same_class
        )
        self.hardest = float(_check.rate(caller, "hardest", hardest, open_low=True))
        self.ramp = float(_check.rate(caller, "ramp", ramp))
        self.score = "msp" if self.ranking == "softmax" else "maxlogit"
        # In memory, because recorded updates do not see a number that changes.
        self.register_buffer("ramped", torch.ones(()), persistent=False)

    @classmethod
    def caution(cls, options: Mapping[str, Any]) -> str:
        """Return what was measured for preset "released"."""
        return _MEASURED if options.get("preset") == "released" else ""

    def start_epoch(self, epoch: int, epochs: int) -> None:
        """Set the share of λ that is reached."""
        length = self.ramp * epochs
        self.ramped.fill_(1.0 if epoch >= length else epoch / length)

    def check_batch(self, batch: int) -> None:
        """Raise if pairing "halves" gets an odd batch."""
        if self.pairing == "halves" and batch % 2:
            msg = _check.must(
                "even",
                caller=f"method {self.name}",
                name="batch",
                got=batch,
                remedy="One half of the batch is ranked, the other mixed. Or use "
                "pairing='full_batch'",
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
        weight = self.weight * self.ramped if self.ramp else self.weight
        return self.cross_entropy(logits, labels) + weight * term, logits

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
        """Mean loss of the pairs that count."""
        is_bounded = self.ranking == "softmax"
        known, unknown = (
            (z.softmax(dim=1) if is_bounded else z).amax(dim=1) for z in (logits, mixed)
        )
        if self.moves == "known":
            unknown = unknown.detach()
        if self.moves == "unknown":
            known = known.detach()
        if self.hardest < 1:
            is_kept = is_kept & highest(unknown.detach(), is_kept, self.hardest)
        is_ranked = torch.ones_like(labels, dtype=torch.bool)
        if self.gate:
            is_ranked = logits.argmax(dim=1) == labels
        if self.pairing == "all_pairs":  # one row per sample, one column per mixture
            known, is_ranked = known[:, None], is_ranked[:, None]
        losses = SURROGATES[self.surrogate](unknown - known)
        counts = is_ranked & is_kept
        over = counts if self.normaliser == "hits" else is_kept.expand_as(losses)
        return (losses * counts).sum() / over.sum().clamp(min=1)


def highest(scores: Tensor, is_kept: Tensor, share: float) -> Tensor:
    """Mark the highest scores among those kept: a share of all, rounded up.

    Examples
    --------
    >>> scores = torch.tensor([3.0, 1.0, 2.0, 4.0])
    >>> highest(scores, torch.tensor([True, True, True, False]), 0.5).tolist()
    [True, False, True, False]
    """
    n = math.ceil(share * scores.shape[0])
    ranked = torch.where(is_kept, scores, -math.inf)
    return is_kept & (ranked >= ranked.topk(n).values[-1])


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
