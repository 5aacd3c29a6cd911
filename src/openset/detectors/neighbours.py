"""Detectors that compare a sample with training samples or with class means."""

from typing import Any

import numpy as np

from openset import _check, _optional, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import draw
from openset.detectors.constraints import COUNT, POSITIVE, SEED, Number, OneOf, option
from openset.detectors.distances import in_blocks


class _Bank(Detector):
    """A detector that keeps training samples: all, or random ones."""

    bank: float | int | None = option(None, Number(low=0, open_low=True, or_none=True))
    seed: int = option(0, SEED)

    def _kept(self, train: Training, k: int = 1) -> Batch:
        """Return the samples of the bank, of which there must be `k`."""
        n, caller = len(train), f"{type(self).__name__}.fit"
        bank = n if self.bank is None else self.bank
        if bank > n or (bank > 1 and bank != int(bank)):
            rule = f"a number up to {n}, that of the training samples, or a share"
            _check.fail(caller, "bank", rule, bank)
        # 1 and 1.0 both mean all.
        size = max(1, round(bank * n)) if bank <= 1 else int(bank)
        if size < k:
            remedy = "Lower k, or fit on more samples"
            _check.fail(caller, "k", f"at most {size}, the size of the bank", k, remedy)
        return Batch(train, draw(n, size, self.seed))


class _Nearest(_Bank):
    """A detector that looks for the largest inner products with the bank."""

    k: int = option(50, COUNT)
    backend: str = option("matmul", OneOf("matmul", "faiss"))
    index: str = "Flat"

    def prepare_state(self, state: State, dtype: Any) -> State:
        if self.backend == "matmul":
            return super().prepare_state(state, dtype)
        faiss: Any = _optional.optional("faiss", "faiss")
        bank = _for_faiss(state["bank"])
        index = faiss.index_factory(
            bank.shape[1], self.index, faiss.METRIC_INNER_PRODUCT
        )
        index.train(bank)
        index.add(bank)
        return {"index": index}

    def _products(self, state: State, rows: Array) -> Array:
        """Return the `k` largest inner products of each row with the bank."""
        if "index" in state:
            products, places = state["index"].search(_for_faiss(rows), self.k)
            found = _xp.moved(np.where(places < 0, np.nan, products), rows)  # NaN: lack
            return _xp.array_namespace(rows).astype(found, rows.dtype, copy=False)
        bank = state["bank"]
        return in_blocks(lambda r: _xp.top_values(r @ bank.T, self.k), rows, bank)


def _for_faiss(rows: Array) -> Any:
    return np.ascontiguousarray(_xp.to_numpy(rows), dtype=np.float32)


class KNN(_Nearest):
    r"""Minus the distance to the k-th nearest training sample, on the unit sphere.

    .. math:: s(x) = -\lVert u - u_{(k)} \rVert_2 = -\sqrt{2 - 2 \cos(f, f_{(k)})},
              \qquad u = f / \lVert f \rVert_2

    The search is exact: a matrix product, block by block, and the k best of each row. A
    zero vector has no direction; its cosine with everything counts as 0. In float32,
    cosines are accurate to about 1e-7, so distances below 3e-4 are not resolved; use
    float64 features if that matters. A bank smaller than k is an error.

    Parameters
    ----------
    k
        Number of the neighbour whose distance is used. The paper uses 50 for CIFAR-10,
        200 for CIFAR-100, 1000 for all of ImageNet, 10 for one per cent of it.
    bank
        How many training samples to keep, drawn at random: a number, or (as a float) a
        share in (0, 1]. Default: all.
    seed
        Random seed of that draw.
    backend
        ``"matmul"``, or ``"faiss"`` (extra `faiss`; on the CPU and in float32).
    index
        Index that faiss builds, as a string for its ``index_factory``: ``"Flat"`` is
        exact, others (``"HNSW32"``) approximate.

    References
    ----------
    Sun et al., "Out-of-distribution detection with deep nearest neighbors", ICML 2022.

    Examples
    --------
    (2, 0) has the direction of (1, 0); (-5, 0) is at a right angle to (0, 3), the
    nearest: sqrt(2).

    >>> from openset import Outputs
    >>> train = Outputs(features=[[1.0, 0.0], [0.0, 3.0]])
    >>> KNN(k=1).fit(train).known(Outputs(features=[[2.0, 0.0], [-5.0, 0.0]])).round(4)
    array([-0.    , -1.4142])
    """

    fit_needs = score_needs = ("features",)
    costs = ("n d", "n d")
    paper = "Sun et al. 2022"
    score_scale = "-distance"

    def fit_state(self, train: Training) -> dict[str, Any]:
        return {"bank": self._kept(train, self.k).unit_features}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        top = self._products(state, batch.unit_features)
        # By rounding, the cosine of a direction with itself may exceed 1.
        return -xp.sqrt(2 - 2 * xp.clip(xp.min(top, axis=1), max=1.0))


class NNGuide(_Nearest):
    r"""Energy, times the energy-weighted cosine to the `k` best training samples.

    .. math:: s(x) = E(x) \cdot \operatorname*{mean}_{i \in \text{top-}k}
              E(x_i) \cos(f(x), f(x_i)), \qquad E(x) = \log \sum_c e^{z_c(x)}

    The search is exact, as in :class:`KNN`; a zero vector has cosine 0 with everything,
    so s = 0. Energies should be positive: the product of two negative ones is positive,
    and logarithms of probabilities have energies of 0. A bank smaller than k raises.

    Parameters
    ----------
    k
        Number of neighbours.
    bank
        How many training samples to keep, drawn at random: a number, or (as a float) a
        share in (0, 1]. Default: all; the paper keeps one per cent of ImageNet.
    seed
        Random seed of that draw.
    backend
        ``"matmul"``, or ``"faiss"`` (extra `faiss`; on the CPU and in float32).
    index
        Index that faiss builds, as a string for its ``index_factory``: ``"Flat"`` is
        exact, others (``"HNSW32"``) approximate.

    References
    ----------
    Park, Jung and Teoh, "Nearest neighbor guidance for out-of-distribution detection",
    ICCV 2023.

    Examples
    --------
    >>> from openset import Outputs
    >>> eye = [[4.0, 0.0], [0.0, 4.0]]
    >>> train = Outputs(logits=eye, features=eye, labels=[0, 1])
    >>> far = Outputs(logits=[[1.0, 1.0]], features=[[-1.0, -1.0]], labels=[-1])
    >>> NNGuide(k=1).fit(train).score(far).known.round(2)
    array([-4.81])
    """

    fit_needs = score_needs = ("logits", "features")
    costs = ("n (C + d)", "C + n d")
    paper = "Park et al. 2023"
    score_scale = "energy^2"

    k: int = 10

    def fit_state(self, train: Training) -> dict[str, Any]:
        kept = self._kept(train, self.k)
        return {"bank": kept.unit_features * kept.energy[:, None]}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        top = self._products(state, batch.unit_features)
        return batch.energy * xp.mean(top, axis=1)


class Relation(_Bank):
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

    >>> from openset import Outputs
    >>> train = Outputs(logits=[[0.0, 0.0]] * 2, features=[[2.0, 0.0], [0.0, 1.0]])
    >>> test = Outputs(logits=[[0.0, 0.0]], features=[[5.0, 0.0]], labels=[0])
    >>> Relation().fit(train).score(test).known.round(4)
    array([0.25])
    """

    fit_needs = score_needs = ("logits", "features")
    costs = ("n (C + d)", "n (C + d)")
    paper = "Kim et al. 2023"
    score_scale = "similarity, in [0, 1]"

    power: float = option(1.0, POSITIVE)
    cut: float = option(0.03, Number(low=0, high=1, open_high=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        kept = self._kept(train)
        return {"bank": kept.unit_features, "masses": kept.probabilities}

    def score_batch(self, state: State, batch: Batch) -> Array:
        bank, masses = state["bank"], state["masses"]
        xp = _xp.array_namespace(bank)

        def mean(features: Array, p: Array) -> Array:
            relations = (features @ bank.T) * (p @ masses.T)
            # A negative cosine gives a negative relation, which is below the cut.
            kept = relations * xp.astype(relations > self.cut, relations.dtype)
            return xp.mean(kept if self.power == 1 else kept**self.power, axis=1)

        return in_blocks(mean, batch.unit_features, bank, batch.probabilities)
