"""A detector on each of several layers of a network; knownness is a weighted sum."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _xp
from openset._types import UNKNOWN, Array
from openset.detectors._batch import Batch, State, first
from openset.detectors._detector import Detector
from openset.detectors._fitted import Fitted
from openset.detectors._registry import make
from openset.detectors.combined import part_of_state
from openset.detectors.constraints import Integer, Number
from openset.outputs import Outputs, replaced

# Before the name of a layer: its columns are sums of Gram matrices, or the features of
# inputs that were perturbed for it.
GRAM = "gram:"
STEP = "step:"
POWERS = tuple(range(1, 11))
_SMALL = 1e-6  # keeps a deviation from a bound of 0 finite, as in the released code


@dataclass(frozen=True, kw_only=True)
class _OverLayers(Detector):
    """Fits and scores the columns of each layer separately.

    `layers` are those of the outputs it was fitted on: it is filled by `fit`.
    """

    layers: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        pairs = tuple((str(name), int(width)) for name, width in self.layers)
        object.__setattr__(self, "layers", pairs)
        super().__post_init__()

    @property
    @abstractmethod
    def one(self) -> Detector:
        """The detector of every layer."""

    @property
    def scored_layers(self) -> tuple[tuple[str, int], ...]:
        """The layers of the outputs that it scores."""
        return self.layers

    def _fitted(self, outputs: Outputs) -> Fitted:
        layers = outputs.layers or self.layers
        if not layers:
            msg = _check.must(
                "the features of several layers",
                caller=f"{type(self).__name__}.fit",
                name="outputs",
                got="those of no named layer",
                remedy="Extract them: openset extract --layers NAME,NAME, or "
                "Outputs.of_layers(train.extract_layers(...))",
            )
            raise ValueError(msg)
        whole = replaced(outputs, layers=layers)
        return super(_OverLayers, replace(self, layers=layers))._fitted(whole)

    def _fit(self, train: Outputs) -> State:
        parts = train.by_layer()
        state: dict[str, Any] = {
            "weights": _xp.moved(np.ones(len(parts)), first(train)),
        }
        for i, part in enumerate(parts.values()):
            found = self.one.fit(part).state
            state |= {f"{i}.{name}": array for name, array in found.items()}
        return state

    def _ready(self, state: State, dtype: Any) -> State:
        ready = {"weights": state["weights"]}
        for i in range(len(self.layers)):
            part = self.one._ready(part_of_state(state, i), dtype)
            ready |= {f"{i}.{name}": array for name, array in part.items()}
        return ready

    def _score(self, state: State, batch: Batch) -> Array:
        total, start = None, 0
        for i, (_, width) in enumerate(self.layers):
            columns = batch.columns(start, start + width)
            known = self.one._score(part_of_state(state, i), columns)
            weighted = state["weights"][i] * known
            total = weighted if total is None else total + weighted
            start += width
        return total


@dataclass(frozen=True, kw_only=True)
class ByLayer(_OverLayers, listed=False):
    r"""A detector on each of several layers; its knownness is their weighted sum.

    .. math:: s(x) = \sum_l w_l\, s_l(f_l(x))

    It needs outputs that hold the features of several layers
    (:meth:`openset.Outputs.of_layers`, ``openset extract --layers``). With the detector
    "mahalanobis" this is the method of Lee et al. The weights are 1, or learned:
    :meth:`openset.train.FittedLayers.weighted`. :class:`openset.train.Layered` fits it
    on a network.

    Parameters
    ----------
    detector
        Any detector that needs no last layer (``"mahalanobis"``, ``"knn"``, ...): its
        name, a (name, parameters) pair, or the detector itself.
    layers
        Name and number of columns of each layer; filled by `fit`.
    epsilon, std
        The input step of :class:`openset.train.Layered`, which is made before features
        are extracted (:meth:`openset.train.FittedLayers.outputs`): outputs without it
        raise an error.

    References
    ----------
    Lee et al., "A simple unified framework for detecting out-of-distribution samples
    and adversarial attacks", NeurIPS 2018.

    Examples
    --------
    >>> rows = [[-1.0, 8.0], [1.0, 8.0], [9.0, 5.0], [11.0, 6.0]]
    >>> layers = [("conv1", 1), ("conv2", 1)]
    >>> train = Outputs(features=rows, labels=[0, 0, 1, 1], layers=layers)
    >>> fitted = ByLayer().fit(train)
    >>> fitted.known(Outputs(features=[[0.0, 8.0], [12.0, 5.5]], layers=layers))
    array([-0., -4.])
    """

    name = "layered"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "sum of layers"
    score_cost = "sum of layers"
    paper = "Lee et al. 2018"
    constraints = {"epsilon": Number(low=0)}

    detector: Any = "mahalanobis"
    epsilon: float = 0.0
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        made = self.detector
        if isinstance(made, str):
            made = make(made)
        elif isinstance(made, list | tuple) and len(made) == 2:
            made = make(made[0], **made[1])
        is_detector = isinstance(made, Detector) and not isinstance(made, _OverLayers)
        if not is_detector or "head" in made.fit_needs:
            msg = _check.must(
                "a detector, or its name, that needs no last layer",
                caller="Layered",
                name="detector",
                got=repr(self.detector),
                remedy="Inner layers have no logits of their own",
            )
            raise ValueError(msg)
        object.__setattr__(self, "detector", made)
        if self.std is not None:
            object.__setattr__(self, "std", tuple(float(one) for one in self.std))
        for need, own in (("fit_needs", made.fit_needs), ("score_needs", ())):
            needs = ("features", *own, *made.score_needs)
            object.__setattr__(self, need, tuple(dict.fromkeys(needs)))
        super().__post_init__()

    @property
    def one(self) -> Detector:
        """The detector of every layer."""
        return self.detector

    @property
    def scored_layers(self) -> tuple[tuple[str, int], ...]:
        """The layers of the outputs that it scores; with a step they are marked."""
        mark = STEP if self.epsilon else ""
        return tuple((f"{mark}{name}", width) for name, width in self.layers)

    @property
    def input_step(self) -> str:
        """The step of the inputs that it needs before, in words, without `std`.

        Examples
        --------
        >>> ByLayer(epsilon=0.01).input_step
        'layered:detector=mahalanobis,epsilon=0.01'
        """
        if not self.epsilon:
            return ""
        step = float(self.epsilon)
        return f"{self.name}:detector={self.detector.name},epsilon={step}"

    @property
    def predicts_classes(self) -> bool:
        """Whether the detector of the first layer predicts classes itself."""
        return self.detector.predicts_classes

    def origins(self, *, caller: str) -> list[dict[str, Any]]:
        """Return the classes and packages of this detector and that of the layers."""
        own = super().origins(caller=caller)
        return [*own, *self.detector.origins(caller=caller)]

    def params(self) -> dict[str, Any]:
        """Return the keyword arguments that build this recipe."""
        return {
            "detector": [self.detector.name, self.detector.params()],
            "layers": [list(pair) for pair in self.layers],
            "epsilon": self.epsilon,
            "std": None if self.std is None else list(self.std),
        }

    def _predict(self, state: State, batch: Batch) -> Array | None:
        """Return the class by the first layer, for outputs without logits."""
        columns = batch.columns(0, self.layers[0][1])
        return self.detector._predict(part_of_state(state, 0), columns)


@dataclass(frozen=True, kw_only=True)
class GramBounds(_OverLayers, listed=False):
    r"""Deviations of Gram matrices from the bounds of the predicted class.

    It needs the row sums of Gram matrices of several layers
    (``openset extract --layers NAME,NAME --gram``). In training the smallest and the
    largest sum of each class are kept as bounds; when scoring, the amounts by which
    sums exceed them are added up, relative to the bound. The deviation of each layer is
    divided by its mean on held-out samples, and their sum is minus the knownness.
    :class:`openset.train.Gram` fits it on a network.

    Parameters
    ----------
    powers
        Powers of the features in the Gram matrices; recorded for information only.
    held_out
        Share of each class that is held out for the mean deviation of each layer.
    seed
        Random seed that chooses the held-out samples.
    layers
        Name and number of columns of each layer; filled by `fit`.

    References
    ----------
    Sastry and Oore, "Detecting out-of-distribution examples with Gram matrices", ICML
    2020. Their code bounds samples by the class that the network predicts in training;
    here it is the true class.

    Examples
    --------
    >>> train = Outputs(
    ...     logits=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
    ...     features=[[1.0], [2.0], [5.0]],
    ...     labels=[0, 0, 1],
    ...     layers=[("gram:conv1", 1)],
    ... )
    >>> new = Outputs(logits=[[1.0, 0.0], [1.0, 0.0]], features=[[1.5], [4.0]])
    >>> GramBounds(powers=[1]).fit(train).known(new).round(3)
    array([-0., -1.])
    """

    name = "gram"
    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")
    fit_cost = "sum of layers"
    score_cost = "sum of layers"
    paper = "Sastry & Oore 2020"
    constraints = {
        "held_out": Number(low=0, high=1, open_high=True),
        "seed": Integer(low=0),
    }

    powers: Sequence[int] = POWERS
    held_out: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        powers = tuple(_check.positive_int("Gram", "powers", p) for p in self.powers)
        if not powers:
            rule = "one or several integers"
            raise ValueError(_check.must(rule, caller="Gram", name="powers", got="()"))
        object.__setattr__(self, "powers", powers)
        super().__post_init__()

    @property
    def one(self) -> Detector:
        """The detector of every layer."""
        return _Bounds()

    def params(self) -> dict[str, Any]:
        """Return the keyword arguments that build this recipe."""
        return {
            "layers": [list(pair) for pair in self.layers],
            "powers": list(self.powers),
            "held_out": self.held_out,
            "seed": self.seed,
        }

    def _fit(self, train: Outputs) -> State:
        other = next((name for name, _ in train.layers if name[:5] != GRAM), None)
        if other is not None:
            msg = _check.must(
                "row sums of Gram matrices",
                caller="Gram.fit",
                name="outputs",
                got=f"the means of layer {other!r}",
                remedy="Extract them: openset extract --layers NAME,NAME --gram",
            )
            raise ValueError(msg)
        held = self._held(np.asarray(train.labels))
        if held.size == 0:
            return super()._fit(train)
        kept = np.setdiff1d(np.arange(len(train)), held)
        state = super()._fit(train.take(kept))
        weights = _inverse_deviations(state, train.take(held))
        return {**state, "weights": _xp.moved(weights, first(train))}

    def _held(self, labels: NDArray[np.int64]) -> NDArray[np.intp]:
        """Choose the samples of each class that are held out, in order."""
        rng = np.random.default_rng(self.seed)
        parts = [
            rng.permutation(rows)[: int(self.held_out * rows.size)]
            for rows in (np.flatnonzero(labels == c) for c in np.unique(labels))
        ]
        return np.sort(np.concatenate(parts))


def layer_of(fitted: Fitted, layer: str) -> Fitted:
    """Return the fitted detector of one layer.

    Examples
    --------
    >>> rows, layers = [[0.0, 1.0], [2.0, 3.0]], [("a", 1), ("b", 1)]
    >>> train = Outputs(features=rows, labels=[0, 0], layers=layers)
    >>> layer_of(ByLayer(detector=("knn", {"k": 1})).fit(train), "b").detector.k
    1
    """
    recipe = over_layers(fitted, caller="layer_of")
    names = [name for name, _ in recipe.layers]
    _check.one_of("layer_of", "layer", layer, names)
    state = part_of_state(fitted.state, names.index(layer))
    return Fitted(detector=recipe.one, state=state)


def with_weights(fitted: Fitted, weights: ArrayLike) -> Fitted:
    """Return the same detector with other weights of its layers."""
    over_layers(fitted, caller="with_weights")
    old = fitted.state["weights"]
    values = np.asarray(weights, dtype=np.float64)
    _check.same_length(
        "with_weights", {"layers": old.shape[0], "weights": values.shape[0]}
    )
    return replace(fitted, state={**fitted.state, "weights": _xp.moved(values, old)})


def with_deviations_of(fitted: Fitted, held: Outputs) -> Fitted:
    """Return a `GramBounds` whose layers are divided by their mean deviation here."""
    if held.labels is None or held.labels.min() == UNKNOWN:
        got = "no labels" if held.labels is None else f"some with label {UNKNOWN}"
        rule = "known samples with labels"
        msg = _check.must(rule, caller="Gram.fit", name="validation", got=got)
        raise ValueError(msg)
    return with_weights(fitted, _inverse_deviations(fitted.state, held))


def over_layers(fitted: Fitted, *, caller: str) -> ByLayer | GramBounds:
    """Return the recipe of a detector over layers; raise for others."""
    recipe = fitted.detector if isinstance(fitted, Fitted) else fitted
    if not isinstance(recipe, ByLayer | GramBounds) or not isinstance(fitted, Fitted):
        msg = _check.must(
            "a fitted detector over layers",
            caller=caller,
            name="fitted",
            got=recipe,
            remedy="Fit one: train.Layered(layers=...).fit(model, loader)",
        )
        raise TypeError(msg)
    return recipe


def layer_names(detector: Detector) -> tuple[str, ...]:
    """Return the layers whose features a detector scores; none for most.

    Examples
    --------
    >>> layer_names(ByLayer(layers=[("conv1", 4)])), layer_names(make("msp"))
    (('conv1',), ())
    """
    return tuple(name for name, _ in detector.scored_layers)


@dataclass(frozen=True, kw_only=True)
class _Bounds(Detector):
    """Minus what lies outside of the bounds of the predicted class, relative to them.

    Features are the row sums of Gram matrices.
    """

    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")

    def _fit(self, train: Outputs) -> State:
        labels = np.asarray(train.labels)
        rows = _xp.to_numpy(train.features)
        missing = np.setdiff1d(np.arange(train.n_classes or 0), labels)
        if missing.size:
            msg = _check.must(
                "samples of every class of the network",
                caller="Gram.fit",
                name="outputs",
                got=f"none of class {missing[0]}",
            )
            raise ValueError(msg)
        groups = [rows[labels == c] for c in range(train.n_classes or 0)]
        bounds = {
            "low": np.stack([one.min(axis=0) for one in groups]),
            "high": np.stack([one.max(axis=0) for one in groups]),
        }
        return {name: _xp.moved(one, first(train)) for name, one in bounds.items()}

    def _score(self, state: State, batch: Batch) -> Array:
        return -_deviation(state, batch.features, batch.top_class)


def _deviation(state: State, rows: Array, classes: Array) -> Array:
    """Return the relative deviation from the bounds of the given classes."""
    xp = _xp.array_namespace(rows)
    low = xp.take(state["low"], classes, axis=0)
    high = xp.take(state["high"], classes, axis=0)
    below = xp.clip(low - rows, 0, None) / xp.abs(low + _SMALL)
    above = xp.clip(rows - high, 0, None) / xp.abs(high + _SMALL)
    return xp.sum(below, axis=1) + xp.sum(above, axis=1)


def _inverse_deviations(state: State, held: Outputs) -> NDArray[np.float64]:
    """Return one over the mean deviation of held-out samples, of their own class."""
    arrays = {name: _xp.to_numpy(array) for name, array in state.items()}
    labels = np.asarray(held.labels)
    found = []
    for i, part in enumerate(held.by_layer().values()):
        rows = _xp.to_numpy(part.features)
        mean = float(_deviation(part_of_state(arrays, i), rows, labels).mean())
        found.append(1 / mean if mean > 0 else 1.0)
    return np.array(found)
