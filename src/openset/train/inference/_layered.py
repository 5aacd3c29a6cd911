"""Detectors over several layers of a network: Mahalanobis and others, and Gram."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras, _xp
from openset._types import UNKNOWN, ArtefactError
from openset.detectors import Batch, ByLayer, Detector, Fitted, GramBounds
from openset.detectors.layered import (
    GRAM,
    POWERS,
    STEP,
    layer_names,
    layer_of,
    over_layers,
    with_deviations_of,
    with_weights,
)
from openset.outputs import Outputs
from openset.scores import Scores
from openset.train.inference import _layers
from openset.train.inference._extract_layers import extract_layers, layer_outputs
from openset.train.inference._input_step import Arguments, Odin, listed_std, moved
from openset.train.networks import last_layer

with _extras.importing("openset.train", "torch"):
    import torch  # noqa: F401  # for the examples
    from torch import Tensor, nn


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
        Before it is scored, the input is changed by this much along the sign of the
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
        names = _layers.check_names("Layered", self.layers)
        object.__setattr__(self, "layers", names)
        # Made here, so that what cannot be used is refused before the network runs.
        object.__setattr__(self, "detector", self._recipe().detector)

    def _recipe(self) -> ByLayer:
        return ByLayer(detector=self.detector, epsilon=self.epsilon, std=self.std)

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
        outputs = layer_outputs(model, loader, self.layers, **options)
        return FittedLayers(self._recipe().fit(outputs))


@dataclass(frozen=True, kw_only=True)
class Gram:
    r"""Deviations of Gram matrices from the bounds of the predicted class.

    For every layer and power p the rows of :math:`(F^p F^{p\top})^{1/p}` are summed,
    where F has a row per channel. In training the smallest and the largest sum of each
    class are kept as bounds; when scoring, the amounts by which sums exceed them are
    added up, relative to the bound. The deviation of each layer is divided by its mean
    on held-out samples, and their sum is minus the knownness.

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
    powers: Sequence[int] = POWERS
    seed: int = 0

    def __post_init__(self) -> None:
        names = _layers.check_names("Gram", self.layers)
        object.__setattr__(self, "layers", names)
        object.__setattr__(self, "powers", self._recipe().powers)

    def _recipe(self, **options: Any) -> GramBounds:
        return GramBounds(powers=self.powers, seed=self.seed, **options)

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
            Known samples for the mean deviation of each layer. Default: a tenth of the
            samples of each class (none of a class with fewer than ten).
        **options
            Of :func:`extract_layers`: `head`, `device`, `progress`.
        """
        names = [f"{GRAM}{name}" for name in self.layers]
        options |= {"powers": self.powers}
        outputs = layer_outputs(model, loader, names, **options)
        if validation is None:
            return FittedLayers(self._recipe().fit(outputs))
        fitted = self._recipe(held_out=0.0).fit(outputs)
        held = layer_outputs(model, validation, names, **options)
        return FittedLayers(with_deviations_of(fitted, held))


@dataclass(frozen=True, eq=False)
class FittedLayers:
    """A detector fitted on several layers of a network.

    :meth:`outputs` returns the network's outputs in the form that `fitted` needs.
    `fitted` is a detector like any other: a rejector can be calibrated with it.

    Parameters
    ----------
    fitted
        A fitted :class:`openset.detectors.ByLayer` or
        :class:`openset.detectors.GramBounds`, such as that of a rejector.

    Examples
    --------
    >>> from openset import Rejector
    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> inputs = torch.randn(90, 3)
    >>> batches = [(inputs, network(inputs).argmax(dim=1))]
    >>> layered = Layered(layers=["0", "1"]).fit(network, batches)
    >>> rejector = Rejector.calibrate(
    ...     layered.fitted,
    ...     known=layered.outputs(network, batches),
    ...     objective="at_tpr",
    ...     tpr=0.95,
    ... )
    >>> again = FittedLayers(rejector.fitted)
    >>> rejector.predict(again.outputs(network, [inputs[:2] + 9]))
    array([-1, -1])
    """

    fitted: Fitted

    def __post_init__(self) -> None:
        _ = self._recipe  # raises for other detectors

    def __repr__(self) -> str:
        return f"FittedLayers({self.fitted.detector!r})"

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, as in ``model.named_modules()``."""
        return tuple(name.removeprefix(GRAM) for name in self._names)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each layer in the sum."""
        values = _xp.to_numpy(self.fitted.state["weights"]).tolist()
        return dict(zip(self.layers, values, strict=True))

    def part(self, layer: str) -> Fitted:
        """Return the fitted detector of one layer."""
        _check.one_of("FittedLayers.part", "layer", layer, self.layers)
        return layer_of(self.fitted, self._names[self.layers.index(layer)])

    def outputs(
        self, model: nn.Module, loader: Iterable[Any], **options: Any
    ) -> Outputs:
        """Return outputs with the features of the layers, as `fitted` takes them.

        With an input step each layer has its own features, and the logits are those of
        the inputs that were perturbed for the first layer.

        Parameters
        ----------
        model
            The network it was fitted on.
        loader
            As in :func:`openset.train.extract`.
        **options
            Of :func:`extract_layers`: `head`, `device`, `groups`, `unknown`, ...
        """
        if isinstance(self._recipe, GramBounds):
            options |= {"powers": self._recipe.powers}
        elif self._recipe.epsilon:
            return self._moved(model, loader, options)
        return layer_outputs(model, loader, self._names, **options)

    def score(self, model: nn.Module, loader: Iterable[Any], **options: Any) -> Scores:
        """Score labelled samples, for metrics and thresholds.

        Parameters
        ----------
        model, loader, **options
            As in :meth:`outputs`.
        """
        return self.fitted.score(self.outputs(model, loader, **options))

    def known(
        self, model: nn.Module, loader: Iterable[Any], **options: Any
    ) -> NDArray[np.float64]:
        """Return the knownness alone, for samples without labels."""
        return self.fitted.known(self.outputs(model, loader, **options))

    def weighted(
        self, model: nn.Module, loader: Iterable[Any], **options: Any
    ) -> "FittedLayers":
        """Return the same detector with weights learned from known and unknown samples.

        The weights are those of a logistic regression from the knownness of each layer
        to "known", as Lee et al. learn them. Use calibration samples, not test samples.

        Parameters
        ----------
        model, loader, **options
            As in :meth:`outputs`; samples of no known class are labelled -1.
        """
        # Imported here: it takes a moment, and few need it.
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        outputs = self.outputs(model, loader, **options)
        parts = zip(self.layers, outputs.by_layer().values(), strict=True)
        columns = np.stack([self.part(name).known(one) for name, one in parts], axis=1)
        labels = outputs.labels
        is_known = np.zeros(len(columns), bool) if labels is None else labels != UNKNOWN
        n_known = int(is_known.sum())
        _check.both_sides("FittedLayers.weighted", n_known, is_known.size - n_known)
        spread = columns.std(axis=0)
        spread[spread == 0] = 1.0
        # Of one spread: the penalty then treats all layers alike.
        model_of = LogisticRegression().fit(columns / spread, is_known)
        return FittedLayers(with_weights(self.fitted, model_of.coef_[0] / spread))

    def save(self, path: str | Path) -> Path:
        """Write one ``.npz``, as :meth:`openset.detectors.Fitted.save` does. No pickle.

        The network is not saved. A rejector contains all of this: see
        :meth:`openset.Rejector.save`.
        """
        return self.fitted.save(path)

    @classmethod
    def load(cls, path: str | Path, *, plugins: Sequence[str] = ()) -> "FittedLayers":
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path
            The file.
        plugins
            Detectors from outside openset that may be imported, each as
            ``"package.module:Class"``: the file does not decide what is imported.
        """
        fitted = Fitted.load(path, plugins=plugins)
        if not layer_names(fitted.detector):
            msg = _check.must(
                "a detector over several layers",
                caller="FittedLayers.load",
                name=str(path),
                got=fitted.detector.name,
                remedy="Other detectors are read by Fitted.load",
            )
            raise ArtefactError(msg)
        return cls(fitted)

    @property
    def _recipe(self) -> ByLayer | GramBounds:
        return over_layers(self.fitted, caller="FittedLayers")

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._recipe.layers)

    def _moved(
        self, model: nn.Module, loader: Iterable[Any], options: dict[str, Any]
    ) -> Outputs:
        """Move the inputs for each layer separately."""
        if len(self.layers) > 1 and iter(loader) is loader:
            msg = _check.must(
                "one that can be run through several times, once per layer",
                caller="FittedLayers",
                name="loader",
                got=f"a {type(loader).__name__}",
                remedy="Give a DataLoader or a list of batches",
            )
            raise TypeError(msg)
        found: dict[str, Outputs] = {}
        for step in self.steps():
            made = extract_layers(model, loader, [step.layer], step=step, **options)
            found[step.column] = made[step.layer]
        return Outputs.of_layers(found)

    def steps(self) -> "list[LayerStep]":
        """Return the step of each layer; none, if inputs are taken as they are."""
        recipe = self._recipe
        if isinstance(recipe, GramBounds) or not recipe.epsilon:
            return []
        return [
            LayerStep(
                layer=name,
                fitted=self.part(name),
                epsilon=recipe.epsilon,
                std=recipe.std,
            )
            for name in self.layers
        ]

    def with_std(self, std: tuple[float, ...] | None) -> "FittedLayers":
        """Return the same with a step in pixels in [0, 1], unless it has its own `std`.

        Parameters
        ----------
        std
            What the pixels of each channel were divided by.
        """
        recipe = self._recipe
        if isinstance(recipe, GramBounds) or recipe.std is not None:
            return self
        return FittedLayers(replace(self.fitted, detector=replace(recipe, std=std)))


def how_to_extract(fitted: Fitted, input_step: str = "") -> dict[str, Any]:
    """Return the arguments `step` and `layers` with which outputs fit a detector.

    They are those of :meth:`openset.train.Trained.apply` and of
    :meth:`openset.integrations.networks.Classifier.apply`.

    Parameters
    ----------
    fitted
        The detector, such as that of a rejector.
    input_step
        That of the outputs it was calibrated on, in words: ``rejector.input_step``.

    Examples
    --------
    >>> from openset.detectors import MSP
    >>> how_to_extract(MSP(temperature=2).fit(), "odin:temperature=2,epsilon=0.1")
    {'layers': (), 'step': Odin(temperature=2.0, epsilon=0.1, std=None)}
    """
    layers = layer_names(fitted.detector)
    if layers and FittedLayers(fitted).steps():
        return {"layers": (), "step": FittedLayers(fitted)}
    return {"layers": layers, "step": Odin.of(input_step) if input_step else None}


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerStep:
    """Moves inputs towards a larger knownness by one layer.

    The layer is one of `inside`; by default of the model that is called.
    """

    layer: str
    fitted: Fitted
    epsilon: float
    std: tuple[float, ...] | None
    inside: nn.Module | None = None

    @property
    def column(self) -> str:
        """What the layer is called in outputs."""
        return f"{STEP}{self.layer}"

    @property
    def words(self) -> str:
        """The step in words, for :class:`openset.Outputs`."""
        recipe = ByLayer(detector=self.fitted.detector, epsilon=self.epsilon)
        return recipe.input_step + listed_std(self.std)

    def moved(
        self, model: nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Arguments:
        caller = "Layered"
        summary = _layers.mean_over_places
        recorder = _layers.LayerRecorder(caller, [self.layer], summary)

        def known(*arguments: Any, **keywords: Any) -> Tensor:
            recorder.clear()
            logits = last_layer.logits_of(caller, model(*arguments, **keywords))
            (features,) = recorder.found().values()
            batch = Batch(Outputs(logits=logits, features=features))
            return self.fitted.to(features).known_of_batch(batch)

        with recorder.recording(self.inside or model):
            return moved(
                known,
                arguments,
                keywords,
                caller=caller,
                epsilon=self.epsilon,
                std=self.std,
            )
