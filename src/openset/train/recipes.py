"""Recipes: optimiser, schedule, augmentation and length of training, as data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from openset import _check
from openset.train.augment import (
    PLAIN,
    PUBLISHED,
    Pipeline,
    Published,
    pipeline_a,
    pipeline_b,
)
from openset.train.augment.pipeline import CIFAR_MEAN, CIFAR_STD

_CALLER = "train.recipe"
SCHEDULES = ("constant", "steps", "cosine")
OPTIMISERS = ("sgd", "adam")
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
        Of the optimiser, for all parameters alike. Adam takes no momentum.
    schedule
        "constant"; "steps": times `factor` at each of `milestones`; "cosine":
        annealing with restarts every `cycle` epochs, to `floor` times the rate, after
        `warmup` epochs of linear growth in the first cycle.
    smoothing
        Label smoothing, see :class:`openset.train.methods.Method`.
    pipeline
        What happens to the images.
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
                remedy="Say milestones=[30, 60], or --set milestones=[30,60]",
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
        >>> [round(recipe("B", "cifar10").rate(e), 6) for e in (0, 1, 10, 200, 599)]
        [0.0001, 0.010029, 0.099385, 0.000106, 0.000125]
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

    def _cosine(self, k: int) -> float:
        floor = self.lr * self.floor
        return floor + (self.lr - floor) * (1 + math.cos(math.pi * k / self.cycle)) / 2


def recipe(name: str = "B", data: str = "", **changes: Any) -> Recipe:
    """Return recipe A, B or T with the constants of a data set.

    Parameters
    ----------
    name
        "A": the ARPL release (100 epochs, steps, crop and flip); "B": the CE+ and
        OpenAUC releases (600 epochs, cosine with restarts, RandAugment); "T": torchosr
        (128 epochs of plain SGD, no augmentation).
    data
        Whose constants: a published protocol's name. For other data A and B keep the
        images' size; B takes rate 0.1, RandAugment (1, 9) and no smoothing.
    **changes
        Any field of `Recipe`; ``n_ops``, ``magnitude``, ``side``, ``padding`` and
        ``flip`` change its pipeline. With fewer epochs than a cosine cycle, the cycle
        is as long as the training; milestones and warm-up shrink in proportion.

    Examples
    --------
    >>> recipe("B", "svhn", epochs=100).cycle
    100
    >>> recipe("A", "cifar10", epochs=10).milestones
    (3, 6, 9)
    """
    _check.one_of(_CALLER, "recipe", name, ["A", "B", "T"])
    made = {"A": _a, "B": _b, "T": _t}[name](data)
    for key in changes:
        _check.one_of(_CALLER, "a change", key, changeable())
    of_pipeline = {k: v for k, v in changes.items() if k in _OF_PIPELINE}
    own = {k: v for k, v in changes.items() if k not in _OF_PIPELINE}
    if of_pipeline:
        own["pipeline"] = replace(made.pipeline, **of_pipeline)
    epochs = own.get("epochs", made.epochs)
    _check.positive_int(_CALLER, "epochs", epochs)
    schedule = own.get("schedule", made.schedule)
    changed = replace(made, **(_shortened(made, schedule, epochs) | own))
    _check_read(changed, changes)
    return changed


def _check_read(made: Recipe, changes: Mapping[str, Any]) -> None:
    """Refuse a change that nothing reads: it would look as if it had been made."""
    read: dict[str, tuple[str, Any, Any]] = {
        name: ("schedule", made.schedule, kind)
        for kind, names in _OF_SCHEDULE.items()
        for name in names
    }
    if "n_ops" not in changes and made.pipeline.n_ops == 0:
        read["magnitude"] = ("n_ops", 0, 1)
    for name in changes:
        field, now, wanted = read.get(name, ("", "", ""))
        if now != wanted:
            msg = _check.must(
                f"left out with {field}={now!r}, which does not read it",
                caller=_CALLER,
                name=name,
                got=repr(changes[name]),
                remedy=f"It goes with {field}={wanted!r}",
            )
            raise ValueError(msg)


def changeable() -> list[str]:
    """Return the names :func:`recipe` takes changes by.

    Examples
    --------
    >>> "epochs" in changeable(), "magnitude" in changeable()
    (True, True)
    """
    own = {field.name for field in fields(Recipe)} - {"name", "pipeline"}
    return [*sorted(own), *_OF_PIPELINE]


def _shortened(made: Recipe, schedule: str, epochs: int) -> dict[str, Any]:
    """Fit the schedule to another length of training."""
    if schedule == "steps":
        scaled = (round(m * epochs / made.epochs) for m in made.milestones)
        return {"milestones": tuple(max(1, m) for m in scaled)}
    if schedule == "cosine" and epochs < made.cycle:
        warmup = round(made.warmup * epochs / made.cycle)
        return {"cycle": epochs, "warmup": warmup}
    return {}


def _a(data: str) -> Recipe:
    is_known = data in PUBLISHED and data not in ("cub", "fgvc-aircraft")
    common = Recipe(
        name="A",
        epochs=100,
        batch=64,
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        schedule="steps",
        milestones=(30, 60, 90),
        pipeline=pipeline_a(data) if is_known else Pipeline(padding=4, flip=True),
    )
    if data == "tinyimagenet":
        adam = {"optimiser": "adam", "lr": 0.001, "momentum": 0.0, "weight_decay": 0.0}
        return replace(common, **adam)  # type: ignore[arg-type]
    return common


def _b(data: str) -> Recipe:
    if data in PUBLISHED:
        constants, pipeline = PUBLISHED[data], pipeline_b(data)
    else:
        constants = Published(0, 0.1, 1, 9, 0.0, 128)
        pipeline = Pipeline(
            n_ops=1, magnitude=9, padding=4, flip=True, mean=CIFAR_MEAN, std=CIFAR_STD
        )
    is_adam = data == "tinyimagenet"
    return Recipe(
        name="B",
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


def _t(data: str) -> Recipe:
    side = PUBLISHED[data].side if data in PUBLISHED else None
    return Recipe(name="T", epochs=128, batch=64, lr=1e-3, pipeline=Pipeline(side=side))
