"""`Job` and `Execution`: what to train, and where."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from torch import nn

from openset import _check, _plugins
from openset.datasets import Cut, Dataset
from openset.protocols import Protocol
from openset.train import methods, networks, recipes
from openset.train.methods import Method
from openset.train.recipes import Recipe

_CALLER = "train.fit"
# Files of a run, from the first one written to the last.
_FILES = {"log.jsonl", "checkpoint.pt", "trained.json"}


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
        For a network of timm: True to start from its published weights
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
    title: str = ""

    def __post_init__(self) -> None:
        kind = methods.find(self.method)
        if self.folder is not None:
            _check_folder(self.folder)
            if not _plugins.is_built_in(kind):
                _plugins.need_importable(kind, caller=_CALLER)
        _check.integer(_CALLER, "seed", self.seed, low=0)
        if isinstance(self.recipe, str):
            _check.one_of(_CALLER, "recipe", self.recipe, recipes.NAMES)
        is_cut = isinstance(self.data, Cut)
        is_given = isinstance(self.protocol, Protocol)
        takes = issubclass(kind, methods.WithNegatives)
        is_timm = str(self.network).startswith(networks.TIMM)
        # What has an effect only beside something else.
        needs = {
            "changes": (isinstance(self.recipe, str), "a recipe by name"),
            "protocol": (not is_cut, "data that are not cut: a Cut has its own"),
            "split": (not is_cut and not is_given, "a published protocol, or a file"),
            "negatives": (takes and not is_cut, "methods with negatives, data uncut"),
            "pretrained": (is_timm, "a network of timm, such as timm:NAME"),
        }
        for name, (is_used, needed) in needs.items():
            given = getattr(self, name)
            if not is_used and given not in (None, False, {}):
                rule = f"left out: it is for {needed}"
                _check.fail(_CALLER, name, rule, f"a {type(given).__name__}")

    @property
    def folder(self) -> Path | None:
        """Folder of the results."""
        return None if self.out is None else Path(self.out)

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
    on_epoch
        Called with the title of a run and each new record of its log, for a tracker of
        experiments: ``lambda title, line: wandb_run.log(line)``.
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
    on_epoch: Callable[[str, dict[str, Any]], object] | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("devices", "nodes"):
            _check.positive_int(_CALLER, name, getattr(self, name))


def _check_folder(folder: Path) -> None:
    """Refuse a folder with other files: those of a run would be mixed with them."""
    # Hidden files belong to the system, or to a run that was killed while it wrote.
    there = [path.name for path in folder.glob("[!.]*")]
    if there and not _FILES.intersection(there):
        rule = "a new or empty folder, or that of a run to continue"
        got = f"{folder} with other files in it ({there[0]})"
        _check.fail(_CALLER, "out", rule, got, "Choose another folder")
