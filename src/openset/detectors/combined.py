"""Combine several detectors: a weighted sum of the ranks of their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._fitted import Fitted, need_fitted
from openset.detectors._registry import make
from openset.detectors.constraints import OneOf
from openset.outputs import Outputs

_KNOTS = 257
_NOISE = 1e-3  # knots nearer than this share of their range are one: scores round


@dataclass(frozen=True, kw_only=True, init=False)
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
    method
        How the weights were chosen: ``"rank"`` (equal) or ``"stacking"`` (learnt). For
        information only; the weights are part of the state.

    Examples
    --------
    >>> from openset.detectors import make
    >>> msp = make("msp").fit()
    >>> held_out = Outputs(logits=[[4.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> fitted = combine([msp], reference=[msp.known(held_out)])
    >>> fitted.known(Outputs(logits=[[9.0, 0.0], [0.0, 3.0], [0.0, 0.0]]))
    array([1. , 0.5, 0. ])
    """

    name = "combined"
    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")
    fit_cost = "sum of parts"
    score_cost = "sum of parts"
    score_scale = "rank, in [0, 1]"
    constraints = {"method": OneOf(("rank", "stacking"))}

    parts: tuple[tuple[str, dict[str, Any]], ...]
    method: str

    # Explicit, because parts may be given in a shorter form than they are stored.
    def __init__(
        self,
        *,
        parts: Sequence[Any] = ("msp", "postmax"),
        method: str = "rank",
    ) -> None:
        self._check_params({"method": method})
        if isinstance(parts, (str, Mapping)) or len(parts) == 0:
            msg = _check.must(
                "a non-empty list of detector names or (name, parameters) pairs",
                caller="Combined",
                name="parts",
                got=repr(parts),
            )
            raise ValueError(msg)
        pairs = tuple(_pair(part) for part in parts)
        object.__setattr__(self, "parts", pairs)
        object.__setattr__(self, "method", method)
        recipes = tuple(make(name, **params) for name, params in pairs)
        object.__setattr__(self, "_recipes", recipes)
        for need in ("fit_needs", "score_needs"):
            wanted = [n for recipe in recipes for n in getattr(recipe, need)]
            object.__setattr__(self, need, tuple(dict.fromkeys(wanted)))

    @property
    def recipes(self) -> tuple[Detector, ...]:
        """The detectors that are combined."""
        return self._recipes  # type: ignore[attr-defined]

    def params(self) -> dict[str, Any]:
        """Return the keyword arguments that build this recipe."""
        parts = [[name, dict(params)] for name, params in self.parts]
        return {"parts": parts, "method": self.method}

    def fit_state(self, train: Outputs) -> State:
        msg = _check.must(
            "combined from fitted detectors and the scores of held-out known samples",
            caller="Combined.fit",
            name="parts",
            got="training samples, which the parts know",
            remedy="Use combine([part.fit(train), ...], reference=[...]), or "
            "selection.choose",
        )
        raise ValueError(msg)

    def prepare_state(self, state: State, dtype: Any) -> State:
        ready = {name: state[name] for name in ("knots", "weights")}
        for i, recipe in enumerate(self.recipes):
            part = recipe.prepare_state(part_of_state(state, i), dtype)
            ready |= {f"{i}.{name}": array for name, array in part.items()}
        return ready

    def score_batch(self, state: State, batch: Batch) -> Array:
        total = None
        for i, recipe in enumerate(self.recipes):
            scores = recipe.score_batch(part_of_state(state, i), batch)
            table = state["knots"][i, ...]
            ranked = state["weights"][i] * _rank(scores, table)
            total = ranked if total is None else total + ranked
        return total

    def predict_batch(self, state: State, batch: Batch) -> Array | None:
        return self.recipes[0].predict_batch(part_of_state(state, 0), batch)


def combine(
    fitted: Sequence[Fitted],
    *,
    reference: Sequence[ArrayLike] | None = None,
    knots: NDArray[np.float64] | None = None,
    weights: ArrayLike | None = None,
    method: str = "rank",
) -> Fitted:
    """Combine several fitted detectors into one.

    Parameters
    ----------
    fitted
        Fitted detectors.
    reference
        For each of them, the scores among which new scores are ranked: of known samples
        that none of them was fitted on.
    knots
        Instead of `reference`: tables of ranks, as :func:`knots_of` gives them.
    weights
        One per detector; by default equal, summing to one.
    method
        As in :class:`Combined`.

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
    fitted = need_fitted("combine", fitted)
    if not fitted:
        msg = _check.must("non-empty", caller="combine", name="fitted", got="[]")
        raise ValueError(msg)
    if knots is None:
        if reference is None:
            msg = "combine: reference or knots must be given, got neither"
            raise ValueError(msg)
        each = [knots_of(one) for one in reference]
        _check_alike(each)
        knots = np.stack(each)
    n = len(fitted)
    share = np.full(n, 1 / n) if weights is None else np.asarray(weights, dtype=float)
    _check.same_length(
        "combine", {"fitted": n, "knots": len(knots), "weights": share.size}
    )
    if not np.isfinite(share).all():
        got = share.tolist()
        raise ValueError(
            _check.must("finite", caller="combine", name="weights", got=got)
        )
    state: dict[str, Any] = {"knots": knots, "weights": share}
    widths: dict[str, int | None] = {}
    for i, one in enumerate(fitted):
        state |= {f"{i}.{k}": _xp.to_numpy(a) for k, a in one.state.items()}
        widths |= {k: v for k, v in one.widths.items() if v is not None}
    parts = [(one.detector.name, one.detector.params()) for one in fitted]
    return Fitted(
        detector=Combined(parts=parts, method=method),
        state=state,
        widths=widths,
        layers=next((one.layers for one in fitted if one.layers), ()),
        seen={name: array for one in fitted for name, array in one.seen.items()},
    )


def knots_of(*sides: ArrayLike) -> NDArray[np.float64]:
    """Knots and their ranks, with equal weight of known and unknown samples.

    Infinite scores are moved to the ends, beyond which ranks are constant anyway.

    Examples
    --------
    >>> knots_of([0.0, 0.0, 0.0, 1.0, 2.0])  # knots, and the rank of each
    array([[0.  , 1.  , 2.  , 2.  , 2.  ],
           [0.25, 0.75, 1.  , 1.  , 1.  ]])
    """
    grids = []
    for side in sides:
        values = np.asarray(side, dtype=np.float64)
        if np.isnan(values).any():
            got = f"{np.count_nonzero(np.isnan(values))} of {values.size} NaN"
            raise ValueError(
                _check.must("free of NaN", caller="combine", name="scores", got=got)
            )
        finite = values[np.isfinite(values)]
        if finite.size == 0:
            msg = _check.must(
                "partly finite", caller="combine", name="scores", got="none that are"
            )
            raise ValueError(msg)
        values = np.clip(values, finite.min(), finite.max())
        # a small set is used as it is
        size = min(values.size, _KNOTS) if len(sides) == 1 else _KNOTS
        grids.append(np.quantile(values, np.linspace(0, 1, size)))
    return _table(np.sort(np.concatenate(grids)))


def _table(knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return distinct knots, and the rank of each in the middle of those it replaces.

    The last one is repeated, so that there are as many as before.
    """
    last = knots.size - 1
    spread = np.diff(np.quantile(knots, [0.01, 0.99]))[0]  # of most: some may be far
    near = _NOISE * spread
    starts = [0]
    for i, knot in enumerate(knots.tolist()):
        if knot > knots[starts[-1]] + near:
            starts.append(i)
    ends = np.append(starts[1:], knots.size)
    middle = (np.array(starts) + ends - 1) / (2 * max(last, 1))
    places = np.minimum(np.arange(last + 1), len(starts) - 1)
    return np.stack([knots[starts][places], middle[places]])


def _check_alike(knots: Sequence[NDArray[np.float64]]) -> None:
    sizes = [one.shape[1] for one in knots]
    if len(set(sizes)) > 1:
        msg = _check.must(
            f"of one length, or of {_KNOTS} scores or more each",
            caller="combine",
            name="reference",
            got=", ".join(map(str, sizes)),
            remedy="Score all detectors on the same samples",
        )
        raise ValueError(msg)


def rank(scores: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[Any]:
    """Rank scores from 0 to 1, by the table of :func:`knots_of`."""
    return _rank(scores, table)


def _rank(scores: Array, table: Array) -> Array:
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


def _pair(part: Any) -> tuple[str, dict[str, Any]]:
    """Read one part: a name, or a name with parameters."""
    if isinstance(part, str):
        return part, {}
    try:
        name, params = part
        # NumPy's numbers as Python's types, for JSON.
        plain = {
            key: value.item() if isinstance(value, np.generic) else value
            for key, value in params.items()
        }
    except (TypeError, ValueError, AttributeError) as error:
        msg = _check.must(
            "detector names or (name, parameters) pairs",
            caller="Combined",
            name="parts",
            got=repr(part),
            remedy="For detectors that are already fitted, use combine(...)",
        )
        raise TypeError(msg) from error
    return str(name), plain


def part_of_state(state: Mapping[str, Array], i: int) -> dict[str, Array]:
    """Return the arrays of one of the combined detectors, by their names."""
    prefix = f"{i}."
    return {
        name.removeprefix(prefix): array
        for name, array in state.items()
        if name.startswith(prefix)
    }
