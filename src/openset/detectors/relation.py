"""Neural relation graph: similarity to training samples of similar probabilities."""

from dataclasses import dataclass
from typing import Any

from openset import _xp
from openset._types import Array
from openset.detectors import _neighbours
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._distances import blocks
from openset.detectors.constraints import (
    POSITIVE,
    CountOrShare,
    Integer,
    Number,
    Optional,
)
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class Relation(Detector):
    r"""Mean similarity to the training samples, in direction and in probabilities.

    .. math:: s(x) = \frac1n \sum_i [k_i > \tau]\; k_i^{\,t}, \qquad
              k_i = \max\bigl(0, \cos(f, f_i)\bigr) \cdot p^\top p_i

    where p are softmax probabilities. Weak relations, up to :math:`\tau`, do not count.
    A zero vector has cosine 0 with everything. The released code adds up instead of
    averaging, which ranks samples alike.

    Parameters
    ----------
    power
        t, the exponent.
    cut
        :math:`\tau`, in [0, 1).
    bank
        How many training samples to keep, drawn at random: a number, or (as a float) a
        share in (0, 1]. Default: all.
    seed
        Random seed of that draw.

    References
    ----------
    Kim, Yun and Song, "Neural relation graph: A unified framework for identifying label
    noise and outlier data", NeurIPS 2023.

    Examples
    --------
    The new sample has cosines 1 and 0 with the two training samples, and probabilities
    1/2 each, as they do: relations 1/2 and 0.

    >>> train = Outputs(logits=[[0.0, 0.0]] * 2, features=[[2.0, 0.0], [0.0, 1.0]])
    >>> test = Outputs(logits=[[0.0, 0.0]], features=[[5.0, 0.0]], labels=[0])
    >>> Relation().fit(train).score(test).known.round(4)
    array([0.25])
    """

    name = "relation"
    fit_needs = ("logits", "features")
    score_needs = ("logits", "features")
    fit_cost = "n (C + d)"
    score_cost = "n (C + d)"
    paper = "Kim et al. 2023"
    score_scale = "similarity, in [0, 1]"
    casts_state = True
    constraints = {
        "power": POSITIVE,
        "cut": Number(low=0, high=1, open_high=True),
        "bank": Optional(CountOrShare()),
        "seed": Integer(),
    }

    power: float = 1.0
    cut: float = 0.03
    bank: float | int | None = None
    seed: int = 0

    def fit_state(self, train: Outputs) -> State:
        features, masses = [], []
        for batch in _neighbours.bank_batches(
            "Relation", train, k=1, bank=self.bank, seed=self.seed
        ):
            features.append(batch.unit_features)
            masses.append(_probabilities(batch))
        xp = _xp.array_namespace(features[0])
        return {
            "bank": xp.concat(features, axis=0),
            "masses": xp.concat(masses, axis=0),
        }

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        rows, masses = batch.unit_features, _probabilities(batch)
        n = state["bank"].shape[0]
        total: Any = 0.0
        for part in blocks(rows.shape[0], n):
            cosines = rows @ state["bank"][part, :].T
            relations = cosines * (masses @ state["masses"][part, :].T)
            # A negative cosine gives a negative relation, which is below the cut.
            is_strong = relations > self.cut
            kept = xp.where(is_strong, relations, xp.zeros_like(relations))
            total = (
                xp.sum(kept if self.power == 1 else kept**self.power, axis=1) + total
            )
        return total / n


def _probabilities(batch: Batch) -> Array:
    def make() -> Array:
        xp = _xp.array_namespace(batch.logits)
        return xp.exp(batch.logits - batch.energy[:, None])

    return batch.once("probabilities", make)
