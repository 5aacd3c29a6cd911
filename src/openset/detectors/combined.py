"""Combine several detectors: a weighted sum of the ranks of their scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _xp
from openset._npz import group
from openset.detectors.base import Array, Batch, Detector, State, make
from openset.detectors.fitted import Fitted, need_fitted
from openset.outputs import Outputs

_KNOTS = 257
_NOISE = 1e-3  # knots nearer than this share of their range are one: scores round


class Combined(Detector, listed=False):
    r"""Weighted mean of the ranks that several detectors give a sample.

    .. math:: s(x) = \sum_d w_d\, R_d(s_d(x))

    where :math:`R_d` is the rank of the score among reference scores of detector d,
    from 0 to 1: continuous, linear between distinct `knots`, constant outside. Tied
    knots are one, with the middle of their ranks, and so are knots nearer than 0.001 of
    their range, so that a rounding error moves no rank by the share of the tied ones.
    Ranks make scores of different scales comparable.

    The reference must be known samples that no part was fitted on: to a method that
    stores its training samples (OSNN, KNN) those are no ordinary ones. So :meth:`fit`
    refuses; :func:`combine` takes fitted detectors with the scores of held-out samples,
    and :func:`openset.selection.choose` does that with calibration data.

    Parameters
    ----------
    parts
        Names of detectors, or (name, parameters) pairs.

    Examples
    --------
    >>> from openset.detectors import make
    >>> msp = make("msp").fit()
    >>> held_out = Outputs(logits=[[4.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> fitted = combine([msp], reference=[msp.known(held_out)])
    >>> fitted.known(Outputs(logits=[[9.0, 0.0], [0.0, 3.0], [0.0, 0.0]]))
    array([1. , 0.5, 0. ])
    """

    parts: Any = ("msp", "postmax")

    def __post_init__(self) -> None:
        """Build the parts, and see what they need."""
        if isinstance(self.parts, str | Mapping) or not self.parts:
            rule = "a non-empty list of detector names or (name, parameters) pairs"
            _check.fail("Combined", "parts", rule, repr(self.parts))
        pairs = [(one, {}) if isinstance(one, str) else one for one in self.parts]
        recipes = tuple(make(name, **params) for name, params in pairs)
        needs = {
            kind: tuple(dict.fromkeys(n for one in recipes for n in getattr(one, kind)))
            for kind in ("fit_needs", "score_needs")
        }
        parts = [[one.name, one.params()] for one in recipes]
        vars(self).update(needs, parts=parts, _recipes=recipes)

    @property
    def recipes(self) -> tuple[Detector, ...]:
        """The detectors that are combined."""
        return self._recipes  # type: ignore[attr-defined]

    def fit_state(self, train: Outputs) -> dict[str, Any]:
        rule = "combined from fitted detectors and the scores of held-out known samples"
        remedy = "Use combine([part.fit(train), ...], reference=[...])"
        got = "training samples, which the parts know"
        return _check.fail("Combined.fit", "parts", rule, got, remedy)

    def prepare_state(self, state: State, dtype: Any) -> State:
        ready = {**state}
        for i, recipe in enumerate(self.recipes):
            part = recipe.prepare_state(group(state, str(i)), dtype)
            ready |= {f"{i}.{name}": array for name, array in part.items()}
        return ready

    def score_batch(self, state: State, batch: Batch) -> Array:
        total: Any = 0.0
        for i, recipe in enumerate(self.recipes):
            scores = recipe.score_batch(group(state, str(i)), batch)
            ranks = rank(scores, state["knots"][i, ...])
            total = state["weights"][i] * ranks + total
        return total

    def predict_batch(self, state: State, batch: Batch) -> Array | None:
        return self.recipes[0].predict_batch(group(state, "0"), batch)


def combine(
    fitted: Sequence[Fitted],
    *,
    reference: Sequence[ArrayLike],
    weights: ArrayLike | None = None,
) -> Fitted:
    """Combine several fitted detectors into one.

    Parameters
    ----------
    fitted
        Fitted detectors.
    reference
        For each of them, the scores among which new scores are ranked: of the same
        known samples, that none of them was fitted on.
    weights
        One per detector; by default equal, summing to one.

    Examples
    --------
    >>> from openset.detectors import MSP
    >>> logits = [[4.0, 0.0], [0.0, 2.0], [3.0, 0.0]]
    >>> outputs = Outputs(logits=logits, labels=[0, 1, 0])
    >>> cool, hot = MSP().fit(outputs), MSP(temperature=2.0).fit(outputs)
    >>> both = combine([cool, hot], reference=[[2, 3, 4], [1, 2, 3]])
    >>> both.known(outputs)
    array([0.75 , 0.   , 0.375])
    """
    listed = need_fitted("combine", fitted)
    n = len(listed)
    share = np.full(n, 1 / max(n, 1)) if weights is None else np.asarray(weights, float)
    if not n or {len(reference), share.size} != {n} or not np.isfinite(share).all():
        rule = "one for each detector, of which there must be some"
        got = f"{len(reference)} and {share.size} for {n} detectors"
        _check.fail("combine", "reference and weights", rule, got)
    tables = [knots_of(one) for one in reference]  # NumPy needs them of one length
    state: dict[str, Any] = {"knots": np.stack(tables), "weights": share}
    widths: dict[str, int | None] = {}
    for i, one in enumerate(listed):
        state |= {f"{i}.{k}": array for k, array in one.state.items()}
        widths |= {k: v for k, v in one.widths.items() if v is not None}
    parts = [(one.detector.name, one.detector.params()) for one in listed]
    return Fitted(
        detector=Combined(parts=parts),
        state=state,
        widths=widths,
        seen={name: array for one in listed for name, array in one.seen.items()},
    )


def knots_of(scores: ArrayLike) -> NDArray[np.float64]:
    """Return distinct quantiles, and the rank of each in the middle of its ties.

    Infinite scores are moved to the ends, beyond which ranks are constant anyway; the
    last knot is repeated, so that tables have one length.

    Examples
    --------
    >>> knots_of([0.0, 0.0, 0.0, 1.0, 2.0])  # knots, and the rank of each
    array([[0.  , 1.  , 2.  , 2.  , 2.  ],
           [0.25, 0.75, 1.  , 1.  , 1.  ]])
    """
    values = np.asarray(scores, dtype=float)
    finite = values[np.isfinite(values)]
    if np.isnan(values).any() or not finite.size:
        rule, got = "free of NaN, and partly finite", "other scores"
        _check.fail("combine", "reference", rule, got)
    values = np.clip(values, finite.min(), finite.max())
    # A small set is used as it is.
    knots = np.quantile(values, np.linspace(0, 1, min(values.size, _KNOTS)))
    last = knots.size - 1
    spread = np.diff(np.quantile(knots, [0.01, 0.99]))[0]  # of most: some may be far
    starts = [0]
    for i, knot in enumerate(knots):
        if knot > knots[starts[-1]] + _NOISE * spread:
            starts.append(i)
    ends = np.append(starts[1:], knots.size)
    middle = (np.array(starts) + ends - 1) / (2 * max(last, 1))
    table = np.stack([knots[starts], middle])
    return np.pad(table, ((0, 0), (0, knots.size - len(starts))), mode="edge")


def rank(scores: Array, table: Array) -> Array:
    """Rank scores from 0 to 1, by the table of :func:`knots_of`."""
    xp = _xp.array_namespace(table)
    knots, ranks = table[0, :], table[1, :]
    s = xp.clip(xp.astype(scores, knots.dtype), knots[0], knots[-1])
    last = knots.shape[0] - 1
    if _xp.is_traced(s):  # ONNX has no binary search: all knots are compared
        right = xp.sum(knots[None, :] < s[:, None], axis=1)
    else:
        right = xp.searchsorted(knots, s)
    right = xp.clip(right, min(1, last), last)
    left = xp.clip(right - 1, 0, last)
    low, high = xp.take(knots, left), xp.take(knots, right)
    share = (s - low) / xp.where(high > low, high - low, xp.ones_like(low))
    below = xp.take(ranks, left)
    return below + share * (xp.take(ranks, right) - below)
