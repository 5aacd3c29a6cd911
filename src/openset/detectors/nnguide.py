"""Nearest-neighbour guidance of the energy."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _check, _xp
from openset._types import Array, InvalidSamplesError
from openset.detectors import _neighbours
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class NNGuide(Detector):
    r"""Energy, times the energy-weighted cosine to the `k` best training samples.

    .. math:: s(x) = E(x) \cdot \operatorname*{mean}_{i \in \text{top-}k}
              E(x_i) \cos(f(x), f(x_i)), \qquad E(x) = \log \sum_c e^{z_c(x)}

    The search is exact, as in :class:`KNN`; a zero vector has cosine 0 with everything,
    so s = 0. Energies should be positive (the product of two negative ones is
    positive): fitting warns if one in the bank is not. A bank smaller than k raises.

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
    >>> eye = [[4.0, 0.0], [0.0, 4.0]]
    >>> train = Outputs(logits=eye, features=eye, labels=[0, 1])
    >>> far = Outputs(logits=[[1.0, 1.0]], features=[[-1.0, -1.0]], labels=[-1])
    >>> NNGuide(k=1).fit(train).score(far).known.round(2)
    array([-4.81])
    """

    name = "nnguide"
    fit_needs = ("logits", "features")
    score_needs = ("logits", "features")
    fit_cost = "n (C + d)"
    score_cost = "C + n d"
    paper = "Park et al. 2023"
    score_scale = "energy^2"
    constraints = _neighbours.CONSTRAINTS

    k: int = 10
    bank: float | int | None = None
    seed: int = 0
    backend: str = "matmul"
    index: str = "Flat"

    def fit_state(self, train: Outputs) -> State:
        rows, n_negative = [], 0
        for batch in _neighbours.bank_batches(
            "NNGuide", train, k=self.k, bank=self.bank, seed=self.seed
        ):
            xp = _xp.array_namespace(batch.features)
            n_negative += int(xp.count_nonzero(batch.energy <= 0))
            rows.append(batch.unit_features * batch.energy[:, None])
        if n_negative:
            msg = (
                f"NNGuide.fit: energies should be positive, got {n_negative} in the "
                f"bank that are not. Logits that are negative throughout "
                f"(log-probabilities?) make the guidance meaningless"
            )
            warnings.warn(msg, stacklevel=4)  # the caller of fit
        return {"bank": xp.concat(rows, axis=0)}

    def prepare_state(self, state: State, dtype: Any) -> State:
        return _neighbours.searchable("NNGuide", state, dtype, self.backend, self.index)

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        top = _neighbours.search("NNGuide", batch.unit_features, state, self.k)
        with np.errstate(over="ignore"):  # refused below
            known = batch.energy * xp.mean(top, axis=1)
        is_lost = xp.isinf(known) & xp.isfinite(batch.energy)
        if _xp.is_traced(known):
            return xp.where(is_lost, xp.nan, known)
        if bool(xp.any(is_lost)):
            largest = float(xp.max(xp.abs(batch.energy[is_lost])))
            msg = _check.must(
                "small enough for the product of two energies",
                caller="NNGuide.score",
                name="logits",
                got=f"an energy of {largest:.3g}",
                remedy="Divide the logits, here and in training, by a constant",
            )
            rows = np.flatnonzero(_xp.to_numpy(is_lost))
            raise InvalidSamplesError(msg, batch.numbers(rows).tolist())
        return known
