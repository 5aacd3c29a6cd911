"""`Job` and `Execution`: parameters of a training run, declared and checked once."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from torch import nn

from openset import _check, _plugins, trackers
from openset.datasets import Cut, Dataset
from openset.protocols import Protocol
from openset.train import methods
from openset.train.methods import Method
from openset.train.networks import FOREIGN
from openset.train.recipes import NAMES, Recipe

_CALLER = "train.fit"
PRECISIONS = ("32-true", "bf16-mixed")
ACCELERATORS = ("auto", "cpu", "cuda", "gpu")
# Files of a run, from the first one written to the last.
_FILES = {"tensorboard", "log.jsonl", "checkpoint.safetensors", "trained.json"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A training run: method, data, recipe, and the folder of its results.

    Parameters
    ----------
    method
        One of :func:`openset.train.names`; your own method as its class, or as
        ``"package.module:Class"``.
    data
        Name of a data set (see :func:`openset.datasets.load`), a `Dataset`, or a `Cut`.
        Without a test part, three tenths of the training samples are drawn as one.
    protocol
        A `Protocol`, the name of a published one, or a JSON file of one or several
        draws. Default: the published protocol of the data set's name, or else one drawn
        by :func:`openset.protocols.default`, with a warning. A `Cut` has its own
        protocol.
    split
        Which published split, or which draw. Default: the first.
    network
        See :func:`openset.train.networks.make`. Default: ``classifier32`` for images,
        ``mlp`` for tables. A model of your own is copied and not changed.
    pretrained
        For a network of timm or torchvision: True to start from its published weights
        (from the cache, or downloaded), or a file of weights (``.safetensors``,
        ``.pth``); its last layer is replaced. Default: random weights, with a warning.
    recipe
        "arpl", "ceplus", "torchosr", "openset", or a `Recipe`.
    changes
        Changes of a recipe given by name, such as ``{"epochs": 100}``; see
        :func:`openset.train.recipe`. :func:`openset.train.fit` takes them as keywords.
    seed
        Seed of the weights, the order, the augmentation and everything else random.
    validation
        Share of the known training samples kept for validation, where neither protocol
        nor data have a validation part. The published recipes train on all samples:
        ``validation=0``.
    max_train
        Train on this many samples at most, drawn at random. Default: all.
    options
        Options of the method, such as ``{"weight": 0.1}``.
    negatives
        A data set of samples that belong to no known class, for methods that train with
        negatives: its name, a path, or a `Dataset`. Its training part is used (all
        samples, if it has none), without the known, unknown and surrogate classes of
        the protocol. Default: the negative classes of the protocol, if it has any.
    root
        Folder of the data sets.
    out
        Folder for log, checkpoint and results. An interrupted run continues from its
        checkpoint; a finished run is read and not trained again.
    accumulate
        Number of parts each batch is divided into, to save memory; their gradients are
        added up.
    title
        Shown next to the progress bar.

    Examples
    --------
    >>> Job(method="softmax", data="mnist", changes={"epochs": 10}).recipe
    'ceplus'
    """

    method: str | type[Method]
    data: str | Path | Dataset | Cut
    protocol: str | Path | Protocol | None = None
    split: int | str | None = None
    network: str | nn.Module | None = None
    pretrained: bool | str | Path = False
    recipe: str | Recipe = "ceplus"
    changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    validation: float = 0.1
    max_train: int | None = None
    options: Mapping[str, Any] | None = None
    negatives: str | Path | Dataset | None = None
    root: str | Path | None = None
    out: str | Path | None = None
    accumulate: int = 1
    title: str = ""

    def __post_init__(self) -> None:
        kind = methods.find(self.method)
        if self.out is not None:
            _check_folder(Path(self.out))
            if not _plugins.is_built_in(kind):
                _plugins.need_importable(kind, caller=_CALLER)
        _check.integer(_CALLER, "seed", self.seed, low=0)
        _check.positive_int(_CALLER, "accumulate", self.accumulate)
        if self.max_train is not None:
            _check.positive_int(_CALLER, "max_train", self.max_train)
        share = self.validation
        _check.number(_CALLER, "validation", share, low=0, high=1, open_high=True)
        if self.options is not None and not isinstance(self.options, Mapping):
            rule, got = "a mapping of names to values", repr(self.options)
            raise TypeError(_check.must(rule, caller=_CALLER, name="options", got=got))
        self._check_recipe()
        self._check_data()
        self._check_negatives(kind)
        self._check_pretrained()

    def _check_pretrained(self) -> None:
        if not self.pretrained:
            return
        is_foreign = str(self.network).startswith(FOREIGN)
        if not is_foreign or isinstance(self.network, nn.Module):
            shown = "a model of your own, which comes with its weights"
            if isinstance(self.network, str | None):
                shown = f"network {self.network or 'left out'}"
            msg = _check.must(
                "left out, except for timm:NAME and torchvision:NAME",
                caller=_CALLER,
                name="pretrained",
                got=f"{self.pretrained} with {shown}",
            )
            raise ValueError(msg)
        if self.pretrained is not True and not Path(self.pretrained).is_file():
            got = f"{self.pretrained}, which does not exist"
            rule = "True or a file of weights"
            msg = _check.must(rule, caller=_CALLER, name="pretrained", got=got)
            raise FileNotFoundError(msg)

    def _check_recipe(self) -> None:
        if isinstance(self.recipe, str):
            _check.one_of(_CALLER, "recipe", self.recipe, NAMES)
        elif not isinstance(self.recipe, Recipe):
            rule = f"{', '.join(map(repr, NAMES))} or a Recipe"
            got = type(self.recipe).__name__
            raise TypeError(_check.must(rule, caller=_CALLER, name="recipe", got=got))
        elif self.changes:
            msg = _check.must(
                "given only with a recipe by name",
                caller=_CALLER,
                name=next(iter(self.changes)),
                got=f"recipe={self.recipe.name!r} as an object",
                remedy="Use dataclasses.replace on the recipe",
            )
            raise ValueError(msg)

    def _check_data(self) -> None:
        if not isinstance(self.data, str | Path | Dataset | Cut):
            msg = _check.must(
                "the name of a data set, a path, a Dataset or a Cut",
                caller=_CALLER,
                name="data",
                got=type(self.data).__name__,
                remedy="datasets.from_arrays makes a Dataset of arrays",
            )
            raise TypeError(msg)
        is_cut = isinstance(self.data, Cut)
        for name in ("protocol", "split"):
            if is_cut and getattr(self, name) is not None:
                msg = f"{_CALLER}: {name} must be left out: a Cut has its own protocol"
                raise ValueError(msg)
        if isinstance(self.protocol, Protocol) and self.split is not None:
            got = repr(self.split)
            msg = f"{_CALLER}: split must be left out with a Protocol, got {got}"
            raise ValueError(msg)

    def _check_negatives(self, kind: type[Method]) -> None:
        if self.negatives is None:
            return
        if not isinstance(self.negatives, str | Path | Dataset):
            rule = "the name of a data set, a path or a Dataset"
            got = type(self.negatives).__name__
            raise TypeError(
                _check.must(rule, caller=_CALLER, name="negatives", got=got)
            )
        reason = ""
        if not issubclass(kind, methods.WithNegatives):
            reason = f"the method {kind.name!r} does not use them"
        elif isinstance(self.data, Cut):
            reason = "a Cut has its own negative part"
        if reason:
            msg = f"{_CALLER}: negatives must be left out: {reason}"
            raise ValueError(msg)

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Return a job; keywords that are not fields of it change the recipe.

        Examples
        --------
        >>> Job.of(method="softmax", data="mnist", epochs=10).changes
        {'epochs': 10}
        """
        own = {f.name: settings.pop(f.name) for f in fields(cls) if f.name in settings}
        return cls(**own | {"changes": {**own.get("changes", {}), **settings}})


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where training runs and what is recorded; only the precision changes the result.

    The precision is chosen by the device unless it is given.

    Parameters
    ----------
    accelerator
        "auto", "cpu", "cuda" or "gpu".
    devices, nodes
        Devices per machine, and machines. Several processes are started by
        ``torchrun``.
    precision
        "32-true" or "bf16-mixed". Default: the latter on a GPU that supports it.
    compiled
        Whether to compile the training step (torch.compile). Default: on a GPU, for
        runs longer than a few minutes without an auxiliary head.
    curves
        Record open-set metrics of the test part after each epoch, or after every n-th
        and the last. They are recorded only; nothing is chosen by them. Outer,
        Halfpoint and Overall scores are recorded for methods that were published with a
        rule to reject samples.
    checkpoint_seconds
        Least time between two checkpoints.
    log_to
        Tracker that also gets the log: "mlflow", "wandb" or "tensorboard"
        (:mod:`openset.trackers`).
    progress
        Show progress bars in a terminal.

    Examples
    --------
    >>> Execution(accelerator="cpu", progress=False).devices
    1
    """

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str | None = None
    compiled: bool | None = None
    curves: bool | int = False
    checkpoint_seconds: float = 30.0
    log_to: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        _check.one_of(_CALLER, "accelerator", self.accelerator, ACCELERATORS)
        _check.positive_int(_CALLER, "devices", self.devices)
        _check.positive_int(_CALLER, "nodes", self.nodes)
        if self.precision is not None:
            _check.one_of(_CALLER, "precision", self.precision, PRECISIONS)
        if not isinstance(self.curves, bool):
            _check.positive_int(_CALLER, "curves", self.curves)
        if self.log_to is not None:
            trackers.check(_CALLER, self.log_to)
        seconds = self.checkpoint_seconds
        _check.number(_CALLER, "checkpoint_seconds", seconds, low=0)


def job_and_execution(**settings: Any) -> tuple[Job, Execution]:
    """Sort keywords into a `Job`, with its recipe's changes, and an `Execution`."""
    names = {f.name for f in fields(Execution)} & settings.keys()
    execution = Execution(**{name: settings.pop(name) for name in names})
    return Job.of(**settings), execution


def signature(*first: inspect.Parameter, returns: Any) -> inspect.Signature:
    """Return the signature of a function that takes a run's parameters as keywords."""
    shared = [
        parameter
        for kind in (Job, Execution)
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.name not in {"changes", *(one.name for one in first)}
    ]
    changes = inspect.Parameter("changes", inspect.Parameter.VAR_KEYWORD)
    return inspect.Signature([*first, *shared, changes], return_annotation=returns)


def _check_folder(folder: Path) -> None:
    """Refuse a folder with other files: those of a run would be mixed with them."""
    if folder.is_file():
        rule, got = "a folder", f"the file {folder}"
        raise ValueError(_check.must(rule, caller=_CALLER, name="out", got=got))
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # Hidden files belong to the system, or to a run that was killed while it wrote.
    others = sorted(one for one in found if not one.startswith("."))
    if others and not found & _FILES:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        msg = _check.must(
            "a new or empty folder, or that of a run to continue",
            caller=_CALLER,
            name="out",
            got=f"{folder} with other files in it ({others[0]}{more})",
            remedy="Choose another folder",
        )
        raise ValueError(msg)
