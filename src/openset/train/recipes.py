"""Recipes: optimiser, schedule, augmentation and length of training, as data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from openset import _check, datasets, protocols
from openset.train.augment import (
    ARPLPLUS,
    CEPLUS,
    PLAIN,
    Pipeline,
    PublishedConstants,
    pipeline_arpl,
    pipeline_ceplus,
)
from openset.train.augment.pipeline import CIFAR_MEAN, CIFAR_STD

_CALLER = "train.recipe"
NAMES = ("arpl", "ceplus", "torchosr", "openset")
SCHEDULES = ("constant", "steps", "cosine")
OPTIMISERS = ("sgd", "adam")
AUXILIARIES = ("none", "rotation")
# Images through the network per training image: half a batch of turned ones comes on
# top (see `openset.train.learner`).
_PASSES = {"none": 1.0, "rotation": 1.5}
_ARPLPLUS = ("arpl", "arpl_cs")  # methods with constants of their own
_OF_PIPELINE = ("n_ops", "magnitude", "side", "padding", "flip")
_OF_SCHEDULE = {
    "steps": ("milestones", "factor"),
    "cosine": ("cycle", "warmup", "floor"),
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is trained, whatever the method.

    Attributes
    ----------
    epochs, batch
        Passes over the training data; samples per update (over all devices).
    optimiser
        "sgd" or "adam".
    lr, momentum, weight_decay
        Settings of the optimiser, the same for all parameters. Adam uses no momentum.
    schedule
        "constant"; "steps": times `factor` at each of `milestones`; "cosine":
        annealing with restarts every `cycle` epochs, to `floor` times the rate, after
        `warmup` epochs of linear growth in the first cycle.
    smoothing
        Label smoothing, see :class:`openset.train.methods.Method`.
    pipeline
        Augmentation, size and normalisation of images.
    clean
        Share of the epochs, the last ones, without RandAugment.
    dropout
        Probability of all dropout layers of the network; None: as the network has them.
    auxiliary
        "rotation": a second linear layer predicts by how many quarter turns an image
        was turned. To each batch, half as many turned images are added, from which only
        that layer learns. It is not part of the saved network. "none": no such layer.
    auxiliary_weight
        Weight of its cross-entropy in the loss.
    """

    name: str
    epochs: int
    batch: int
    optimiser: str = "sgd"
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    milestones: tuple[int, ...] = ()
    factor: float = 0.1
    cycle: int = 200
    warmup: int = 0
    floor: float = 1e-3
    smoothing: float = 0.0
    pipeline: Pipeline = PLAIN
    clean: float = 0.0
    dropout: float | None = None
    auxiliary: str = "none"
    auxiliary_weight: float = 0.5

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "cycle"):
            _check.positive_int(_CALLER, name, getattr(self, name))
        _check.one_of(_CALLER, "optimiser", self.optimiser, OPTIMISERS)
        _check.one_of(_CALLER, "schedule", self.schedule, SCHEDULES)
        _check.number(_CALLER, "lr", self.lr, low=0, open_low=True, open_high=True)
        self._check_milestones()
        for name in ("momentum", "weight_decay", "factor"):
            value = getattr(self, name)
            _check.number(_CALLER, name, value, low=0, open_high=True)
        _check.number(_CALLER, "floor", self.floor, low=0, high=1)
        self._check_warmup()
        smoothing = self.smoothing
        _check.number(_CALLER, "smoothing", smoothing, low=0, high=1, open_high=True)
        _check.number(_CALLER, "clean", self.clean, low=0, high=1)
        if self.dropout is not None:
            dropout = self.dropout
            _check.number(_CALLER, "dropout", dropout, low=0, high=1, open_high=True)
        _check.one_of(_CALLER, "auxiliary", self.auxiliary, AUXILIARIES)
        weight = self.auxiliary_weight
        _check.number(_CALLER, "auxiliary_weight", weight, low=0, open_high=True)

    def _check_warmup(self) -> None:
        warmup = _check.number(_CALLER, "warmup", self.warmup, low=0)
        if warmup > self.cycle:
            msg = _check.must(
                f"at most cycle, {self.cycle} epochs",
                caller=_CALLER,
                name="warmup",
                got=self.warmup,
                remedy="Change both: cycle and warmup",
            )
            raise ValueError(msg)

    def _check_milestones(self) -> None:
        listed = self.milestones
        is_list = isinstance(listed, tuple | list)
        if not is_list or not all(type(one) is int and one >= 0 for one in listed):
            msg = _check.must(
                "a list of epochs",
                caller=_CALLER,
                name="milestones",
                got=repr(listed),
                remedy="For example milestones=[30, 60]",
            )
            raise TypeError(msg)

    def rate(self, epoch: int) -> float:
        r"""Learning rate of an epoch, counted from 0.

        The cosine schedule is that of the CE+ release, whose scheduler is stepped at
        the end of an epoch with the number of the epoch just finished, so that it runs
        one epoch late. With :math:`f` the floor, T the cycle and W the warm-up:

        .. math:: c(k) = f + (\eta - f) \frac{1 + \cos(\pi k / T)}{2}

        epoch 0 has f, epoch e ≤ W has :math:`f + (c(W) - f)\,e/W`, later ones
        :math:`c((e - 1) \bmod T)`; without warm-up epoch 0 has the full rate.

        Examples
        --------
        >>> [round(recipe("ceplus", "cifar10").rate(e), 6) for e in (0, 1, 10, 200)]
        [0.0001, 0.010029, 0.099385, 0.000106]
        """
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "steps":
            return self.lr * self.factor ** sum(epoch >= m for m in self.milestones)
        floor = self.lr * self.floor
        if epoch == 0:
            return floor if self.warmup else self.lr
        if epoch <= self.warmup:
            target = self._cosine(self.warmup)
            return floor + (target - floor) * epoch / self.warmup
        return self._cosine((epoch - 1) % self.cycle)

    def pipeline_of(self, epoch: int) -> Pipeline:
        """Augmentation of an epoch, counted from 0: the last ones may be clean.

        Examples
        --------
        >>> made = recipe("ceplus", "cifar10", epochs=10, clean=0.1)
        >>> made.pipeline_of(8).n_ops, made.pipeline_of(9).n_ops
        (1, 0)
        """
        if epoch < self.epochs - round(self.clean * self.epochs):
            return self.pipeline
        return replace(self.pipeline, n_ops=0)

    @property
    def budget(self) -> float:
        """Number of images processed in training, in passes over the training data.

        Examples
        --------
        >>> recipe("ceplus", "cifar10", auxiliary="rotation", epochs=400).budget
        600.0
        """
        return self.epochs * _PASSES[self.auxiliary]

    def _cosine(self, k: int) -> float:
        floor = self.lr * self.floor
        return floor + (self.lr - floor) * (1 + math.cos(math.pi * k / self.cycle)) / 2


def recipe(
    name: str = "ceplus", data: str = "", *, method: str = "", **changes: Any
) -> Recipe:
    """Return a published recipe with the constants of a data set.

    Parameters
    ----------
    name
        "arpl": the ARPL release (100 epochs, rate lowered in steps, crop and flip);
        "ceplus": the CE+ and OpenAUC releases (600 epochs, cosine with restarts,
        RandAugment); "torchosr": 128 epochs of plain SGD, no augmentation. "openset" is
        our own: "ceplus" with weight decay 5e-4 (with SGD), no dropout, one cosine
        cycle, the last tenth of the epochs without RandAugment, and the auxiliary
        "rotation" for data sets whose images have an upright position
        (``datasets.info(data).upright``). It processes as many images as "ceplus" (600
        passes over the training data).
    data
        Name of a published protocol, whose constants are taken. For other data "arpl"
        and "ceplus" keep the images' size, and "ceplus" takes rate 0.1, RandAugment
        (1, 9) and no label smoothing; "openset" does the same.
    method
        Name of the training method. With "arpl" and "arpl_cs" the recipe "ceplus" has
        the constants published for ARPL+ and ARPL+CS+, which differ from those of CE+
        on CIFAR-10, TinyImageNet, CUB and FGVC-Aircraft.
    **changes
        Any field of `Recipe`; ``n_ops``, ``magnitude``, ``side``, ``padding`` and
        ``flip`` change its pipeline. With fewer epochs than a cosine cycle, the cycle
        is as long as the training; milestones and warm-up shrink in proportion.
        ``budget`` replaces ``epochs``: the number of images processed, in passes over
        the training data, so that runs with and without turned images cost the same.

    Examples
    --------
    >>> recipe("ceplus", "svhn", epochs=100).cycle
    100
    >>> recipe("arpl", "cifar10", epochs=10).milestones
    (3, 6, 9)
    >>> recipe("ceplus", "cifar10", method="arpl").pipeline.magnitude
    15
    >>> recipe("openset", "cifar10").epochs, recipe("openset", "svhn").epochs
    (400, 600)
    >>> recipe("openset", "cifar10", budget=150).epochs
    100
    """
    _check.one_of(_CALLER, "recipe", name, NAMES)
    published = ARPLPLUS if method in _ARPLPLUS else CEPLUS
    if name == "arpl":
        made = _arpl(data)
    elif name == "ceplus":
        made = _ceplus(data, published)
    elif name == "openset":
        made = _openset(data, published)
    else:
        made = _torchosr(data)
    for key in changes:
        _check.one_of(_CALLER, "a change", key, changeable())
    of_pipeline = {k: v for k, v in changes.items() if k in _OF_PIPELINE}
    others = {k: v for k, v in changes.items() if k not in _OF_PIPELINE}
    if of_pipeline:
        others["pipeline"] = replace(made.pipeline, **of_pipeline)
    epochs = others["epochs"] = _epochs(made, others)
    schedule = others.get("schedule", made.schedule)
    changed = replace(made, **(_shortened(made, schedule, epochs) | others))
    _check_read(changed, changes)
    return changed


def _epochs(made: Recipe, changes: dict[str, Any]) -> int:
    """Return the number of epochs; take the budget out of the changes."""
    budget = changes.pop("budget", None)
    if "epochs" in changes:
        if budget is not None:
            rule = f"left out with epochs={changes['epochs']!r}"
            msg = _check.must(rule, caller=_CALLER, name="budget", got=repr(budget))
            raise ValueError(msg)
        return _check.positive_int(_CALLER, "epochs", changes["epochs"])
    if budget is None and made.name != "openset":
        return made.epochs
    budget = made.budget if budget is None else budget
    _check.number(_CALLER, "budget", budget, low=0, open_low=True, open_high=True)
    auxiliary = changes.get("auxiliary", made.auxiliary)
    _check.one_of(_CALLER, "auxiliary", auxiliary, AUXILIARIES)
    return max(1, round(budget / _PASSES[auxiliary]))


def _check_read(made: Recipe, changes: Mapping[str, Any]) -> None:
    """Refuse a change without effect: it would look as if it had been made."""
    read: dict[str, tuple[str, Any, Any]] = {
        name: ("schedule", made.schedule, kind)
        for kind, names in _OF_SCHEDULE.items()
        for name in names
    }
    if made.pipeline.n_ops == 0:
        read["clean"] = ("n_ops", 0, 1)
        if "n_ops" not in changes:
            read["magnitude"] = ("n_ops", 0, 1)
    read["auxiliary_weight"] = ("auxiliary", made.auxiliary, "rotation")
    for name in changes:
        field, now, wanted = read.get(name, ("", "", ""))
        if now != wanted:
            msg = _check.must(
                f"left out with {field}={now!r}, where it has no effect",
                caller=_CALLER,
                name=name,
                got=repr(changes[name]),
                remedy=f"It needs {field}={wanted!r}",
            )
            raise ValueError(msg)


def changeable() -> list[str]:
    """Return the names of what :func:`recipe` can change.

    Examples
    --------
    >>> "epochs" in changeable(), "magnitude" in changeable()
    (True, True)
    """
    own = {field.name for field in fields(Recipe)} - {"name", "pipeline"}
    return [*sorted({*own, "budget"}), *_OF_PIPELINE]


def _shortened(made: Recipe, schedule: str, epochs: int) -> dict[str, Any]:
    """Fit the schedule to another length of training."""
    if schedule == "steps":
        scaled = (round(m * epochs / made.epochs) for m in made.milestones)
        return {"milestones": tuple(max(1, m) for m in scaled)}
    if made.name == "openset":
        return {"cycle": epochs, "warmup": min(made.warmup, round(epochs / 20))}
    if schedule == "cosine" and epochs < made.cycle:
        warmup = round(made.warmup * epochs / made.cycle)
        return {"cycle": epochs, "warmup": warmup}
    return {}


def _arpl(data: str) -> Recipe:
    is_known = data in CEPLUS and data not in ("cub", "fgvc-aircraft")
    common = Recipe(
        name="arpl",
        epochs=100,
        batch=64,
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        schedule="steps",
        milestones=(30, 60, 90),
        pipeline=pipeline_arpl(data) if is_known else Pipeline(padding=4, flip=True),
    )
    if data == "tinyimagenet":
        adam = {"optimiser": "adam", "lr": 0.001, "momentum": 0.0, "weight_decay": 0.0}
        return replace(common, **adam)  # type: ignore[arg-type]
    return common


def _ceplus(data: str, published: Mapping[str, PublishedConstants]) -> Recipe:
    if data in published:
        constants = published[data]
        pipeline = pipeline_ceplus(data, constants=constants)
    else:
        constants = PublishedConstants(0, 0.1, 1, 9, 0.0, 128)
        pipeline = Pipeline(
            n_ops=1, magnitude=9, padding=4, flip=True, mean=CIFAR_MEAN, std=CIFAR_STD
        )
    is_adam = data == "tinyimagenet"
    return Recipe(
        name="ceplus",
        epochs=600,
        batch=constants.batch,
        optimiser="adam" if is_adam else "sgd",
        lr=constants.lr,
        momentum=0.0 if is_adam else 0.9,
        weight_decay=0.0 if is_adam else 1e-4,
        schedule="cosine",
        warmup=10,
        smoothing=constants.smoothing,
        pipeline=pipeline,
    )


def _openset(data: str, published: Mapping[str, PublishedConstants]) -> Recipe:
    base = _ceplus(data, published)
    auxiliary = "rotation" if _is_upright(data) else "none"
    return replace(
        base,
        name="openset",
        epochs=round(base.epochs / _PASSES[auxiliary]),
        weight_decay=5e-4 if base.optimiser == "sgd" else base.weight_decay,
        clean=0.1,
        dropout=0.0,
        auxiliary=auxiliary,
    )


def _is_upright(data: str) -> bool:
    """Return whether the images of a data set, or of a protocol, can be turned."""
    if data in protocols.names():
        data = protocols.published(data, protocols.splits(data)[0]).source
    return data in datasets.names() and datasets.info(data).upright


def _torchosr(data: str) -> Recipe:
    side = CEPLUS[data].side if data in CEPLUS else None
    pipeline = Pipeline(side=side)
    return Recipe(name="torchosr", epochs=128, batch=64, lr=1e-3, pipeline=pipeline)
