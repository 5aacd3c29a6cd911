"""WeiPer+KLD: histograms of features and of logits of perturbed weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, draw, fit_batches
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE, Integer, Number
from openset.outputs import Outputs

# Perturbed logits computed at once.
_BLOCK = 1 << 21


@dataclass(frozen=True, kw_only=True)
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

    >>> head = {"weight": [[1.0, 0.0], [0.0, 1.0]], "bias": [0.0, 0.0]}
    >>> train = Outputs(logits=[[4.0, 0.0]], features=[[4.0, 0.0]], **head)
    >>> fitted = WeiPer(repeats=5, smooth=1).fit(train)
    >>> bool(0.5 < fitted.known(train)[0] < 1)
    True
    """

    name = "weiper"
    fit_needs = ("features", "head")
    score_needs = ("features",)
    fit_cost = "n r C d"
    score_cost = "r C d"
    paper = "Granz et al. 2024"
    score_scale = "p - divergence"
    constraints = {
        "delta": POSITIVE,
        "repeats": Integer(low=1),
        "weight_logits": Number(low=0),
        "weight_msp": Number(low=0),
        "bins": Integer(low=2),
        "smooth": Integer(low=1),
        "max_samples": Integer(low=1),
        "seed": Integer(),
    }

    delta: float = 2.1
    repeats: int = 100
    weight_logits: float = 1.0
    weight_msp: float = 1.0
    bins: int = 100
    smooth: int = 20
    max_samples: int = 10_000
    seed: int = 0

    def fit_state(self, train: Outputs) -> State:
        head = shaping.head("WeiPer", train)
        weight = self._perturbed(_xp.to_numpy(head["weight"]))
        chosen = draw(len(train), self.max_samples, self.seed)
        n = len(train) if chosen is None else chosen.size
        state: dict[str, Array] = {
            "weight": _xp.moved(weight, head["weight"]),
            "head": head["weight"],
            "bias": head["bias"],
        }
        spans = [
            (_span(features), *(_span(z) for z in self._logits(state, features)))
            for features in map(_wide, fit_batches(train, chosen))
        ]
        ends = {
            "features": _outer([parts[0] for parts in spans], n),
            "logits": _outer([one for parts in spans for one in parts[1:]], n),
        }
        for name, span in ends.items():
            state[f"span_{name}"] = _xp.moved(np.array(span), head["weight"])
        sums: Any = 0.0
        for features in map(_wide, fit_batches(train, chosen)):
            xp = _xp.array_namespace(features)
            both = xp.stack(self._histograms(state, features)[:2], axis=0)
            sums = xp.sum(both, axis=1) + sums
        means = _distributions(sums / n, _added(sums))
        return {**state, "means": means}

    def _perturbed(self, weight: NDArray[Any]) -> NDArray[np.float32]:
        """Return r perturbed copies of the weights, stacked, as float32."""
        n_classes, width = weight.shape
        rng = np.random.default_rng(self.seed)
        # Perturbations belong to a class whatever its number is.
        order = np.lexsort(weight.astype(np.float32).T[::-1])
        lengths = np.linalg.norm(weight.astype(np.float64), axis=1)
        found = np.empty((self.repeats, n_classes, width), dtype=np.float32)
        for one in found:
            noise = rng.normal(size=(n_classes, width))
            noise *= self.delta / np.linalg.norm(noise, axis=1)[:, None]
            one[order] = weight[order] + lengths[order, None] * noise
        return found.reshape(-1, width)

    def _logits(self, state: State, features: Array) -> Any:
        """Yield perturbed logits of float64 features, some repeats at a time."""
        xp = _xp.array_namespace(features)
        n_classes = state["bias"].shape[0]
        bias = xp.astype(state["bias"], xp.float64)
        several = max(1, _BLOCK // max(1, features.shape[0] * n_classes))
        for part in _xp.runs(self.repeats, several):
            rows = state["weight"][part.start * n_classes : part.stop * n_classes, :]
            logits = features @ xp.astype(rows, xp.float64).T
            yield logits + xp.tile(bias, (part.stop - part.start,))[None, :]

    def _histograms(self, state: State, features: Array) -> tuple[Array, Array, Array]:
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
        *shares, confidence = self._histograms(state, features)
        smoother = _xp.moved(_smoother(self.bins, self.smooth), features)
        found = xp.stack([share @ smoother for share in shares], axis=0)
        p = _distributions(found, _added(found))
        q = state["means"][:, None, :]
        apart = xp.sum((p - q) * (xp.log(p) - xp.log(q)), axis=2)
        return (
            self.weight_msp * confidence
            - apart[0, :]
            - self.weight_logits * apart[1, :]
        )

    def predict_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        dtype = batch.features.dtype
        head = {"weight": state["head"], "bias": state["bias"]}
        cast = {name: xp.astype(one, dtype, copy=False) for name, one in head.items()}
        return shaping.head_class(cast, batch.features)


# Added to the histograms of features and of perturbed logits.
_ADDED = (0.01, 0.025)


def _added(like: Array) -> Array:
    shape = (2,) + (1,) * (like.ndim - 1)
    return _xp.moved(np.array(_ADDED).reshape(shape), like)


def _distributions(shares: Array, added: Array) -> Array:
    xp = _xp.array_namespace(shares)
    found = shares + added
    return found / xp.sum(found, axis=-1, keepdims=True)


def _wide(batch: Batch) -> Array:
    xp = _xp.array_namespace(batch.features)
    return xp.astype(batch.features, xp.float64, copy=False)


def _span(values: Array) -> tuple[float, float]:
    xp = _xp.array_namespace(values)
    return float(xp.min(values)), float(xp.max(values))


def _outer(spans: list[tuple[float, float]], n: int) -> tuple[float, float]:
    """Return the range of all values, a little wider: by its n-th part on each side."""
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    more = (high - low) / n
    return (low - more, high + more) if more > 0 else (low - 1.0, high + 1.0)


def _places(values: Any, span: Any, bins: int) -> Any:
    """Return the bin of each value as a real number, before rounding down."""
    low, high = span[0], span[1]
    return (values - low) * (bins / (high - low))


def _counts(values: Array, span: Array, bins: int) -> Array:
    """Count the values of each row in every bin, shape (n, bins)."""
    xp = _xp.array_namespace(values)
    places = xp.floor(_places(values, span, bins))
    n = values.shape[0]
    numbers = _xp.is_numpy_array(values) or _xp.is_torch_array(values)
    if _xp.is_traced(values) or not numbers:
        each = [xp.sum(xp.astype(places == j, xp.float64), axis=1) for j in range(bins)]
        return xp.stack(each, axis=1)
    # One more bin on either side, for values outside of the range.
    # NaN is no integer: outside, too. The sample's score is NaN all the same.
    places = xp.where(xp.isnan(places), xp.full_like(places, -1.0), places)
    index = xp.astype(xp.clip(places, -1, bins), xp.int64) + 1
    index += xp.arange(n, device=_xp.device(values))[:, None] * (bins + 2)
    flat = xp.reshape(index, (-1,))
    size = n * (bins + 2)
    if _xp.is_numpy_array(values):
        counts = np.bincount(flat, minlength=size)
    else:
        counts = flat.bincount(minlength=size)
    return xp.astype(xp.reshape(counts, (n, bins + 2))[:, 1:-1], xp.float64)


def _smoother(bins: int, width: int) -> NDArray[np.float64]:
    """Return the matrix of a moving average; beyond the ends, the last bin counts."""
    found = np.zeros((bins, bins))
    before = (width - 1) // 2
    for j in range(bins):
        near = np.clip(np.arange(j - before, j - before + width), 0, bins - 1)
        found[:, j] = np.bincount(near, minlength=bins) / width
    return found
