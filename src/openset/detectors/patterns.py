"""Detectors that compare a feature with the weights or the mean of its class."""

from typing import Any

import numpy as np

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import add_by_group, fit_batches
from openset.detectors.constraints import POSITIVE, Number, OneOf, option
from openset.detectors.scaling import head
from openset.detectors.shaping import mean_feature

# Squared distance between weight vectors, as a share of their squared length, below
# which they are one vector up to rounding.
_SAME_VECTOR = 2e-14
_BLOCK_BYTES = 1 << 20  # logits and features of so many rows stay in the cache


class GradNorm(Detector):
    r"""L1 norm of the gradient, with respect to the last weights, of a uniform loss.

    .. math:: s(x) = \Bigl\lVert \frac{\partial}{\partial W}
              D_{KL}\bigl(u \,\Vert\, \operatorname{softmax}(z / T)\bigr)
              \Bigr\rVert_1
              = \frac1T \lVert f \rVert_1 \sum_c \bigl| p_c - \tfrac1C \bigr|, \qquad
              u_c = \tfrac1C

    The gradient of one sample is the outer product of :math:`(p - u) / T` and f, so its
    norm is the product of their norms: no automatic differentiation is needed. Like the
    paper, it leaves out the gradient of the bias. With one class, s = 0.

    Parameters
    ----------
    temperature
        T, which the logits are divided by.

    References
    ----------
    Huang, Geng and Li, "On the importance of gradients for detecting distributional
    shifts in the wild", NeurIPS 2021.

    Examples
    --------
    The features sum to 4; the probabilities 3/4 and 1/4 are 1/4 away from 1/2.

    >>> import math
    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[math.log(3), 0.0]], features=[[3.0, -1.0]],
    ...                   labels=[0])
    >>> GradNorm().fit(outputs).score(outputs).known.round(6)
    array([2.])
    """

    score_needs = ("logits", "features")
    costs = ("-", "C + d")
    paper = "Huang et al. 2021"
    score_scale = "norm"

    temperature: float = option(1.0, POSITIVE)

    def score_batch(self, state: State, batch: Batch) -> Array:
        tempered = batch.tempered(self.temperature)
        xp = _xp.array_namespace(batch.logits)
        uniform = 1 / batch.logits.shape[1]

        def norm(logits: Array, energy: Array, features: Array) -> Array:
            p = xp.exp(logits - energy[:, None])
            from_uniform = xp.sum(xp.abs(p - uniform), axis=1)
            return xp.sum(xp.abs(features), axis=1) * from_uniform / self.temperature

        return _xp.by_rows(norm, tempered.logits, tempered.energy, batch.features)


class NCI(Detector):
    r"""Projection of the weights of the predicted class on the centred feature.

    .. math:: s(x) = \frac{w_{\hat c}^\top (f - \mu)}{\lVert f - \mu \rVert_2}
              + \alpha \lVert f \rVert_1

    where :math:`\hat c` is the predicted class and :math:`\mu` the mean training
    feature. At :math:`f = \mu` the first term is 0.

    Parameters
    ----------
    alpha
        Weight of the feature's length. The paper selects it from 1e-4, 1e-3, 1e-2,
        1e-1.

    References
    ----------
    Liu and Qin, "Detecting out-of-distribution through the lens of neural collapse",
    CVPR 2025.

    Examples
    --------
    With the mean at 0, (3, 4) has L2 norm 5, L1 norm 7 and a product of 3 with (1, 0).

    >>> from openset import Outputs
    >>> train = Outputs(features=[[-1.0, 0.0], [1.0, 0.0]], weight=[[1.0, 0.0]],
    ...                 bias=[0.0])
    >>> test = Outputs(logits=[[3.0]], features=[[3.0, 4.0]], labels=[0])
    >>> NCI(alpha=0.1).fit(train).score(test).known.round(2)  # 3/5 + 0.1 * 7
    array([1.3])
    """

    fit_needs = ("features", "head")
    score_needs = ("logits", "features")
    costs = ("n d", "C + d")
    paper = "Liu & Qin 2025"
    score_scale = "cosine + norm"

    alpha: float = option(1e-3, Number(low=0))

    def fit_state(self, train: Training) -> dict[str, Any]:
        return {"weight": head(train)["weight"], "mean": mean_feature(train)}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)

        def score(features: Array, index: Array) -> Array:
            away = features - state["mean"]
            length = _xp.row_norms(away)
            along = xp.sum(away * xp.take(state["weight"], index, axis=0), axis=1)
            # At the mean `along` is 0 too: any divisor will do.
            cosine = along / _xp.or_one(length)
            return cosine + self.alpha * xp.sum(xp.abs(features), axis=1)

        return _xp.by_rows(score, batch.features, batch.top_class)


class FDBD(Detector):
    r"""Mean distance to decision boundaries, relative to the distance from the mean.

    .. math:: s(x) = \frac{1}{\lVert f - \mu \rVert_2} \cdot \frac{1}{C - 1}
              \sum_{c \ne \hat c}
              \frac{z_{\hat c} - z_c}{\lVert w_{\hat c} - w_c \rVert_2}

    where :math:`\hat c` is the predicted class and :math:`\mu` the mean training
    feature. A sample exactly at :math:`\mu` gets the lowest score, 0. At least two
    classes are needed, and no two with the same weights, which have no boundary.

    Parameters
    ----------
    origin
        ``"mean"``, as above (the paper), or ``"zero"``: divide by the length of f.

    References
    ----------
    Liu and Qin, "Fast decision boundary based out-of-distribution detector", ICML 2024.

    Examples
    --------
    The boundary between (1, 0) and (0, 1) is the diagonal: (3, 1) is sqrt(2) away from
    it and, with the mean at (0, 1), 3 from the mean.

    >>> from openset import Outputs
    >>> head = {"weight": [[1.0, 0.0], [0.0, 1.0]], "bias": [0.0, 0.0]}
    >>> train = Outputs(features=[[-1.0, 1.0], [1.0, 1.0]], **head)
    >>> test = Outputs(logits=[[3.0, 1.0]], features=[[3.0, 1.0]], labels=[0])
    >>> FDBD().fit(train).score(test).known.round(4)  # sqrt(2) / 3
    array([0.4714])
    """

    fit_needs = ("features", "head")
    score_needs = ("logits", "features")
    costs = ("n d + C^2 d", "C + d")
    paper = "Liu & Qin 2024"
    score_scale = "distance ratio"

    origin: str = option("mean", OneOf("mean", "zero"))

    def fit_state(self, train: Training) -> dict[str, Any]:
        weight = head(train)["weight"].astype(float)
        n_classes = len(weight)
        products = weight @ weight.T
        lengths = np.diagonal(products)
        toward = lengths[:, None] - products
        # Of the distances between classes: exactly 0 from a class to itself.
        squares = toward + toward.T
        is_same = squares <= _SAME_VECTOR * lengths[:, None]
        pairs = np.argwhere(np.triu(is_same, k=1))
        if n_classes == 1:
            _check.fail("FDBD.fit", "number of classes", "two or more", 1)
        if pairs.size:
            rule = "different for every two classes"
            got = f"the same for classes {pairs[0, 0]} and {pairs[0, 1]}"
            remedy = "Classes with the same weights have no boundary between them"
            _check.fail("FDBD.fit", "rows of weight", rule, got, remedy)
        # The class itself contributes 0; the mean is over the others.
        far = np.where(is_same, np.inf, squares)
        mean = mean_feature(train) * (self.origin == "mean")
        return {"inverse": 1 / (np.sqrt(far) * (n_classes - 1)), "mean": mean}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)

        def ratio(logits: Array, top: Array, index: Array, features: Array) -> Array:
            per_class = xp.take(state["inverse"], index, axis=0)
            to_boundary = xp.sum((top[:, None] - logits) * per_class, axis=1)
            to_mean = _xp.row_norms(features - state["mean"])
            return xp.where(to_mean == 0, 0.0, to_boundary / _xp.or_one(to_mean))

        predicted = batch.top_logit, batch.top_class
        return _xp.by_rows(
            ratio, batch.logits, *predicted, batch.features, size=_BLOCK_BYTES
        )


class SHE(Detector):
    r"""Inner product of the feature and the stored pattern of the predicted class.

    .. math:: s(x) = f^\top S_{\hat c}, \qquad
              S_c = \operatorname*{mean}_{i :\, \hat c_i = y_i = c} f_i

    The pattern of a class is the mean feature of its correctly classified training
    samples. A class without any has no pattern: samples predicted as that class get the
    lowest score, -inf. If no sample is classified correctly, fitting raises.

    References
    ----------
    Zhang et al., "Out-of-distribution detection based on in-distribution data patterns
    memorization with modern Hopfield energy", ICLR 2023.

    Examples
    --------
    The pattern of class 0 is (2, 1); class 1 has none.

    >>> from openset import Outputs
    >>> train = Outputs(logits=[[1.0, 0.0], [1.0, 0.0]],
    ...                 features=[[1.0, 1.0], [3.0, 1.0]], labels=[0, 0])
    >>> test = Outputs(logits=[[1.0, 0.0], [0.0, 1.0]],
    ...                features=[[1.0, 5.0], [9.0, 9.0]], labels=[0, -1])
    >>> SHE().fit(train).score(test).known
    array([  7., -inf])
    """

    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")
    costs = ("n d", "C + d")
    paper = "Zhang et al. 2023"
    score_scale = "product"

    def fit_state(self, train: Training) -> dict[str, Any]:
        n_classes = train.logits.shape[1]
        sums = np.zeros((n_classes, train.features.shape[1]))
        counts = np.zeros(n_classes)
        for batch in fit_batches(train):
            labels = train.labels[batch.rows]
            is_right = batch.top_class == labels
            add_by_group(sums, batch.features[is_right], labels[is_right])
            counts += np.bincount(labels[is_right], minlength=n_classes)
        if not counts.any():
            rule = "predicted correctly for at least one sample"
            remedy = "Do the labels number the classes as the logits do?"
            _check.fail("SHE.fit", "labels", rule, f"none of {len(train)}", remedy)
        patterns = sums / np.maximum(counts, 1)[:, None]
        return {"patterns": patterns, "floor": np.where(counts > 0, 0.0, -np.inf)}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)

        def product(features: Array, index: Array) -> Array:
            own = xp.take(state["patterns"], index, axis=0)
            floor = xp.take(state["floor"], index, axis=0)
            return xp.sum(features * own, axis=1) + floor

        return _xp.by_rows(product, batch.features, batch.top_class)


class CORE(Detector):
    r"""Energy, plus a cosine of the feature's part orthogonal to the class weights.

    .. math:: s(x) = \frac{E - m_E}{\sigma_E} + \frac{a - m_a}{\sigma_a}, \qquad
              E = \log \sum_c e^{z_c}, \qquad
              a = \cos(r_{\hat c}(f), \rho_{\hat c})

    .. math:: r_c(f) = f - (f^\top u_c)\, u_c, \quad u_c = w_c / \lVert w_c \rVert_2,
              \qquad \rho_c = \operatorname*{mean}_{i : y_i = c} r_c(f_i)

    The residual of a feature is what is orthogonal to the weights of a class; training
    samples of the class have residuals of similar direction. Means m and standard
    deviations :math:`\sigma` are those of the training samples, so that both terms
    weigh the same. A class without samples, or a residual of length 0, has cosine 0.

    There is no released code; the paper's text leaves open whether residuals belong to
    one class or to all. Those of all classes would be zero where there are more
    classes than features, so they belong to the predicted class here.

    References
    ----------
    Yang, Kim and Bahk, "CORE: Robust out-of-distribution detection via confidence and
    orthogonal residual scoring", arXiv:2603.18290, 2026.

    Examples
    --------
    Energies are 1 and 3 in training (mean 2, deviation 1), the weights use the first
    feature only, and both residuals point along the second: only the energy varies.

    >>> from openset import Outputs
    >>> head = {"weight": [[1.0, 0.0]], "bias": [0.0]}
    >>> features = [[1.0, 2.0], [3.0, 5.0]]
    >>> train = Outputs(logits=[[1.0], [3.0]], features=features, labels=[0, 0], **head)
    >>> test = Outputs(logits=[[3.0]], features=[[3.0, -1.0]], labels=[-1])
    >>> CORE().fit(train).score(test).known  # 1, and a cosine of -1 instead of 1
    array([-1.])
    """

    fit_needs = ("logits", "features", "labels", "head")
    score_needs = ("logits", "features")
    costs = ("n (C + d)", "C + d")
    paper = "Yang et al. 2026"
    score_scale = "sum of 2 z-scores"
    # Float64 for float32 outputs, too: the cosines of a class hardly differ.
    casts_state = False

    def fit_state(self, train: Training) -> dict[str, Any]:
        unit = _unit(head(train)["weight"].astype(float))
        sums = np.zeros_like(unit)
        for batch in fit_batches(train):
            labels = train.labels[batch.rows]
            residual = _residual(batch.features.astype(float), unit[labels])
            add_by_group(sums, residual, labels)
        state = {"unit": unit, "pattern": _unit(sums)}
        both = np.concatenate([_both(state, batch) for batch in fit_batches(train)])
        spread = both.std(axis=0)
        # The rounding errors of a constant are no spread.
        is_constant = spread <= 1e-9 * np.maximum(np.abs(both).max(axis=0), 1)
        spread = np.where(is_constant, 1.0, spread)
        return {**state, "mean": both.mean(axis=0), "spread": spread}

    def score_batch(self, state: State, batch: Batch) -> Array:
        both = (_both(state, batch) - state["mean"]) / state["spread"]
        return _xp.array_namespace(both).sum(both, axis=1)


def _unit(rows: Any) -> Any:
    return rows / _xp.or_one(_xp.row_norms(rows))[:, None]


def _residual(rows: Array, unit: Array) -> Array:
    xp = _xp.array_namespace(rows)
    return rows - xp.sum(rows * unit, axis=1)[:, None] * unit


def _both(state: State, batch: Batch) -> Array:
    """Return energy and cosine of each sample, shape (n, 2), in float64."""
    xp = _xp.array_namespace(batch.features)

    def cosine(features: Array, index: Array) -> Array:
        rows = xp.astype(features, xp.float64, copy=False)
        residual = _residual(rows, xp.take(state["unit"], index, axis=0))
        along = xp.sum(residual * xp.take(state["pattern"], index, axis=0), axis=1)
        return along / _xp.or_one(_xp.row_norms(residual))

    cosines = _xp.by_rows(cosine, batch.features, batch.top_class)
    return xp.stack([xp.astype(batch.energy, xp.float64, copy=False), cosines], axis=1)
