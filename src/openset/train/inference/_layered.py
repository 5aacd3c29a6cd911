"""Detectors over several layers of a network: Mahalanobis and others, and Gram."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _xp, detectors
from openset._types import UNKNOWN, Array
from openset.detectors import Batch, Detector, Fitted, State
from openset.outputs import Outputs
from openset.scores import Scores
from openset.train.inference import _layers
from openset.train.inference._extract_layers import extract_layers
from openset.train.inference._input_step import Arguments, moved
from openset.train.networks import last_layer

with _io.importing("openset.train", "torch"):
    import torch  # noqa: F401  # for the examples
    from torch import Tensor, nn

_HELD_OUT = 0.1  # of each class, for the expected deviation of a layer
_SMALL = 1e-6  # keeps a deviation from a bound of 0 finite, as in the released code


@dataclass(frozen=True, kw_only=True)
class Layered:
    r"""A detector on each of several layers; its knownness is their weighted sum.

    .. math:: s(x) = \sum_l w_l\, s_l(f_l(x))

    The features :math:`f_l` of a layer are the means of its channels over pixels or
    tokens. With the detector "mahalanobis" this is the method of Lee et al.; the
    weights are 1, or learned by :meth:`FittedLayers.weighted`.

    Parameters
    ----------
    layers
        Names of layers, as in ``model.named_modules()``.
    detector
        Any detector that needs no last layer (``"mahalanobis"``, ``"knn"``, ...): its
        name, or the detector itself.
    epsilon
        Before it is scored, the input is moved by this much along the sign of the
        gradient of the layer's knownness, for each layer separately. This needs a
        detector with a gradient, and three passes per layer. Default: no step.
    std
        What the pixels of each channel were divided by, if `epsilon` is meant for
        pixels in [0, 1].

    References
    ----------
    Lee et al., "A simple unified framework for detecting out-of-distribution samples
    and adversarial attacks", NeurIPS 2018.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> inputs, labels = torch.randn(40, 3), torch.arange(40) % 2
    >>> fitted = Layered(layers=["0", "1"]).fit(network, [(inputs, labels)])
    >>> far = [(inputs[:3] + 9, torch.full((3,), -1))]
    >>> known = fitted.known(network, [inputs])
    >>> bool(fitted.score(network, far).known.max() < known.min())
    True
    """

    layers: Sequence[str]
    detector: str | Detector = "mahalanobis"
    epsilon: float = 0.0
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        caller = "Layered"
        names = _layers.check_names(caller, self.layers)
        object.__setattr__(self, "layers", names)
        _check.number(caller, "epsilon", self.epsilon, low=0)
        made = self.detector
        if isinstance(made, str):
            made = detectors.make(made)
        if not isinstance(made, Detector) or "head" in made.fit_needs:
            msg = _check.must(
                "a detector, or its name, that needs no last layer",
                caller=caller,
                name="detector",
                got=repr(self.detector),
                remedy="Inner layers have no logits of their own",
            )
            raise ValueError(msg)
        object.__setattr__(self, "detector", made)

    def fit(
        self, model: nn.Module, loader: Iterable[Any], **options: Any
    ) -> "FittedLayers":
        """Fit the detector on each layer, on known training samples.

        Parameters
        ----------
        model, loader
            As in :func:`openset.train.extract`.
        **options
            Of :func:`extract_layers`: `head`, `device`, `progress`.
        """
        found = extract_layers(model, loader, self.layers, **options)
        one = self.detector
        assert isinstance(one, Detector)  # noqa: S101  # made in __post_init__
        return FittedLayers(
            recipe=self,
            fitted={name: one.fit(outputs) for name, outputs in found.items()},
            weights=dict.fromkeys(self.layers, 1.0),
            epsilon=self.epsilon,
            std=self.std,
        )


@dataclass(frozen=True, kw_only=True)
class Gram:
    r"""Deviations of Gram matrices from the bounds of the predicted class.

    For every layer and power p the rows of :math:`(F^p F^{p\top})^{1/p}` are summed,
    where F has a row per channel. In training the smallest and the largest sum of each
    class are kept; later, what lies outside of them is added up, relative to the bound.
    The deviation of each layer is divided by its mean on held-out samples, and their
    sum is minus the knownness.

    Parameters
    ----------
    layers
        Names of layers, as in ``model.named_modules()``. The paper takes all
        convolutions and blocks.
    powers
        The powers p.
    seed
        Chooses the held-out tenth of each class, if :meth:`fit` is given no validation
        samples.

    References
    ----------
    Sastry and Oore, "Detecting out-of-distribution examples with Gram matrices", ICML
    2020. Their code bounds samples by the class that the network predicts in training;
    here it is the true class.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> inputs, labels = torch.randn(40, 3), torch.arange(40) % 2
    >>> fitted = Gram(layers=["0", "1"]).fit(network, [(inputs, labels)])
    >>> far = [(inputs[:3] + 9, torch.full((3,), -1))]
    >>> known = fitted.known(network, [inputs])
    >>> bool(fitted.score(network, far).known.max() < known.min())
    True
    """

    layers: Sequence[str]
    powers: Sequence[int] = tuple(range(1, 11))
    seed: int = 0

    def __post_init__(self) -> None:
        names = _layers.check_names("Gram", self.layers)
        object.__setattr__(self, "layers", names)
        powers = tuple(_check.positive_int("Gram", "powers", p) for p in self.powers)
        if not powers:
            rule = "one or several integers"
            raise ValueError(_check.must(rule, caller="Gram", name="powers", got="()"))
        object.__setattr__(self, "powers", powers)
        _check.integer("Gram", "seed", self.seed, low=0)

    def fit(
        self,
        model: nn.Module,
        loader: Iterable[Any],
        *,
        validation: Iterable[Any] | None = None,
        **options: Any,
    ) -> "FittedLayers":
        """Keep the bounds of each class, on known training samples.

        Parameters
        ----------
        model, loader
            As in :func:`openset.train.extract`.
        validation
            Known samples for the mean deviation of each layer. Left out: a tenth of
            the samples of each class (none of a class with fewer than ten).
        **options
            Of :func:`extract_layers`: `head`, `device`, `progress`.
        """
        summary = partial(_layers.gram_rows, powers=self.powers)
        options |= {"summary": summary}
        found = extract_layers(model, loader, self.layers, **options)
        if validation is not None:
            train, held = (
                found,
                extract_layers(model, validation, self.layers, **options),
            )
        else:
            train, held = self._split(found)
        fitted = {name: _Bounds().fit(outputs) for name, outputs in train.items()}
        weights = {name: _inverse(fitted[name], held.get(name)) for name in self.layers}
        return FittedLayers(
            recipe=self, fitted=fitted, weights=weights, summary=summary
        )

    def _split(
        self, found: dict[str, Outputs]
    ) -> tuple[dict[str, Outputs], dict[str, Outputs]]:
        """Hold a tenth of each class out, the same samples in every layer."""
        labels = next(iter(found.values())).labels
        if labels is None:  # `fit` of the detector says so
            return found, {}
        rng = np.random.default_rng(self.seed)
        parts = [
            rng.permutation(rows)[: int(_HELD_OUT * rows.size)]
            for rows in (np.flatnonzero(labels == c) for c in np.unique(labels))
        ]
        out = np.sort(np.concatenate(parts))
        kept = np.setdiff1d(np.arange(labels.size), out)
        train = {name: one.take(kept) for name, one in found.items()}
        if out.size == 0:
            return train, {}
        return train, {name: one.take(out) for name, one in found.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedLayers:
    """A detector fitted on several layers of a network.

    Attributes
    ----------
    recipe
        What was fitted: a `Layered` or a `Gram`.
    fitted
        The fitted detector of each layer.
    weights
        The weight of each layer in the sum.
    """

    recipe: Layered | Gram
    fitted: Mapping[str, Fitted]
    weights: Mapping[str, float]
    epsilon: float = 0.0
    std: tuple[float, ...] | None = None
    summary: _layers.Summary = field(default=_layers.mean_over_places, repr=False)

    def score(self, model: nn.Module, loader: Iterable[Any], **options: Any) -> Scores:
        """Score labelled samples, for metrics and thresholds.

        Parameters
        ----------
        model
            The network it was fitted on.
        loader
            As in :func:`openset.train.extract`.
        **options
            Of :func:`extract_layers`: `head`, `device`, `groups`, `unknown`, ...
        """
        scores = {
            name: self.fitted[name].score(outputs)
            for name, outputs in self._by_layer(model, loader, options)
        }
        first = next(iter(scores.values()))
        return Scores(
            labels=first.labels,
            predicted=first.predicted,
            known=sum(self.weights[name] * one.known for name, one in scores.items()),
            groups=first.groups,
            n_classes=first.n_classes,
        )

    def known(
        self, model: nn.Module, loader: Iterable[Any], **options: Any
    ) -> NDArray[np.float64]:
        """Return the knownness alone, for samples without labels."""
        columns = self._columns(model, loader, options)[0]
        return columns @ np.array([self.weights[name] for name in self.recipe.layers])

    def weighted(
        self, model: nn.Module, loader: Iterable[Any], **options: Any
    ) -> "FittedLayers":
        """Return the same detector with weights learned from known and unknown samples.

        The weights are those of a logistic regression from the knownness of each layer
        to "known", as Lee et al. learn them. Use calibration samples, not the test's.

        Parameters
        ----------
        model, loader, **options
            As in :meth:`score`; samples of no known class are labelled -1.
        """
        # Imported here: it takes a moment, and few need it.
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        columns, labels = self._columns(model, loader, options)
        is_known = np.zeros(len(columns), bool) if labels is None else labels != UNKNOWN
        n_known = int(is_known.sum())
        _check.both_sides("FittedLayers.weighted", n_known, is_known.size - n_known)
        spread = columns.std(axis=0)
        spread[spread == 0] = 1.0
        # Of one spread: the penalty then treats all layers alike.
        model_of = LogisticRegression().fit(columns / spread, is_known)
        weights = model_of.coef_[0] / spread
        return replace(
            self,
            weights=dict(zip(self.recipe.layers, weights.tolist(), strict=True)),
        )

    def _columns(
        self, model: nn.Module, loader: Iterable[Any], options: dict[str, Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Return the knownness of each layer, shape (n, layers), and the labels."""
        labels, columns = None, []
        for name, outputs in self._by_layer(model, loader, options):
            labels = outputs.labels
            columns.append(self.fitted[name].known(outputs))
        return np.stack(columns, axis=1), labels

    def _by_layer(
        self, model: nn.Module, loader: Iterable[Any], options: dict[str, Any]
    ) -> Iterator[tuple[str, Outputs]]:
        names = list(self.recipe.layers)
        options = options | {"summary": self.summary}
        if not self.epsilon:
            yield from extract_layers(model, loader, names, **options).items()
            return
        if len(names) > 1 and iter(loader) is loader:
            msg = _check.must(
                "one that can be run through several times, once per layer",
                caller="FittedLayers",
                name="loader",
                got=f"a {type(loader).__name__}",
                remedy="Give a DataLoader or a list of batches",
            )
            raise TypeError(msg)
        for name in names:
            step = _LayerStep(self, name)
            yield from extract_layers(
                model, loader, [name], step=step, **options
            ).items()


@dataclass(frozen=True, eq=False)
class _LayerStep:
    """Moves inputs towards a larger knownness by one layer."""

    detector: FittedLayers
    layer: str

    def moved(
        self, model: nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Arguments:
        caller = "Layered"
        recorder = _layers.LayerRecorder(caller, [self.layer], self.detector.summary)
        fitted = self.detector.fitted[self.layer]

        def known(*arguments: Any, **keywords: Any) -> Tensor:
            recorder.clear()
            logits = last_layer.logits_of(caller, model(*arguments, **keywords))
            (features,) = recorder.found().values()
            batch = Batch(Outputs(logits=logits, features=features))
            return fitted.to(features).known_of_batch(batch)

        with recorder.recording(model):
            return moved(
                known,
                arguments,
                keywords,
                caller=caller,
                epsilon=self.detector.epsilon,
                std=self.detector.std,
            )


@dataclass(frozen=True, kw_only=True)
class _Bounds(Detector):
    """Minus what lies outside of the bounds of the predicted class, relative to them.

    Features are the row sums of Gram matrices.
    """

    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")

    def _fit(self, train: Outputs) -> State:
        assert train.labels is not None  # noqa: S101  # in fit_needs
        rows = np.asarray(train.features)
        missing = np.setdiff1d(np.arange(train.n_classes or 0), train.labels)
        if missing.size:
            msg = _check.must(
                "samples of every class of the network",
                caller="Gram.fit",
                name="loader",
                got=f"none of class {missing[0]}",
            )
            raise ValueError(msg)
        groups = [rows[train.labels == c] for c in range(train.n_classes or 0)]
        return {
            "low": np.stack([one.min(axis=0) for one in groups]),
            "high": np.stack([one.max(axis=0) for one in groups]),
        }

    def _score(self, state: State, batch: Batch) -> Array:
        return -self.deviation(state, batch.features, batch.top_class)

    @staticmethod
    def deviation(state: State, rows: Array, classes: Array) -> Array:
        """Return the relative deviation from the bounds of the given classes."""
        xp = _xp.array_namespace(rows)
        low = xp.take(state["low"], classes, axis=0)
        high = xp.take(state["high"], classes, axis=0)
        below = xp.clip(low - rows, 0, None) / xp.abs(low + _SMALL)
        above = xp.clip(rows - high, 0, None) / xp.abs(high + _SMALL)
        return xp.sum(below, axis=1) + xp.sum(above, axis=1)


def _inverse(fitted: Fitted, held: Outputs | None) -> float:
    """Return one over the mean deviation of held-out samples, of their own class."""
    if held is None or held.labels is None:
        return 1.0
    rows = np.asarray(held.features)
    mean = float(_Bounds.deviation(fitted.state, rows, held.labels).mean())
    return 1 / mean if mean > 0 else 1.0
