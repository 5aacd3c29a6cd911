"""Likelihood under one Gaussian for each class."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import (
    Batch,
    State,
    batches_with,
    fit_batches,
    in_dtype,
    working_dtype,
)
from openset.detectors._detector import Detector
from openset.detectors._moments import Workspace, sums_by
from openset.detectors.constraints import Number
from openset.outputs import Outputs

# A variance below this share of the mean square is a rounding error.
_NO_SPREAD = 1e-24
_MAX_NUMBERS = 1 << 30


@dataclass(frozen=True, kw_only=True)
class GMM(Detector):
    r"""Log-likelihood of the feature under a mixture of one Gaussian for each class.

    .. math:: s(x) = \log \sum_k \pi_k\, \mathcal N(f;\, \mu_k, \Sigma_k + \lambda I)

    where :math:`\pi_k`, :math:`\mu_k` and :math:`\Sigma_k` are share, mean and
    covariance of the training samples of class k. Unlike :class:`Mahalanobis`, classes
    have covariances of their own, which needs many samples of each: with fewer samples
    than features they are singular, and :math:`\lambda` decides. Classes without
    samples are left out.

    Parameters
    ----------
    reg
        :math:`\lambda`, as a share of the mean variance around the class means; at
        least 1e-9.

    References
    ----------
    Classical; as a score of unknowns e.g. Lee et al. 2018 (one shared covariance), and
    pytorch-ood.

    Examples
    --------
    One class with mean 0 and variance 1 (plus a little): the density of the normal
    distribution, -log(2 pi)/2 - 4/2 at 2.

    >>> train = Outputs(features=[[-1.0], [1.0]], labels=[0, 0])
    >>> test = Outputs(logits=[[0.0]], features=[[2.0]], labels=[-1])
    >>> GMM(reg=1e-9).fit(train).score(test).known.round(4)
    array([-2.9189])
    """

    name = "gmm"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "n d^2 + C d^3"
    score_cost = "C d^2"
    paper = "classical"
    score_scale = "log density"
    casts_state = True
    # Less than 1e-9 may be lost in the rounding errors of a singular covariance.
    constraints = {"reg": Number(low=1e-9)}

    reg: float = 1e-3

    def fit_state(self, train: Outputs) -> State:
        labels: NDArray[np.int64] = train.labels  # type: ignore[assignment]
        classes, index, counts = np.unique(
            labels, return_inverse=True, return_counts=True
        )
        width = train.features.shape[1]  # type: ignore[union-attr]
        if classes.size * width**2 > _MAX_NUMBERS:
            msg = _check.must(
                f"at most {_MAX_NUMBERS} numbers in all covariances",
                caller="GMM.fit",
                name="size",
                got=f"{classes.size} classes of {width} x {width}",
                remedy="Use Mahalanobis, which has one covariance for all classes",
            )
            raise ValueError(msg)
        means, origin = _means(train, index, counts)
        xp = _xp.array_namespace(origin)
        variance = _mean_variance(train, index, means)
        if variance <= _NO_SPREAD * float(xp.max(origin**2)):
            msg = _check.must(
                "spread out around their means",
                caller="GMM.fit",
                name="features",
                got="no spread (constant features, or one sample per class)",
            )
            raise ValueError(msg)
        dtype = working_dtype(train)
        size = (classes.size, width, width)
        whiten = xp.empty(size, dtype=dtype, device=_xp.device(origin))
        space, offsets = Workspace(), []
        by_class = np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1])
        for k, rows in enumerate(by_class):
            scatter: Any = 0.0
            for batch in fit_batches(train, rows):
                away = space.minus(batch.features, means[k, :])
                scatter = away.T @ away + scatter
            scatter /= rows.size
            # With the inverse A of the Cholesky factor, the distance is |A (f - mu)|.
            inverse = _inverse_factor(scatter, self.reg * variance)
            whiten[k, :, :] = xp.astype(inverse.T, dtype)
            half_log_det = -float(xp.sum(xp.log(xp.linalg.diagonal(inverse))))
            scale = half_log_det + width * math.log(2 * math.pi) / 2
            offsets.append(math.log(rows.size / len(train)) - scale)
            # Numbers near 0 are more precise: features are centred first.
            means[k, :] = (means[k, :] - origin) @ inverse.T
        state = {
            "origin": origin,
            "whiten": whiten,
            "means": means,
            "offset": _xp.moved(np.array(offsets), origin),
            "classes": _xp.moved(classes, origin),
        }
        return in_dtype(state, dtype)

    def score_batch(self, state: State, batch: Batch) -> Array:
        return _xp.logsumexp(_log_densities(state, batch))

    def predict_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        index = xp.argmax(_log_densities(state, batch), axis=1)
        return xp.take(state["classes"], index, axis=0)


def _means(
    train: Outputs, index: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return the mean of each class and of all samples, in float64."""
    sums: Any = 0.0
    for batch, groups in batches_with(train, index):
        sums = sums_by(batch.features, groups, counts.size) + sums
    xp = _xp.array_namespace(sums)
    weights = _xp.moved(counts.astype(np.float64), sums)
    return sums / weights[:, None], xp.sum(sums, axis=0) / len(train)


def _mean_variance(train: Outputs, index: NDArray[np.int64], means: Array) -> float:
    """Return the mean variance of a feature around the class means."""
    space, total = Workspace(), 0.0
    for batch, groups in batches_with(train, index):
        away = space.minus_means(batch.features, means, groups)
        xp = _xp.array_namespace(away)
        total += float(xp.sum(_xp.row_norms(away) ** 2))
    return total / len(train) / means.shape[1]


def _inverse_factor(covariance: Array, ridge: float) -> Array:
    """Invert the Cholesky factor of the covariance plus a ridge; changes its argument.

    A triangle is inverted at a sixth of the cost of any other matrix.
    """
    if _xp.is_numpy_array(covariance):
        np.fill_diagonal(covariance, np.diagonal(covariance) + ridge)
        # LAPACK stores matrices by columns: the transpose, which is the same matrix,
        # is overwritten without a copy.
        factor, failed = scipy.linalg.lapack.dpotrf(
            covariance.T, lower=1, overwrite_a=1
        )
        if failed:
            msg = (
                "GMM.fit: covariances must be positive definite, got singular ones. "
                "Increase reg"
            )
            raise ValueError(msg)
        return scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
    xp = _xp.array_namespace(covariance)
    size = covariance.shape[0]
    eye = xp.eye(size, dtype=covariance.dtype, device=_xp.device(covariance))
    factor = xp.linalg.cholesky(covariance + ridge * eye)
    # torch's own function, if it is torch; the standard has none for triangles.
    solve = getattr(xp.linalg, "solve_triangular", None)
    return xp.linalg.inv(factor) if solve is None else solve(factor, eye, upper=False)


def _log_densities(state: State, batch: Batch) -> Array:
    """Return the weighted log-density of each class, shape (n, classes)."""

    def make() -> tuple[Array, Array]:
        xp = _xp.array_namespace(batch.features)
        rows = batch.features - state["origin"]
        distances = []
        for k in range(state["means"].shape[0]):
            white = rows @ state["whiten"][k, :, :]
            distances.append(_xp.row_norms(white - state["means"][k, :][None, :]) ** 2)
        # The means are kept too: their id stays unique while they exist.
        found = state["offset"][None, :] - 0.5 * xp.stack(distances, axis=1)
        return found, state["means"]

    return batch.once((id(state["means"]), "densities"), make)[0]
