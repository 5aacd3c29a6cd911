"""Detectors that measure distances to training samples or class means."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset.detectors.base import Array, Batch, OfFeatures, State, Training
from openset.detectors.batch import add_by_group
from openset.detectors.constraints import COUNT, POSITIVE, Number, option
from openset.detectors.evt import exp, fit_weibull_rows

Floats = NDArray[np.float64]

_BLOCK = 1 << 20  # comparisons of samples with the bank that are held at a time
# A step (all margins equal) as a very steep distribution, so that samples are ranked.
_STEEPEST = 1e6


class OSNN(OfFeatures):
    r"""Minus the ratio of the distances to the nearest sample and the next class.

    .. math:: s(x) = -\frac{d(x, t)}{d(x, u)} \in [-1, 0]

    where t is the nearest training sample and u the nearest one of another class than
    t's. The class is that of t. If x coincides with samples of two classes, s = -1.
    With a single class there is no u, and fit raises.

    References
    ----------
    Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier",
    Machine Learning 106, 2017.

    Examples
    --------
    >>> from openset import Outputs
    >>> train = Outputs(features=[[0.0], [1.0], [4.0]], labels=[0, 0, 1])
    >>> new = Outputs(features=[[1.0], [2.0], [100.0]], labels=[0, 0, -1])
    >>> scores = OSNN().fit(train).score(new)
    >>> scores.known.round(2)  # 0 / 3, 1 / 2, 96 / 99
    array([-0.  , -0.5 , -0.97])
    >>> scores.predicted
    array([0, 0, 1])
    """

    costs = ("n d", "n d")
    paper = "Mendes Júnior et al. 2017"
    score_scale = "-ratio, in [-1, 0]"

    def fit_state(self, train: Training) -> dict[str, Any]:
        why = "The ratio compares the nearest class with the next one"
        need_two_classes("OSNN", train, why)
        centre, bank = centred(train)
        # A copy: a fitted detector must not share memory with the caller's labels.
        return {"centre": centre, "bank": bank, "labels": np.array(train.labels)}

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        bank, labels = state["bank"], state["labels"]
        rows = batch.features - state["centre"]
        xp = _xp.array_namespace(rows)

        def places(rows: Array) -> Array:
            squared = squared_distances(rows, bank)
            near = xp.argmin(squared, axis=1)
            is_same = labels[None, :] == xp.take(labels, near, axis=0)[:, None]
            others = xp.where(is_same, math.inf, squared)
            return xp.stack([near, xp.argmin(others, axis=1)], axis=1)

        found = in_blocks(places, rows, bank)
        a, b = (
            _xp.row_norms(rows - xp.take(bank, found[:, i], axis=0)) for i in (0, 1)
        )
        # By rounding, two nearly equal distances may be in the wrong order.
        nearest = xp.take(labels, xp.where(a <= b, found[:, 0], found[:, 1]), axis=0)
        near, far = xp.minimum(a, b), xp.maximum(a, b)
        return -xp.where(far > 0, near / _xp.or_one(far), 1.0), nearest


class NNO(OfFeatures):
    r"""One minus the distance to the nearest class mean, relative to a radius.

    .. math:: s(x) = \max_c \Bigl(1 - \frac{\lVert x - \mu_c \rVert}{\tau}\Bigr)

    The class is that of the nearest mean. The paper accepts s > 0; its volume constant
    only rescales s and is omitted, and features are used as they are (its metric
    learning is a linear map to apply beforehand).

    Parameters
    ----------
    tau
        Radius of the balls. None: the `quantile` of the training samples' distances to
        their own class mean, so that s >= 0 accepts this share of them. Samples that
        all lie on their mean give no radius, and fit raises.
    quantile
        In (0, 1].

    References
    ----------
    Bendale and Boult, "Towards open world recognition", CVPR 2015.

    Examples
    --------
    >>> from openset import Outputs
    >>> train = Outputs(features=[[0.0], [2.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> new = Outputs(features=[[1.0], [4.0], [10.5]], labels=[0, -1, 1])
    >>> scores = NNO(tau=2.0).fit(train).score(new)  # means 1 and 10
    >>> scores.known, scores.predicted
    (array([ 1.  , -0.5 ,  0.75]), array([0, 0, 1]))
    """

    costs = ("n d", "C d")
    paper = "Bendale & Boult 2015"
    score_scale = "1 - distance / radius"

    tau: float | None = option(None, Number(low=0, open_low=True, or_none=True))
    quantile: float = option(0.95, Number(low=0, high=1, open_low=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        centre, rows = centred(train)
        classes, owner, counts = np.unique(
            train.labels, return_inverse=True, return_counts=True
        )
        sums = np.zeros((classes.size, rows.shape[1]))
        add_by_group(sums, rows, owner)
        means, tau = sums / counts[:, None], self.tau
        if tau is None:
            own = np.linalg.norm(rows - means[owner], axis=1)
            tau = float(np.quantile(own, self.quantile))
            if tau <= 0:
                rule = "spread around their class means"
                got = "no distance to take the radius from"
                _check.fail("NNO.fit", "features", rule, got, "Give tau")
        return {"centre": centre, "means": means, "tau": tau, "classes": classes}

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        rows = batch.features - state["centre"]
        xp = _xp.array_namespace(rows)
        index = xp.argmin(squared_distances(rows, state["means"]), axis=1)
        away = rows - xp.take(state["means"], index, axis=0)
        known = 1 - _xp.row_norms(away) / state["tau"]
        return known, xp.take(state["classes"], index, axis=0)


class EVM(OfFeatures):
    r"""Largest probability of inclusion under the extreme vectors of all classes.

    .. math:: \Psi_i(x) = e^{-(\lVert x - x_i \rVert / \lambda_i)^{\kappa_i}}, \qquad
              s(x) = \max_i \, -\log(-\log \Psi_i(x))
                   = \max_i \, \kappa_i \log \frac{\lambda_i}{\lVert x - x_i \rVert}

    Each training sample :math:`x_i` has a Weibull distribution of `margin` times the
    distances to its `tail` nearest samples of other classes. Of each class only enough
    samples (extreme vectors) are kept for every sample of the class to have :math:`\Psi
    \ge` `cover` under one of them (greedy set cover). The score ranks samples as
    :math:`\max \Psi` does, which :meth:`Fitted.probability` returns, but does not round
    to 0 and 1; the class is that of the largest :math:`\Psi`.

    A sample on an extreme vector has s = inf. A training sample that coincides with
    one of another class has no margin, hence :math:`\Psi = 0` everywhere, and is never
    an extreme vector; if that is all of them, fit raises, as it does with one class.

    Parameters
    ----------
    tail
        Number of nearest samples of other classes; all, if there are fewer.
    margin
        Factor of the distances.
    cover
        :math:`\Psi` from which a sample counts as covered, in (0, 1].

    References
    ----------
    Rudd, Jain, Scheirer and Boult, "The extreme value machine", TPAMI 40(3), 2018.

    Examples
    --------
    >>> from openset import Outputs
    >>> train = Outputs(features=[[0.0], [1.0], [8.0], [9.0]], labels=[0, 0, 1, 1])
    >>> fitted = EVM(tail=2).fit(train)
    >>> new = Outputs(features=[[0.5], [4.0], [90.0]], labels=[0, -1, -1])
    >>> fitted.state["vectors"].shape  # one sample covers each class
    (2, 1)
    >>> fitted.probability(new).round(2), fitted.score(new).predicted
    (array([1.  , 0.85, 0.  ]), array([0, 0, 1]))
    """

    costs = ("n^2 d", "n_ev d")
    paper = "Rudd et al. 2018"
    score_scale = "-log(-log p)"

    tail: int = option(75, COUNT)
    margin: float = option(0.5, POSITIVE)
    cover: float = option(0.5, Number(low=0, high=1, open_low=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        need_two_classes("EVM", train, "Margins are measured to other classes")
        centre, rows = centred(train)
        rows, labels = rows.astype(float), np.array(train.labels)
        margins = self.margin * _nearest_others(rows, labels, self.tail)
        # Margins must be positive; a sample without one is no extreme vector.
        usable = margins.min(axis=1) > 0
        if not usable.any():
            rule = "different for different classes"
            got = "every sample equal to one of another class"
            _check.fail("EVM.fit", "features", rule, got)
        margins, rows, labels = margins[usable], rows[usable], labels[usable]
        is_member = np.isfinite(margins)
        z = np.where(is_member, margins, 1.0)
        shape, scale = fit_weibull_rows(z, is_member=is_member)
        shape = np.minimum(shape, _STEEPEST)
        # Psi_i >= cover inside this radius around sample i.
        radius = scale * (-math.log(self.cover)) ** (1 / shape)
        members = (np.flatnonzero(labels == c) for c in np.unique(labels))
        kept = np.concatenate([m[_greedy_cover(rows[m], radius[m])] for m in members])
        of_samples = {"vectors": rows, "shape": shape, "scale": scale, "labels": labels}
        return {"centre": centre, **{n: one[kept] for n, one in of_samples.items()}}

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        rows, vectors = batch.features - state["centre"], state["vectors"]
        xp = _xp.array_namespace(rows)
        log_scale = xp.log(state["scale"])

        def place(rows: Array) -> Array:
            half_logs = _xp.log(squared_distances(rows, vectors)) / 2
            return xp.argmax(state["shape"] * (log_scale - half_logs), axis=1)

        winner = in_blocks(place, rows, vectors)  # the vector with the largest Psi
        own, shape, scale, classes = (
            xp.take(state[name], winner, axis=0)
            for name in ("vectors", "shape", "scale", "labels")
        )
        known = shape * (xp.log(scale) - _xp.log(_xp.row_norms(rows - own)))
        return known, classes

    def probability_batch(self, state: State, batch: Batch) -> Array:
        exponent = -self.score_batch(state, batch)
        return _xp.array_namespace(exponent).exp(-exp(exponent))


def in_blocks(
    function: Callable[..., Array], rows: Array, bank: Array, *others: Array
) -> Array:
    """Apply a function to so many rows that their products with the bank are few."""
    return _xp.by_rows(function, rows, *others, step=max(32, _BLOCK // bank.shape[0]))


def squared_distances(rows: Array, bank: Array) -> Array:
    """Return squared Euclidean distances, shape (n, m), by one matrix product.

    Small distances lose precision (half of the digits near zero): use them to select
    neighbours and in smooth kernels.
    """
    xp = _xp.array_namespace(rows)
    lengths = xp.sum(rows * rows, axis=1)[:, None]
    squared = lengths + xp.sum(bank * bank, axis=1)[None, :] - 2 * (rows @ bank.T)
    # In this form NaN from infinite features stays NaN instead of becoming 0.
    return xp.where(squared < 0, xp.zeros_like(squared), squared)


def centred(train: Training) -> tuple[Any, Any]:
    """Return the mean, and features minus it: distances keep more precision."""
    features = Batch(train).features
    centre = features.mean(axis=0, dtype=float).astype(features.dtype)
    return centre, features - centre


def need_two_classes(caller: str, train: Training, why: str) -> None:
    """Raise if all samples are of one class; `why` says what the others are for."""
    labels: Any = train.labels
    if (labels == labels[0]).all():
        rule, got = "of at least two classes", f"class {labels[0]} only"
        _check.fail(f"{caller}.fit", "samples", rule, got, why)


def _nearest_others(rows: Floats, labels: NDArray[np.int64], tail: int) -> Floats:
    """Return distances to the nearest samples of other classes, inf where too few."""
    n = labels.size
    tail = min(tail, n - int(np.unique(labels, return_counts=True)[1].min()))

    def distances(block: Floats, own: NDArray[np.int64]) -> Floats:
        squared = squared_distances(block, rows)
        squared[own[:, None] == labels] = np.inf
        few = np.sort(np.partition(squared, tail - 1, axis=1)[:, :tail], axis=1)
        # Exact, so that coinciding samples have distance 0.
        exact = _xp.row_norms(block - rows[squared.argmin(axis=1)])[:, None]
        return np.hstack([exact, np.maximum(np.sqrt(few[:, 1:]), exact)])

    return in_blocks(distances, rows, rows, labels)


def _greedy_cover(rows: Floats, radius: Floats) -> NDArray[np.intp]:
    """Choose samples until every one lies within the radius of a chosen one.

    The one that covers most uncovered samples comes first; of equal ones that with the
    largest radius, so that the order of the samples does not matter.
    """
    widest = np.argsort(-radius, kind="stable")
    rows, radius = rows[widest], radius[widest]

    def covered(block: Floats, radius: Floats) -> NDArray[np.bool_]:
        return squared_distances(block, rows) <= (radius**2)[:, None]

    covers = in_blocks(covered, rows, rows, radius)
    np.fill_diagonal(covers, val=True)
    gain = np.count_nonzero(covers, axis=1)
    left = np.ones(radius.size, dtype=bool)
    chosen = []
    while left.any():
        chosen.append(int(gain.argmax()))
        new = np.flatnonzero(covers[chosen[-1]] & left)
        left[new] = False
        # Every column is removed once: all rounds together cost one pass.
        gain -= np.count_nonzero(covers[:, new], axis=1)
    return widest[chosen]
