"""Distance to the k-th nearest training feature."""

from dataclasses import dataclass
from typing import Any

from openset import _xp
from openset._types import Array
from openset.detectors import _neighbours
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class KNN(Detector):
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

    >>> train = Outputs(features=[[1.0, 0.0], [0.0, 3.0]])
    >>> KNN(k=1).fit(train).known(Outputs(features=[[2.0, 0.0], [-5.0, 0.0]])).round(4)
    array([-0.    , -1.4142])
    """

    name = "knn"
    fit_needs = ("features",)
    score_needs = ("features",)
    fit_cost = "n d"
    score_cost = "n d"
    paper = "Sun et al. 2022"
    score_scale = "-distance"
    constraints = _neighbours.CONSTRAINTS

    k: int = 50
    bank: float | int | None = None
    seed: int = 0
    backend: str = "matmul"
    index: str = "Flat"

    def fit_state(self, train: Outputs) -> State:
        batches = _neighbours.bank_batches(
            "KNN", train, k=self.k, bank=self.bank, seed=self.seed
        )
        rows = [batch.unit_features for batch in batches]
        return {"bank": _xp.array_namespace(*rows).concat(rows, axis=0)}

    def prepare_state(self, state: State, dtype: Any) -> State:
        return _neighbours.searchable("KNN", state, dtype, self.backend, self.index)

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        top = _neighbours.search("KNN", batch.unit_features, state, self.k)
        square = 2 - 2 * xp.min(top, axis=1)
        # By rounding, the cosine of a direction with itself may exceed 1.
        return -xp.sqrt(xp.maximum(square, xp.zeros_like(square)))
