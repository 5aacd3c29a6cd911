"""The knownness of every exportable detector, written as a graph.

Each function mirrors the `_score` of its detector, in float32 (distributions in
float64). Samples for which `_score` raises get NaN here, and NaN is never accepted.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import detectors
from openset.detectors import Detector
from openset.detectors.combined import Combined
from openset.detectors.layered import ByLayer
from openset.detectors.shaping import n_kept
from openset.integrations.onnx import _combined as _ranks
from openset.integrations.onnx._graph import (
    Var,
    larger,
    lesser,
    squared_distances,
    where,
)
from openset.integrations.onnx._sample import Sample, is_top

Writer = Callable[[Any, Sample], Var]

_LARGEST = 1 / float(np.finfo(np.float32).eps)  # logits whose rounding errors are 1


def _other_mass(logits: Var) -> tuple[Var, Var]:
    """Return the largest logit, and the sum of exp(z - largest) over the others."""
    top = logits.argmax()
    largest = logits.pick(top)
    terms = (logits - largest).exp()
    return largest, where(is_top(logits, top), logits.graph.constant(0.0), terms).sum()


def _log_other_mass(logits: Var) -> Var:
    """Logarithm of `_other_mass`, relative to the second logit: no underflow."""
    top = logits.argmax()
    nothing = logits.graph.constant(-math.inf)
    others = where(is_top(logits, top), nothing, logits)
    runner_up = others.max().or_zero()  # -inf if all others are
    return (others - runner_up).exp().sum().log() + (runner_up - logits.pick(top))


def _energy(logits: Var) -> Var:
    largest, others = _other_mass(logits)
    return largest + others.log1p()


def _log_odds(x: Sample, temperature: float) -> Var:
    if x.n_classes == 1:  # there is no other class
        return 0.0 * x.top_logit + math.inf
    return -_log_other_mass(x.tempered(temperature))


def _msp(detector: detectors.MSP, x: Sample) -> Var:
    return _log_odds(x, detector.temperature)


def _mcm(detector: detectors.MCM, x: Sample) -> Var:
    return _log_odds(x, detector.scale * detector.temperature)


def _maxlogit(_: detectors.MaxLogit, x: Sample) -> Var:
    return x.top_logit


def _energy_score(detector: detectors.Energy, x: Sample) -> Var:
    return detector.temperature * _energy(x.tempered(detector.temperature))


def _gen(detector: detectors.GEN, x: Sample) -> Var:
    if x.n_classes == 1:
        return 0.0 * x.top_logit
    largest, others = _other_mass(x.logits)
    # `_score` raises for these.
    is_noise = (largest.abs() >= _LARGEST) & (largest.abs() < math.inf)
    largest = where(is_noise, x.graph.constant(math.nan), largest)
    log_total = others.log1p()
    first = (detector.gamma * (_log_other_mass(x.logits) - 2.0 * log_total)).exp()
    kept = min(detector.top, x.n_classes or detector.top)
    if kept == 1:
        return where(is_noise, largest, -first)
    rest, _ = x.logits.top(kept)
    log_p = rest.columns(1, kept) - (largest + log_total)
    log_terms = detector.gamma * (log_p + (-log_p.exp()).log1p())
    return -(first + log_terms.exp().sum())


def _postmax(detector: detectors.PostMax, x: Sample) -> Var:
    if detector.norm == "none":
        return x.top_logit
    lengths = x.features.norm() if detector.norm == "l2" else x.features.abs().sum()
    ratio = x.top_logit / lengths.or_one()
    return where(lengths > 0.0, ratio, x.graph.constant(-math.inf))


def _expansion(features: Var, k: int) -> Var:
    """Write exp(sum / sum of the k largest); NaN where the ratio is meaningless."""
    graph = features.graph
    total, kept = features.sum(), features.top(k)[0].sum()
    is_zero = features.abs().max() <= 0.0
    is_some = kept > 0.0
    ratio = where(is_some, total / kept, graph.constant(math.nan))
    limit = math.log(np.finfo(np.float32).max)
    ratio = where(ratio <= limit, ratio, graph.constant(math.nan))
    return where(is_zero, graph.constant(0.0), ratio).exp()


def _positive(features: Var, relu: bool) -> Var:  # noqa: FBT001  # a field of the recipe
    return features.graph.op("Relu", features) if relu else features


def _scale(detector: detectors.SCALE, x: Sample) -> Var:
    features = _positive(x.features, detector.relu)
    scale = _expansion(features, n_kept(x.width, detector.percentile))
    bias = x.state("bias")
    return ((x.logits - bias) * scale + bias).logsumexp()


def _through_head(x: Sample, features: Var) -> Var:
    weight = x.graph.constant(x.arrays["weight"].T)
    return (features @ weight + x.state("bias")).logsumexp()


def _ash(detector: detectors.ASH, x: Sample) -> Var:
    features = _positive(x.features, detector.relu)
    k = n_kept(x.width, detector.percentile)
    _, places = features.top(k)
    nothing, ones = features * 0.0, places.cast(np.float32) * 0.0 + 1.0
    is_kept = x.graph.op("ScatterElements", nothing, places, ones, axis=1)
    if detector.variant == "b":
        shaped = is_kept * (features.sum() / float(k))
    else:
        shaped = is_kept * features
    if detector.variant == "s":
        shaped = shaped * _expansion(features, k)
    return _through_head(x, shaped)


def _react(_: detectors.ReAct, x: Sample) -> Var:
    return _through_head(x, lesser(x.features, x.state("clip")))


def _vim(_: detectors.ViM, x: Sample) -> Var:
    away = (x.features - x.state("origin")) @ x.state("residual")
    return _energy(x.logits) - away.norm()


def _top_products(detector: Any, x: Sample) -> Var:
    return (x.features.unit() @ x.graph.constant(x.arrays["bank"].T)).top(detector.k)[0]


def _knn(detector: detectors.KNN, x: Sample) -> Var:
    square = 2.0 - 2.0 * _top_products(detector, x).min()
    return -larger(square, x.graph.constant(0.0)).sqrt()


def _nnguide(detector: detectors.NNGuide, x: Sample) -> Var:
    mean = _top_products(detector, x).sum() / float(detector.k)
    return _energy(x.logits) * mean


def _to_nearest(x: Sample, rows: Var) -> Var:
    """Write the squared distance to the nearest class mean, of whitened rows."""
    means = x.arrays["means"].astype(np.float64)
    white = (rows - x.state("origin")) @ x.state("whiten")
    products = white @ x.graph.constant(means.T)
    nearest = (x.graph.constant((means**2).sum(axis=1)) - 2.0 * products).argmin()
    away = white - x.state("means").rows(nearest)
    return (away * away).sum()


def _mahalanobis(detector: detectors.Mahalanobis, x: Sample) -> Var:
    rows = x.features.unit() if detector.normalize else x.features
    return -_to_nearest(x, rows)


def _rmds(detector: detectors.RMDS, x: Sample) -> Var:
    rows = x.features.unit() if detector.normalize else x.features
    white = (rows - x.state("origin")) @ x.state("whiten_all")
    return (white * white).sum() - _to_nearest(x, rows)


def _fdbd(_: detectors.FDBD, x: Sample) -> Var:
    per_class = x.state("inverse").rows(x.top_class)
    to_boundary = ((x.top_logit - x.logits) * per_class).sum()
    to_mean = (x.features - x.state("mean")).norm()
    is_mean = to_mean.equals(0.0)
    ratio = to_boundary / where(is_mean, x.graph.constant(1.0), to_mean)
    return where(is_mean, x.graph.constant(0.0), ratio)


def _nci(detector: detectors.NCI, x: Sample) -> Var:
    away = x.features - x.state("mean")
    along = (away * x.state("weight").rows(x.top_class)).sum()
    cosine = along / away.norm().or_one()
    return cosine + detector.alpha * x.features.abs().sum()


def _nno(_: detectors.NNO, x: Sample) -> Var:
    rows = x.features - x.state("centre")
    means = x.arrays["means"].astype(np.float32)
    nearest = squared_distances(rows, means).argmin()
    away = rows - x.graph.constant(means).rows(nearest)
    return 1.0 - away.norm() / float(x.arrays["tau"])


def _osnn(_: detectors.OSNN, x: Sample) -> Var:
    rows = x.features - x.state("centre")
    bank = x.arrays["bank"].astype(np.float32)
    labels = x.graph.constant(x.arrays["labels"], np.int64)
    squared = squared_distances(rows, bank)
    first = squared.argmin()
    is_same = labels.equals(labels.entries(first))
    second = where(is_same, x.graph.constant(math.inf), squared).argmin()
    table = x.graph.constant(bank)
    exact = [(rows - table.rows(place)).norm() for place in (first, second)]
    near, far = lesser(*exact), larger(*exact)
    return -where(far > 0.0, near / far.or_one(), x.graph.constant(1.0))


def _evm(_: detectors.EVM, x: Sample) -> Var:
    rows = x.features - x.state("centre")
    vectors = x.arrays["vectors"].astype(np.float32)
    shape = x.state("shape")
    log_scale = x.graph.constant(np.log(x.arrays["scale"]))
    half_logs = squared_distances(rows, vectors).log() / 2.0
    winner = (shape * (log_scale - half_logs)).argmax()
    away = rows - x.graph.constant(vectors).rows(winner)
    return shape.entries(winner) * (log_scale.entries(winner) - away.norm().log())


def _log_exponent(
    values: Var, shape: Var, scale: Var, loc: Var, *, sign: int = 1
) -> Var:
    """Write kappa log(z / lambda) in float64: a monotone function of the cdf."""
    graph = values.graph
    one, zero, up, down = (
        graph.constant(value, np.float64) for value in (1.0, 0.0, math.inf, -math.inf)
    )
    ratio = (values.cast(np.float64) - (loc + float(sign) * scale)) / scale
    if sign < 0:
        ratio = -ratio
    is_inside = ratio > -1.0
    logs = where(is_inside, ratio, zero).log1p()
    is_step = graph.op("IsInf", shape, dtype=np.bool_)
    exponent = where(is_step, one, shape) * logs
    exponent = where(is_step, where(ratio >= 0.0, up, down), exponent)
    return where(is_inside, exponent, down)


def _weibull_cdf(exponent: Var) -> Var:
    return -(-exponent.exp()).expm1()


def _openmax(detector: detectors.OpenMax, x: Sample) -> Var:
    graph = x.graph
    n_classes = int(x.arrays["means"].shape[0])
    alpha = min(detector.alpha, n_classes)
    # In float64, as in the detector: the distributions are steep.
    rows, means = x.logits.cast(np.float64), x.state("means", np.float64)
    row_lengths = rows.norm()
    mean_lengths = np.linalg.norm(x.arrays["means"].astype(np.float64), axis=1)
    lengths = graph.constant(mean_lengths, np.float64)
    laws = {
        name: x.state(name, np.float64) for name in ("shape", "scale", "loc", "revised")
    }
    nothing = graph.constant(-math.inf)
    revised, left = x.logits, x.logits
    unknown = x.top_logit * 0.0
    for rank in range(1, alpha + 1):
        top, value = left.argmax(), left.max()
        distances = _openmax_distances(
            detector, rows, means.rows(top), row_lengths * lengths.entries(top)
        )
        law = {name: table.entries(top) for name, table in laws.items()}
        exponent = _log_exponent(distances, law["shape"], law["scale"], law["loc"])
        weight = law["revised"] * _weibull_cdf(exponent)
        weight = (weight * ((alpha + 1 - rank) / alpha)).cast(np.float32)
        lost = value * weight
        unknown = unknown + lost
        is_best = is_top(left, top)
        revised = where(is_best, value - lost, revised)
        left = where(is_best, nothing, left)
    return revised.logsumexp() - unknown


def _openmax_distances(
    detector: detectors.OpenMax, rows: Var, centres: Var, lengths: Var
) -> Var:
    euclidean = (rows - centres).norm()
    if detector.distance == "euclidean":
        return euclidean
    cosine = 1.0 - (rows * centres).sum() / lengths.or_one()
    if detector.distance == "cosine":
        return cosine
    return detector.weight * euclidean + cosine


def _decisions(x: Sample) -> Var:
    """Write the decision value of every SVM, shape (n, number of SVMs)."""
    rows = (x.features - x.state("centre")).cast(np.float64)
    squared = squared_distances(rows, x.arrays["vectors"])
    kernel = (-float(x.arrays["gamma"]) * squared).exp()
    return kernel @ x.state("dual", np.float64) + x.state("intercept", np.float64)


def _law(x: Sample, name: str) -> tuple[Var, Var, Var]:
    shape, scale, loc = (x.graph.constant(row, np.float64) for row in x.arrays[name])
    return shape, scale, loc


def _pisvm(_: detectors.PISVM, x: Sample) -> Var:
    return _log_exponent(_decisions(x), *_law(x, "inclusion")).max().cast(np.float32)


def _log_cdf(exponent: Var) -> Var:
    graph = exponent.graph
    is_low = exponent < -18.0  # 1 - e^-a equals a, to full precision
    inner = where(is_low, graph.constant(0.0, np.float64), exponent)
    capped = lesser(inner, graph.constant(7.0, np.float64))  # e^-e^7 is 0
    return where(is_low, exponent, _weibull_cdf(capped).log())


def _wsvm(detector: detectors.WSVM, x: Sample) -> Var:
    graph = x.graph
    n_classes = int(x.arrays["classes"].shape[0])
    both = _decisions(x)
    decided, alone = both.columns(0, n_classes), both.columns(n_classes, 2 * n_classes)
    own = _log_exponent(decided, *_law(x, "inclusion"))
    others = _log_exponent(decided, *_law(x, "exclusion"), sign=-1)
    log_p = _log_cdf(own) - others.exp()
    a, b = -own.exp(), _log_cdf(others) + _log_cdf(own)
    most, least = larger(a, b), lesser(a, b)
    nothing = graph.constant(-math.inf, np.float64)
    # -inf - -inf is NaN: both terms vanish, and so does their sum.
    is_none = most.equals(-math.inf)
    gap = where(is_none, graph.constant(0.0, np.float64), least - most)
    log_rest = where(is_none, nothing, most + gap.exp().log1p())
    is_admitted = _weibull_cdf(_log_exponent(alone, *_law(x, "gate"))) > detector.gate
    odds = where(is_admitted, log_p - log_rest, nothing)
    return odds.max().cast(np.float32)


WRITERS: dict[str, Writer] = {
    "msp": _msp,
    "mcm": _mcm,
    "maxlogit": _maxlogit,
    "energy": _energy_score,
    "gen": _gen,
    "postmax": _postmax,
    "openmax": _openmax,
    "nnguide": _nnguide,
    "scale": _scale,
    "ash": _ash,
    "react": _react,
    "vim": _vim,
    "knn": _knn,
    "mahalanobis": _mahalanobis,
    "rmds": _rmds,
    "fdbd": _fdbd,
    "nci": _nci,
    "evm": _evm,
    "osnn": _osnn,
    "nno": _nno,
    "wsvm": _wsvm,
    "pisvm": _pisvm,
}


def has_graph(kind: type[Detector]) -> bool:
    """Whether a detector has a graph: here, or by its own `write_onnx`."""
    return kind.name in WRITERS or kind.write_onnx is not Detector.write_onnx


def parts_of(detector: Detector) -> tuple[Detector, ...]:
    """Return the detector itself or, for a combination or layers, its parts."""
    if isinstance(detector, ByLayer):
        return parts_of(detector.one)
    return detector.recipes or (detector,)


def _combined(detector: Combined, x: Sample) -> Var:
    knots, weights = x.arrays["knots"], x.arrays["weights"]
    written = [_value(recipe, x.part(i)) for i, recipe in enumerate(detector.recipes)]
    ranks = [_ranks.rank(value, knots[i]) for i, value in enumerate(written)]
    return _ranks.weighed(x.graph, ranks, weights)


def _by_layer(detector: ByLayer, x: Sample) -> Var:
    written, start = [], 0
    for i, (_, width) in enumerate(detector.layers):
        layer = x.layer(i, start, start + width)
        written.append(_value(detector.one, layer).cast(np.float64))
        start += width
    return _ranks.weighed(x.graph, written, x.arrays["weights"])


def _value(detector: Detector, sample: Sample) -> Var:
    if isinstance(detector, Combined):
        return _combined(detector, sample)
    if isinstance(detector, ByLayer):
        return _by_layer(detector, sample)
    if type(detector).write_onnx is not Detector.write_onnx:
        return detector.write_onnx(sample)
    return WRITERS[detector.name](detector, sample)


def known(sample: Sample, detector: Detector) -> Var:
    """Write the knownness, as a column; NaN for invalid samples."""
    value = _value(detector, sample)
    is_nan = sample.logits.is_nan().any() | _is_undetermined(sample)
    if sample._features is not None:
        is_nan = is_nan | sample._features.is_nan().any()
    # Reductions may ignore NaN: check for it here.
    return where(is_nan, sample.graph.constant(math.nan), value)


def _is_undetermined(sample: Sample) -> Var:
    """Write where the largest logit is infinite and not the only one."""
    top = sample.logits.max()
    n_top = sample.logits.equals(top).cast(np.float32).sum()
    return top.abs().equals(math.inf) & (n_top > 1.0)


def table_of(values: NDArray[Any]) -> NDArray[np.float32]:
    """Round thresholds *up* to float32: float32 scores are accepted as before."""
    near = values.astype(np.float32)
    return np.where(near < values, np.nextafter(near, np.float32(np.inf)), near)
