"""Detectors that fit Gaussian distributions to the features."""

import math
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check, _xp
from openset.detectors.base import Array, Batch, OfFeatures, State, Training
from openset.detectors.batch import add_by_group, fit_batches
from openset.detectors.constraints import FLAG, Number, option

Floats = NDArray[np.float64]

# A variance below this share of the mean square is a rounding error.
_NO_SPREAD = 1e-24
# Below this share of the largest variance, eigenvectors tell more than a Cholesky
# factor, which may fail.
_SMALLEST_CUTOFF = 1e-12


class Mahalanobis(OfFeatures):
    r"""Minus the squared Mahalanobis distance to the nearest class mean.

    .. math:: s(x) = -\min_c\, (f - \mu_c)^\top \Sigma^{-1} (f - \mu_c), \qquad
              \Sigma = \frac1n \sum_i (f_i - \mu_{y_i})(f_i - \mu_{y_i})^\top

    Features are whitened once (:math:`\Sigma^{-1} = A A^\top` by an
    eigen-decomposition), then distances are a matrix product. Directions in which the
    training samples (almost) do not vary are left out, so a singular covariance is not
    an error, but features without any spread are. A class without samples is left out
    of the minimum. Without logits the predicted class is the nearest one.

    Parameters
    ----------
    normalize
        Scale features to length one first, in fitting and scoring: Mahalanobis++. A
        zero vector stays zero.
    cutoff
        Leave out directions whose variance is below this share of the largest.

    References
    ----------
    Lee et al., "A simple unified framework for detecting out-of-distribution samples
    and adversarial attacks", NeurIPS 2018; for `normalize`, Mueller and Hein,
    "Mahalanobis++", ICML 2025.

    Examples
    --------
    Two classes around 0 and 10, each with variance 1: 12 is two deviations away.

    >>> from openset import Outputs
    >>> train = Outputs(features=[[-1.0], [1.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> scores = Mahalanobis().fit(train).score(Outputs(features=[[12.0]], labels=[-1]))
    >>> scores.known, scores.predicted
    (array([-4.]), array([1]))
    """

    costs = ("n d^2 + d^3", "d^2 + C d")
    paper = "Lee et al. 2018; Mueller & Hein 2025"
    score_scale = "-distance^2"

    normalize: bool = option(default=False, rule=FLAG)
    cutoff: float = option(1e-12, Number(low=0, high=1, open_high=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        classes, means, mean, within, *_ = self._moments(train)
        return self._whitened(classes, means, mean, within)

    def _whitened(self, classes: Any, means: Any, mean: Any, within: Any) -> Any:
        # Distances do not change under translation; numbers near 0 are more precise.
        whiten = self._whitener(within, mean)
        means = (means - mean) @ whiten
        return {"origin": mean, "whiten": whiten, "means": means, "classes": classes}

    def _whitener(self, covariance: Floats, mean: Floats) -> Floats:
        """Return A with ``A A^T`` the (pseudo-)inverse, shape (d, r).

        Directions whose variance is below `cutoff` times the largest are left out. If
        there are surely none, A is triangular, the inverse of a Cholesky factor, in a
        quarter of the time of the eigenvectors.
        """
        trace = np.trace(covariance)
        if trace > _NO_SPREAD * (mean**2).max() * len(covariance):
            inverse = _inverse_factor(covariance)
            # The traces of a matrix and of its inverse bound its largest eigenvalue and
            # the inverse of the smallest one.
            limit = 1 / max(self.cutoff, _SMALLEST_CUTOFF)
            if inverse is not None and trace * np.vdot(inverse, inverse) < limit:
                return inverse.T
        variances, directions = np.linalg.eigh(covariance)
        _need_spread(f"{type(self).__name__}.fit", variances[-1], mean)
        kept = variances > self.cutoff * variances[-1]
        found: Floats = directions[:, kept] / np.sqrt(variances[kept])
        return found

    def _moments(self, train: Training) -> tuple[Any, ...]:
        """Compute moments in float64, in two passes.

        They are the classes, their means, the mean, the covariances around both (both
        divided by the number of samples, so that distances under them can be compared),
        and the mean fourth power of the distances to the class means. Means are
        subtracted before multiplying, which keeps small eigenvalues precise.
        """
        classes, index, counts, means, mean = _class_means(train, self._rows)
        scatter: Any = 0.0
        fourth = 0.0
        for batch in fit_batches(train):
            away = self._rows(batch) - means[index[batch.rows]]
            scatter = away.T @ away + scatter
            fourth += (_xp.row_norms(away) ** 4).sum()
        share, apart = counts / len(train), means - mean
        within = scatter / len(train)
        total = within + (apart * share[:, None]).T @ apart
        return classes, means, mean, within, total, fourth / len(train)

    def _rows(self, batch: Batch) -> Array:
        return batch.unit_features if self.normalize else batch.features

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        means = state["means"]
        xp = _xp.array_namespace(means)
        white = (self._rows(batch) - state["origin"]) @ state["whiten"]
        # |y - m|^2 = |y|^2 + |m|^2 - 2 y m finds the nearest with one product; its
        # distance is then computed from the difference, which is precise.
        index = xp.argmin(xp.sum(means**2, axis=1) - 2 * (white @ means.T), axis=1)
        away = white - xp.take(means, index, axis=0)
        return -xp.sum(away**2, axis=1), xp.take(state["classes"], index, axis=0)


class RMDS(Mahalanobis):
    r"""Mahalanobis distance to the nearest class, minus that to all training data.

    .. math:: s(x) = -\min_c \bigl[ d_c(x) - d_0(x) \bigr], \qquad
              d_c = (f - \mu_c)^\top \Sigma^{-1} (f - \mu_c), \quad
              d_0 = (f - \mu)^\top \Sigma_0^{-1} (f - \mu)

    :math:`\Sigma` is the covariance around the class means, :math:`\Sigma_0` that
    around the common mean :math:`\mu`; both are divided by n, so that the two distances
    are comparable. Singular covariances, empty classes and outputs without logits are
    handled as in :class:`Mahalanobis`. At least two classes are needed: with one, the
    two distances are the same.

    With fewer training samples than features (or as many, less the classes) there are
    directions in which only the class means differ; :math:`d_0` counts them and
    :math:`d_c` does not, and unknown samples would score higher than known ones. Then
    both covariances are shrunk by the same share towards the same multiple of the
    identity, after Ledoit and Wolf, which the paper leaves open.

    Parameters
    ----------
    normalize
        Scale features to length one first, in fitting and scoring.
    cutoff
        Leave out directions whose variance is below this share of the largest.

    References
    ----------
    Ren et al., "A simple fix to Mahalanobis distance for improving near-OOD detection",
    2021. Ledoit and Wolf, "A well-conditioned estimator for large-dimensional
    covariance matrices", 2004.

    Examples
    --------
    Classes around 0 and 10 with variance 1 each; all data: mean 5, variance 26. At 12,
    the distances are 4 and 49/26.

    >>> from openset import Outputs
    >>> train = Outputs(features=[[-1.0], [1.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> scores = RMDS().fit(train).score(Outputs(features=[[12.0]], labels=[-1]))
    >>> scores.known.round(4), round(49 / 26 - 4, 4)
    (array([-2.1154]), -2.1154)
    """

    costs = ("n d^2 + d^3", "2 d^2 + C d")
    paper = "Ren et al. 2021"

    def fit_state(self, train: Training) -> dict[str, Any]:
        classes, means, mean, within, total, fourth = self._moments(train)
        if classes.size == 1:
            rule = "of two classes or more"
            _check.fail("RMDS.fit", "labels", rule, "one class", "Use Mahalanobis")
        if len(train) - classes.size < mean.size:
            within, total = _shrunk(within, total, fourth, len(train))
        state = self._whitened(classes, means, mean, within)
        return {**state, "whiten_all": self._whitener(total, mean)}

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        known, predicted = super().judge_batch(state, batch)
        white = (self._rows(batch) - state["origin"]) @ state["whiten_all"]
        return _xp.array_namespace(white).sum(white**2, axis=1) + known, predicted


class GMM(OfFeatures):
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

    >>> from openset import Outputs
    >>> train = Outputs(features=[[-1.0], [1.0]], labels=[0, 0])
    >>> test = Outputs(logits=[[0.0]], features=[[2.0]], labels=[-1])
    >>> GMM(reg=1e-9).fit(train).score(test).known.round(4)
    array([-2.9189])
    """

    costs = ("n d^2 + C d^3", "C d^2")
    paper = "classical"
    score_scale = "log density"
    # Less than 1e-9 may be lost in the rounding errors of a singular covariance.

    reg: float = option(1e-3, Number(low=1e-9))

    def fit_state(self, train: Training) -> dict[str, Any]:
        classes, index, counts, means, origin = _class_means(train)
        width = origin.size
        # First the covariances; then, in their place, the inverses of their factors.
        whiten = np.zeros((classes.size, width, width))
        by_class = np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1])
        for k, rows in enumerate(by_class):
            for batch in fit_batches(train, rows):
                away = batch.features - means[k]
                whiten[k] += away.T @ away
        variance = np.einsum("kii->", whiten) / (len(train) * width)
        _need_spread("GMM.fit", variance, origin)
        for one, count in zip(whiten, counts, strict=True):
            covariance = one / count + np.eye(width) * (self.reg * variance)
            # With the inverse A of the Cholesky factor, the distance is |A (f - mu)|.
            inverse = _inverse_factor(covariance)
            if inverse is None:
                rule = "positive definite"
                _check.fail("GMM.fit", "covariances", rule, "others", "Increase reg")
            one[:] = inverse.T
        log_scale = np.log(np.einsum("kii->ki", whiten)).sum(axis=1)
        log_scale -= width * math.log(2 * math.pi) / 2
        # Numbers near 0 are more precise: features are centred first.
        white = [(m - origin) @ one for m, one in zip(means, whiten, strict=True)]
        return {
            "origin": origin,
            "whiten": whiten,
            "means": np.stack(white),
            "offset": np.log(counts / len(train)) + log_scale,
            "classes": classes,
        }

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        xp = _xp.array_namespace(batch.features)
        rows, means, whiten = (
            batch.features - state["origin"],
            state["means"],
            state["whiten"],
        )
        lengths = [
            _xp.row_norms(rows @ whiten[k, ...] - means[k, ...])
            for k in range(means.shape[0])
        ]
        # The weighted log-density of each class.
        densities = state["offset"] - 0.5 * xp.stack(lengths, axis=1) ** 2
        index = xp.argmax(densities, axis=1)
        return _xp.logsumexp(densities), xp.take(state["classes"], index, axis=0)


def _class_means(
    train: Training, rows_of: Any = lambda batch: batch.features
) -> tuple[Any, ...]:
    """Return the classes, that of each sample, counts, means and the overall mean."""
    classes, index, counts = np.unique(
        train.labels, return_inverse=True, return_counts=True
    )
    sums = np.zeros((classes.size, train.features.shape[1]))
    for batch in fit_batches(train):
        add_by_group(sums, rows_of(batch), index[batch.rows])
    means, mean = sums / counts[:, None], sums.sum(axis=0) / len(train)
    return classes, index, counts, means, mean


def _shrunk(within: Floats, total: Floats, fourth: float, n: int) -> list[Floats]:
    """Shrink both covariances alike towards a multiple of the identity.

    The share is that of Ledoit and Wolf (2004) for the covariance around the class
    means, and so is the multiple: its mean variance.
    """
    d = len(within)
    variance, square = np.trace(within) / d, (within**2).sum()
    noise, away = (fourth - square) / n, square - d * variance**2
    share = noise / away if noise < away else 1.0
    target = share * variance * np.eye(d)
    return [(1 - share) * each + target for each in (within, total)]


def _need_spread(caller: str, variance: float, mean: Floats) -> None:
    if variance <= _NO_SPREAD * (mean**2).max():
        got = "no spread (constant features, or one sample per class)"
        _check.fail(caller, "features", "spread out around their means", got)


def _inverse_factor(matrix: Floats) -> Any:
    """Return the inverse of the Cholesky factor; None if it has none.

    A triangle is inverted at a sixth of the cost of any other matrix.
    """
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    return None if failed else scipy.linalg.lapack.dtrtri(factor, lower=1)[0]
