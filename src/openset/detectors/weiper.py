"""WeiPer+KLD: histograms of features and of logits of perturbed weights."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from openset import _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import draw, fit_batches, in_dtype
from openset.detectors.constraints import COUNT, POSITIVE, SEED, Number, option
from openset.detectors.scaling import class_by_head, head

_BLOCK = 1 << 21  # perturbed logits computed at once
_ADDED = {"features": 0.01, "logits": 0.025}  # to the histograms


class WeiPer(Detector):
    r"""Confidence, minus the divergence of a sample's histograms from the mean ones.

    .. math:: s(x) = -D(h, \bar h) - \lambda_1 D(\tilde h, \bar{\tilde h})
              + \frac{\lambda_2}{r} \sum_{i=1}^{r} \max_c
              \operatorname{softmax}(\tilde W_i f + b)_c

    .. math:: \tilde w_{ic} = w_c + \delta\, \lVert w_c \rVert_2\, \epsilon_{ic},
              \qquad D(p, q) = \sum_j (p_j - q_j) (\log p_j - \log q_j)

    "WeiPer+KLD": the weights of the last layer are perturbed r times in random unit
    directions :math:`\epsilon`. h is the histogram of a sample's features,
    :math:`\tilde h` that of all its r C perturbed logits; their bins span the range of
    the training samples. :math:`\bar h` is the mean histogram of the training samples.
    Histograms of a sample are smoothed by a moving average; to both, a small constant
    (0.01 for features, 0.025 for logits) is added before they are scaled to sum 1.

    It costs r times the last layer, computed in float64: whether a number is in one bin
    or the next then does not depend on the machine. Defaults are those of the released
    functions; the paper selects them for each data set.

    Parameters
    ----------
    delta
        Length of the perturbation, relative to that of the weights.
    repeats
        r, the number of perturbations.
    weight_logits, weight_msp
        :math:`\lambda_1` and :math:`\lambda_2`.
    bins
        Number of bins.
    smooth
        Width of the moving average, in bins.
    max_samples
        Training samples to compute range and mean histograms from, at most: more are
        drawn at random.
    seed
        Random seed of perturbations and draw.

    References
    ----------
    Granz, Heurich and Landgraf, "WeiPer: OOD detection using weight perturbations of
    class projections", NeurIPS 2024.

    Examples
    --------
    Samples like the training sample have no divergence: only the confidence is left.

    >>> from openset import Outputs
    >>> head = {"weight": [[1.0, 0.0], [0.0, 1.0]], "bias": [0.0, 0.0]}
    >>> train = Outputs(logits=[[4.0, 0.0]], features=[[4.0, 0.0]], **head)
    >>> fitted = WeiPer(repeats=5, smooth=1).fit(train)
    >>> bool(0.5 < fitted.known(train)[0] < 1)
    True
    """

    fit_needs = ("features", "head")
    score_needs = ("features",)
    costs = ("n r C d", "r C d")
    paper = "Granz et al. 2024"
    score_scale = "p - divergence"
    casts_state = False

    delta: float = option(2.1, POSITIVE)
    repeats: int = option(100, COUNT)
    weight_logits: float = option(1.0, Number(low=0))
    weight_msp: float = option(1.0, Number(low=0))
    bins: int = option(100, Number(low=2, integer=True))
    smooth: int = option(20, COUNT)
    max_samples: int = option(10_000, COUNT)
    seed: int = option(0, SEED)

    def fit_state(self, train: Training) -> dict[str, Any]:
        chosen = draw(len(train), self.max_samples, self.seed)
        n = len(train) if chosen is None else chosen.size
        last = head(train)
        state = {**last, "perturbed": self._perturbed(last["weight"])}
        ends: dict[str, list[float]] = {name: [] for name in _ADDED}
        for features in map(_wide, fit_batches(train, chosen)):
            ends["features"] += [features.min(), features.max()]
            for logits in self._logits(state, features):
                ends["logits"] += [logits.min(), logits.max()]
        for name, values in ends.items():
            low, high = min(values), max(values)
            more = (high - low) / n or 1.0  # a little wider than the range
            state[f"span_{name}"] = np.array([low - more, high + more])
        sums: Any = 0.0
        for features in map(_wide, fit_batches(train, chosen)):
            sums = np.stack(self._shares(state, features)[:2]).sum(axis=1) + sums
        means = zip(sums / n, _ADDED.values(), strict=True)
        return {**state, "means": np.stack([_distribution(*one) for one in means])}

    def _perturbed(self, weight: Any) -> Any:
        """Return r perturbed copies of the weights, stacked, as float32."""
        rng = np.random.default_rng(self.seed)
        # Perturbations belong to a class whatever its number is.
        order = np.lexsort(weight.astype(np.float32).T[::-1])
        lengths = np.linalg.norm(weight.astype(float), axis=1)
        found = np.empty((self.repeats, *weight.shape), dtype=np.float32)
        for one in found:
            noise = rng.normal(size=weight.shape)
            noise *= self.delta / np.linalg.norm(noise, axis=1)[:, None]
            one[order] = weight[order] + lengths[order, None] * noise
        return found.reshape(-1, weight.shape[1])

    def _logits(self, state: State, features: Array) -> Iterator[Array]:
        """Yield perturbed logits of float64 features, some repeats at a time."""
        xp = _xp.array_namespace(features)
        n_classes = state["bias"].shape[0]
        bias = xp.astype(state["bias"], xp.float64)
        several = max(1, _BLOCK // max(1, features.shape[0] * n_classes))
        for part in _xp.runs(self.repeats, several):
            rows = slice(part.start * n_classes, part.stop * n_classes)
            logits = features @ xp.astype(state["perturbed"][rows, :], xp.float64).T
            yield logits + xp.tile(bias, (part.stop - part.start,))[None, :]

    def _shares(self, state: State, features: Array) -> tuple[Array, Array, Array]:
        """Return both histograms of each sample, and its confidence."""
        xp = _xp.array_namespace(features)
        n, n_classes = features.shape[0], state["bias"].shape[0]
        of_features = _counts(features, state["span_features"], self.bins)
        of_logits: Any = 0.0
        confidence: Any = 0.0
        for logits in self._logits(state, features):
            of_logits = _counts(logits, state["span_logits"], self.bins) + of_logits
            each = xp.reshape(logits, (n, -1, n_classes))
            masses = xp.exp(each - xp.max(each, axis=2, keepdims=True))
            confidence = xp.sum(1 / xp.sum(masses, axis=2), axis=1) + confidence
        size = self.repeats * n_classes
        shares = of_features / features.shape[1], of_logits / size
        return (*shares, confidence / self.repeats)

    def score_batch(self, state: State, batch: Batch) -> Array:
        features = _wide(batch)
        xp = _xp.array_namespace(features)
        *shares, confidence = self._shares(state, features)
        known = self.weight_msp * confidence
        smoother = _xp.moved(_smoother(self.bins, self.smooth), features)
        weights = (1.0, self.weight_logits)
        for i, added in enumerate(_ADDED.values()):
            p, q = _distribution(shares[i] @ smoother, added), state["means"][i, ...]
            apart = xp.sum((p - q) * (xp.log(p) - xp.log(q)), axis=1)
            known = known - weights[i] * apart
        return known

    def predict_batch(self, state: State, batch: Batch) -> Array:
        last = {name: state[name] for name in ("weight", "bias")}
        return class_by_head(in_dtype(last, batch.features.dtype), batch)


def _wide(batch: Batch) -> Array:
    xp = _xp.array_namespace(batch.features)
    return xp.astype(batch.features, xp.float64, copy=False)


def _distribution(shares: Array, added: float) -> Array:
    """Add a small constant, and scale to sum 1."""
    found = shares + added
    return found / _xp.array_namespace(found).sum(found, axis=-1, keepdims=True)


def _counts(values: Array, span: Array, bins: int) -> Array:
    """Count the values of each row in every bin, shape (n, bins)."""
    xp = _xp.array_namespace(values)
    places = xp.floor((values - span[0]) * (bins / (span[1] - span[0])))
    n, numpy = values.shape[0], _xp.is_numpy_array(values)
    if not numpy and not _xp.is_torch_array(values):
        each = [xp.sum(xp.astype(places == j, xp.float64), axis=1) for j in range(bins)]
        return xp.stack(each, axis=1)
    # One more bin on either side, for values outside of the range. NaN is no integer:
    # outside, too. The sample's score is NaN all the same.
    places = xp.where(xp.isnan(places), xp.full_like(places, -1.0), places)
    index = xp.astype(xp.clip(places, -1, bins), xp.int64) + 1
    if _xp.is_traced(values):  # one node of the graph
        counts = values.new_zeros((n, bins + 2))
        return counts.scatter_add_(1, index, xp.ones_like(values))[:, 1:-1]
    index += xp.arange(n, device=_xp.device(values))[:, None] * (bins + 2)
    flat, size = xp.reshape(index, (-1,)), n * (bins + 2)
    counts = (np.bincount if numpy else xp.bincount)(flat, minlength=size)
    return xp.astype(xp.reshape(counts, (n, bins + 2))[:, 1:-1], xp.float64)


def _smoother(bins: int, width: int) -> Any:
    """Return the matrix of a moving average; beyond the ends, the last bin counts."""
    near = np.arange(bins) + np.arange(width)[:, None] - (width - 1) // 2
    return np.eye(bins)[np.clip(near, 0, bins - 1)].sum(axis=0).T / width
