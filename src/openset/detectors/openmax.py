"""OpenMax: logits revised by the distance of a sample to each class mean."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import add_by_group, fit_batches
from openset.detectors.constraints import COUNT, Number, option
from openset.detectors.evt import exp, fit_weibull_rows, log_exponent, weibull_cdf

MIN_SAMPLES = 3
"""A class with fewer correctly classified samples is not revised."""

# Scored at a time: rows, class means and their difference, in float64, stay in cache.
_BLOCK_BYTES = 1 << 20
_FLOOR = 1e-100  # distances of 0 do not fit a Weibull distribution

Floats = NDArray[np.float64]


class OpenMax(Detector):
    r"""Softmax with an additional class of unknowns.

    Fit: the mean logit vector :math:`\mu_c` of the correctly classified samples of each
    class, and a Weibull distribution :math:`F_c` of the `tail` largest of their
    distances to it. Score: the `alpha` largest logits lose a share to the unknown
    class,

    .. math:: w_i = \tfrac{\alpha + 1 - i}{\alpha} F_i(d(z, \mu_i)), \quad
              z'_i = z_i (1 - w_i), \quad z'_0 = \sum_i z_i w_i, \quad
              s(x) = \log \frac{1 - P_0}{P_0} = \log \sum_c e^{z'_c} - z'_0

    with i the rank of a class among the logits and :math:`P` the softmax of :math:`z'`.
    :meth:`Fitted.class_probabilities` gives P with the unknown class last,
    :meth:`Fitted.probability` gives :math:`1 - P_0`. The log-odds rank samples as this
    probability does, but do not saturate. The predicted class stays the argmax of the
    original logits.

    This follows the released code: the paper prints :math:`(\alpha - i)/\alpha` and a
    survival function. Also as released, a *negative* logit among the top ones lowers
    :math:`z'_0`. A class with fewer than `tail` samples uses all of them; with fewer
    than 3 it is not revised (w = 0). `alpha` is at most the number of classes. A zero
    vector has cosine distance 1 to everything.

    Parameters
    ----------
    tail
        Number of largest distances that the Weibull distributions are fitted to.
    alpha
        Number of top classes to revise.
    weight
        The distance d is ``weight * euclidean + cosine``.
    translate
        The T of libMR's tail fits: the least distance of a tail is moved to it. The
        released code uses libMR, hence the default of 10000; None fits the distances as
        they are.

    References
    ----------
    Bendale and Boult, "Towards open set deep networks", CVPR 2016.

    Examples
    --------
    Both samples are of class 0 by their logits; the second is far from its mean.

    >>> from openset import Outputs
    >>> z = [[9.0, 0.0], [10.0, 0.0], [11.0, 0.0], [0.0, 9.0], [0.0, 10.0], [0.0, 11.0]]
    >>> train = Outputs(logits=z, labels=[0, 0, 0, 1, 1, 1])
    >>> fitted = OpenMax(alpha=1).fit(train)
    >>> new = Outputs(logits=[[10.0, 0.0], [20.0, 9.0]], labels=[0, -1])
    >>> fitted.score(new).known.round(1)
    array([  8.8, -11. ])
    >>> fitted.class_probabilities(new).round(3)  # columns: class 0, class 1, unknown
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """

    fit_needs = ("logits", "labels")
    costs = ("n C", "alpha C")
    paper = "Bendale & Boult 2016"
    score_scale = "log-odds"
    # In float64: the distributions are so steep that rounding of a float32 cosine
    # would change the leading digits of the revised logit.
    casts_state = False
    rejects_by_argmax = True

    tail: int = option(20, COUNT)
    alpha: int = option(10, COUNT)
    weight: float = option(1 / 200, Number(low=0))
    translate: float | None = option(
        10_000.0, Number(low=0, open_low=True, or_none=True)
    )

    def fit_state(self, train: Training) -> dict[str, Any]:
        n = train.logits.shape[1]
        sums, counts = np.zeros((n, n)), np.zeros(n, dtype=np.int64)
        for logits, labels in _correct(train):
            add_by_group(sums, logits, labels)
            counts += np.bincount(labels, minlength=n)
        is_revised = counts >= MIN_SAMPLES
        if not is_revised.any():
            what = "correctly classified samples"
            rule = f"enough: {MIN_SAMPLES} of at least one class"
            _check.fail("OpenMax.fit", what, rule, f"{counts.max()} at most")
        means = sums / np.maximum(counts, 1)[:, None]
        lengths = _xp.row_norms(means)
        tails = np.full((n, self.tail), -math.inf)
        for logits, labels in _correct(train):
            product = _xp.row_norms(logits) * lengths[labels]
            distances = self._distances(logits, means[labels], product)
            for c in np.unique(labels):
                both = np.append(tails[c], distances[labels == c])
                tails[c] = np.sort(both)[::-1][: self.tail]
        law = np.ones((3, n))
        law[:, is_revised] = self._laws(tails[is_revised])
        return {
            "means": means,
            "lengths": lengths,
            **dict(zip(("shape", "scale", "loc"), law, strict=True)),
            "revised": is_revised.astype(float),
        }

    def _laws(self, tails: Floats) -> tuple[Any, ...]:
        """Fit a distribution to the tail of each class: shapes, scales, locations."""
        is_member = tails > -math.inf
        least = tails.min(axis=1, where=is_member, initial=math.inf)
        loc = 0 * least if self.translate is None else least - self.translate
        z = np.where(is_member, tails - loc[:, None], 1.0)
        # Zeros are left out, unless all are: a step at the smallest distance.
        is_law = is_member & (z > _FLOOR)
        is_law[~is_law.any(axis=1), 0] = True
        return (*fit_weibull_rows(np.maximum(z, _FLOOR), is_member=is_law), loc)

    def _distances(self, rows: Array, centres: Array, lengths: Array) -> Array:
        """Return the distance between corresponding rows and centres, shape (n,).

        `lengths` are the products of their lengths.
        """
        cosine = 1 - _xp.row_dots(rows, centres) / _xp.or_one(lengths)
        return self.weight * _xp.row_norms(rows - centres) + cosine

    def _revised(self, state: State, logits: Array) -> tuple[Array, Array]:
        """Return the revised logits, shape (n, C), and that of the unknown class."""
        xp = _xp.array_namespace(logits)
        alpha = min(self.alpha, logits.shape[1])
        rows = xp.astype(logits, xp.float64, copy=False)
        row_lengths = _xp.row_norms(rows)
        revised, left = (xp.asarray(logits, copy=True) for _ in range(2))
        unknown = xp.zeros_like(logits[:, 0])
        # One maximum at a time: alpha is small, ties go to the lowest class in every
        # library (which sorts do not guarantee), and only alpha distances are computed.
        for rank in range(1, alpha + 1):
            top = xp.argmax(left, axis=1)
            value = _xp.pick(left, top)
            centres, lengths, shape, scale, loc, is_law = (
                xp.take(state[name], top, axis=0)
                for name in ("means", "lengths", "shape", "scale", "loc", "revised")
            )
            distances = self._distances(rows, centres, row_lengths * lengths)
            cdf = weibull_cdf(log_exponent(distances, shape, scale, loc))
            weight = (alpha + 1 - rank) / alpha * is_law * cdf
            lost = value * xp.astype(weight, logits.dtype, copy=False)
            unknown = unknown + lost
            revised = _xp.put(revised, top, value - lost)
            left = _xp.put(left, top, -math.inf)
        return revised, unknown

    def score_batch(self, state: State, batch: Batch) -> Array:
        def one(logits: Array) -> Array:
            known, unknown = self._revised(state, logits)
            return _xp.logsumexp(known) - unknown

        return _xp.by_rows(one, batch.logits, size=_BLOCK_BYTES)

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + exp(-self.score_batch(state, batch)))

    def class_probabilities_batch(self, state: State, batch: Batch) -> Array:
        def one(logits: Array) -> Array:
            known, unknown = self._revised(state, logits)
            xp = _xp.array_namespace(known)
            both = xp.concat([known, unknown[:, None]], axis=1)
            return xp.exp(both - _xp.logsumexp(both)[:, None])

        return _xp.by_rows(one, batch.logits, size=_BLOCK_BYTES)


def _correct(train: Training) -> Iterator[tuple[Floats, NDArray[Any]]]:
    """Yield logits and labels of the correctly classified samples, in batches."""
    for batch in fit_batches(train):
        labels = train.labels[batch.rows]
        is_correct = batch.top_class == labels
        yield batch.logits[is_correct].astype(float), labels[is_correct]
