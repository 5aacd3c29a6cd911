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


@dataclass(frozen=True, kw_only=True, init=False)
class Combined(Detector, listed=False):
    r"""Weighted mean of the ranks that several detectors give a sample.

    .. math:: s(x) = \sum_d w_d\, R_d(s_d(x))

    where :math:`R_d` is the rank of the score among reference scores of detector d,
    from 0 to 1, linear between `knots` and constant outside; tied knots share the mean
    of their ranks. Ranks make scores of different scales comparable.

    :meth:`fit` fits every part on the training split and uses its scores there as
    reference, with equal weights. :func:`combine` makes one from detectors that are
    fitted already, with reference and weights of your own; so does
    :func:`openset.selection.choose`, from calibration data.

    Parameters
    ----------
    parts
        Names of detectors, or (name, parameters) pairs.
    method
        How the weights were chosen: ``"rank"`` (equal) or ``"stacking"`` (learnt). For
        information only; the weights are part of the state.

    Examples
    --------
    >>> eye = [[4.0, 0.0], [0.0, 2.0], [3.0, 0.0]]
    >>> train = Outputs(logits=eye, labels=[0, 1, 0])
    >>> fitted = Combined(parts=["msp"]).fit(train)
    >>> fitted.known(Outputs(logits=[[9.0, 0.0], [0.0, 3.0], [0.0, 0.0]]))
    array([1. , 0.5, 0. ])
    """

    name = "combined"
    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")
    fit_cost = "sum of parts"
    score_cost = "sum of parts"
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

    def _fit(self, train: Outputs) -> State:
        fitted = [recipe.fit(train) for recipe in self.recipes]
        scores = [one.known(train) for one in fitted]
        made = combine(fitted, reference=scores)
        like = train.logits if train.logits is not None else train.features
        return {n: _xp.moved(_xp.to_numpy(a), like) for n, a in made.state.items()}

    def _ready(self, state: State, dtype: Any) -> State:
        ready = {name: state[name] for name in ("knots", "weights")}
        for i, recipe in enumerate(self.recipes):
            part = recipe._ready(part_of_state(state, i), dtype)
            ready |= {f"{i}.{name}": array for name, array in part.items()}
        return ready

    def _score(self, state: State, batch: Batch) -> Array:
        total = None
        for i, recipe in enumerate(self.recipes):
            scores = recipe._score(part_of_state(state, i), batch)
            ranked = state["weights"][i] * _rank(scores, state["knots"][i, :])
            total = ranked if total is None else total + ranked
        return total

    def _predict(self, state: State, batch: Batch) -> Array | None:
        return self.recipes[0]._predict(part_of_state(state, 0), batch)


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
        For each of them, the scores among which new scores are ranked.
    knots
        Instead of `reference`: their quantiles, as :func:`knots_of` gives them.
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
    )


def knots_of(*sides: ArrayLike) -> NDArray[np.float64]:
    """Quantiles of scores, with equal weight of known and unknown samples.

    Infinite scores are moved to the ends, beyond which ranks are constant anyway.
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
    return np.sort(np.concatenate(grids))


def _check_alike(knots: Sequence[NDArray[np.float64]]) -> None:
    sizes = [one.size for one in knots]
    if len(set(sizes)) > 1:
        msg = _check.must(
            f"of one length, or of {_KNOTS} scores or more each",
            caller="combine",
            name="reference",
            got=", ".join(map(str, sizes)),
            remedy="Score all detectors on the same samples",
        )
        raise ValueError(msg)


def rank(scores: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[Any]:
    """Rank scores among knots, from 0 to 1."""
    return _rank(scores, knots)


def _rank(scores: Array, knots: Array) -> Array:
    xp = _xp.array_namespace(knots)
    last = knots.shape[0] - 1
    s = xp.astype(scores, knots.dtype)
    left = xp.searchsorted(knots, s, side="left")
    right = xp.searchsorted(knots, s, side="right")
    # Knots equal to the score: the mean of their ranks.
    tied = xp.astype(left + right - 1, knots.dtype) / 2
    # Else between two knots (or before the first, or after the last).
    under = xp.take(knots, xp.where(left > 0, left - 1, xp.zeros_like(left)))
    over = xp.take(knots, xp.where(left > last, xp.full_like(left, last), left))
    is_between = over > under
    width = xp.where(is_between, over - under, xp.ones_like(over))
    inside = xp.where(is_between, s - under, xp.zeros_like(over)) / width
    between = xp.astype(left, knots.dtype) - 1 + inside
    place = xp.where(right > left, tied, between)
    place = xp.where(left > last, xp.full_like(place, last), place)
    place = xp.where(right == 0, xp.zeros_like(place), place)
    place = xp.where(xp.isnan(s), s, place)  # searchsorted takes NaN for the largest
    return place / max(last, 1)


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
