"""Plans of runs: data loaded and cut, recipe and network chosen, all of it on paper."""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from torch import nn

from openset import __version__, _check, _plugins, datasets, protocols
from openset._types import TrainingWarning
from openset.datasets import Cut, Dataset, Samples, lazy_inputs
from openset.protocols import Protocol
from openset.train import methods, networks, recipes
from openset.train.augment import Pipeline
from openset.train.job import Job
from openset.train.methods import Method
from openset.train.recipes import CEPLUS, Recipe

_CALLER = "train.fit"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Everything that determines the weights of a run, as plain data.

    Two runs with equal specs on the same kind of device give equal weights. Where they
    run is not part of it, apart from the precision.
    """

    method: str
    plugin: str = ""
    """``module:Class`` of a method that does not come with openset."""
    data: str
    protocol: Protocol
    network: str
    pretrained: str = ""
    recipe: Recipe
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    precision: str = "32-true"
    samples: str = ""

    @property
    def method_class(self) -> type[Method]:
        """The method's class; a spec from a file does not import anything."""
        return methods.REGISTRY.trusted(
            self.method, self.plugin or None, caller="train", plugins=()
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the versions of the packages it was made with."""
        plain = asdict(self) | {"protocol": self.protocol.to_dict()}
        plain["version"] = __version__
        if self.plugin:
            plain["distribution"] = _plugins.distribution(self.method_class)
        return json.loads(json.dumps(plain, default=np.generic.item))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Return the spec that :meth:`to_json` turned into plain data."""
        recipe = _with_tuples(plain["recipe"])
        recipe["pipeline"] = Pipeline(**_with_tuples(recipe["pipeline"]))
        found = {f.name: plain[f.name] for f in fields(cls)}
        found["protocol"] = Protocol.from_dict(plain["protocol"])
        return cls(**found | {"recipe": Recipe(**recipe)})

    def need_same(self, other: Mapping[str, Any], folder: Path) -> None:
        """Raise unless a folder's run, whose spec as plain data is `other`, is this."""
        ours = self.to_json()
        versions = ("version", "distribution")
        differing = [k for k in ours if k not in versions and ours[k] != other.get(k)]
        if differing:
            rule = "an empty folder or that of the same run"
            got = f"{folder}, which differs in {', '.join(differing)}"
            _check.fail(_CALLER, "out", rule, got, "Choose another folder")


def _with_tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists back into the tuples that JSON made lists of."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}


class Plan(NamedTuple):
    """A run that can start: its job, what determines its weights, and its data."""

    job: Job
    spec: Spec
    cut: Cut


def plans(jobs: Iterable[Job], precision: str) -> list[Plan]:
    """Plan several jobs; those on the same data and protocol share the samples."""
    cuts: dict[Any, tuple[Cut, str, str]] = {}
    found = []
    for job in jobs:
        given = (job.data, job.negatives, job.protocol)
        names = [str(x) if isinstance(x, str | Path) else id(x) for x in given]
        key = (*names, job.split, job.validation, job.max_train, str(job.root))
        if key not in cuts:
            cut, name = _cut(job)
            cuts[key] = cut, name, _digest(cut.train)
        found.append(_plan(job, *cuts[key], precision))
    return found


def _plan(job: Job, cut: Cut, name: str, samples: str, precision: str) -> Plan:
    """Choose recipe and network of a job, and write down what determines its result."""
    kind, recipe = methods.find(job.method), job.recipe
    if issubclass(kind, methods.WithNegatives) and cut.negative is None:
        rule = f"given for the method {kind.name!r}"
        remedy = "Name a data set without samples of the known classes, such as "
        remedy += "negatives='svhn', or use a protocol with negative classes"
        _check.fail(_CALLER, "negatives", rule, "none", remedy)
    network = job.network
    if network is None:
        network = "classifier32" if cut.train.kind == "image" else "mlp"
    pretrained = job.pretrained
    if not pretrained and str(network).startswith(networks.TIMM):
        msg = f"{_CALLER}: {network} starts from random weights. To fine-tune: "
        warnings.warn(f"{msg}pretrained=True", TrainingWarning, stacklevel=2)
    if isinstance(recipe, str):
        recipe = recipes.recipe(recipe, name, method=kind.name, **job.changes)
        if pretrained:  # images as the weights know them
            pixels: Any = networks.normalisation(str(network))
            recipe = replace(recipe, pipeline=replace(recipe.pipeline, **pixels))
    about = str(network)
    if isinstance(network, nn.Module):
        digest = hashlib.sha256(about.encode()).hexdigest()
        about = f"{type(network).__name__} {digest[:16]}"
    spec = Spec(
        method=kind.name,
        plugin="" if _plugins.is_built_in(kind) else _plugins.reference(kind),
        data=name,
        protocol=cut.protocol,
        network=about,
        pretrained="published" if pretrained is True else str(pretrained or ""),
        recipe=_with_side(recipe, cut),
        seed=int(job.seed),
        options=dict(job.options or {}),
        precision=precision,
        samples=samples,
    )
    title = job.title or f"{kind.name} {cut.protocol.name or name} seed {job.seed}"
    return Plan(replace(job, network=network, title=title), spec, cut)


def _cut(job: Job) -> tuple[Cut, str]:
    """Return the data cut by the protocol, and whose published constants apply."""
    if isinstance(job.data, Cut):
        cut, name = job.data, job.data.protocol.source
    else:
        data = _with_parts(job.data, job.root)
        name = data.label_set or data.name
        protocol = _protocol(job, data, name)
        if not protocol.validation and "validation" not in data.parts:
            protocol = replace(protocol, validation=job.validation)
        others = {}
        if job.negatives is not None:
            found = _negatives(job, data)
            protocol = datasets.with_negatives(protocol, data, found)
            others = {} if found is data else {"negative": found}
        for part in ("unknown", "negative", "surrogate"):
            source = protocol.source_of(part) if getattr(protocol, part) else ""
            if source not in ("", protocol.source) and part not in others:
                others[part] = datasets.load(source, job.root, imports=False)
        cut = datasets.cut(data, protocol, **others)
    published = cut.protocol.name.partition("/")[0]
    train = cut.train.at_most(job.max_train, seed=cut.protocol.seed)
    if (n_left := len(np.unique(train.labels))) < len(train.classes):
        got = f"{job.max_train}, which leaves {n_left} of {len(train.classes)}"
        _check.fail(_CALLER, "max_train", "enough for each known class", got)
    return replace(cut, train=train), published if published in CEPLUS else name


def _with_parts(data: str | Path | Dataset, root: str | Path | None) -> Dataset:
    """Load a data set by name, or take it as it is; draw parts if it has none."""
    found = data if isinstance(data, Dataset) else datasets.load(str(data), root)
    if "train" not in found.parts:
        return found.with_parts(test=0.3, rng=0)
    if "test" in found.parts:
        return found
    # Of the training samples alone: those for validation, or in no part, stay that.
    rows = found.parts["train"]
    drawn = found.take(rows).with_parts(test=0.3, rng=0).parts
    new = {part: rows[own] for part, own in drawn.items()}
    return replace(found, parts={**found.parts, **new})


def _negatives(job: Job, data: Dataset) -> Dataset:
    """Return the data set of negatives; `data`, if it is that of the known classes.

    Two data sets with the same label set have the same classes; the samples of these
    classes are then those of the training data.
    """
    given: Any = job.negatives
    if given is job.data:
        return data
    found = given if isinstance(given, Dataset) else datasets.load(str(given), job.root)
    if not found.label_set or found.label_set != data.label_set:
        return found
    if isinstance(given, Dataset):
        rule = "the training data themselves, or a data set with another label_set"
        got = f"another Dataset with label_set={found.label_set!r}"
        _check.fail(_CALLER, "negatives", rule, got)
    if isinstance(job.data, str | Path):
        _check.need_same_file(Path(given), Path(job.data), caller=_CALLER)
    return data


def _protocol(job: Job, data: Dataset, name: str) -> Protocol:
    """Return the protocol given, published or, without either, drawn."""
    given, split = job.protocol, job.split
    if isinstance(given, Protocol):
        return given
    if given is not None and Path(given).suffix == ".json":
        found = protocols.load(Path(given))
        return _draw([found] if isinstance(found, Protocol) else found, split)
    published = str(given or name)
    if given is not None or published in protocols.names():
        first = protocols.splits(published)[0]
        return protocols.published(published, first if split is None else split)
    drawn = _draw(protocols.default(data), split)
    shown = ", ".join(map(str, drawn.unknown[:8])) + ", …" * (len(drawn.unknown) > 8)
    msg = (
        f"{_CALLER}: {name} has no published protocol. Drawn with seed 0: "
        f"{drawn.n_known} known classes; unknown, and not trained on: {shown}. To "
        "choose the classes yourself: protocol="
    )
    warnings.warn(msg, TrainingWarning, stacklevel=2)
    return drawn


def _draw(draws: Iterable[Protocol], split: int | str | None) -> Protocol:
    """Return the first of several draws, or the one with that number."""
    numbered = {str(i): one for i, one in enumerate(draws)}
    return numbered[_check.one_of(_CALLER, "split", str(split or 0), list(numbered))]


def _with_side(recipe: Recipe, cut: Cut) -> Recipe:
    """Give images in files, or of several sizes, one side, for all parts together."""
    if cut.train.kind != "image" or recipe.pipeline.side is not None:
        return recipe
    parts = (cut.train, cut.validation, cut.surrogate, *cut.tests, cut.negative)
    inputs = [part.inputs for part in parts if part is not None]
    is_in_memory = all(isinstance(one, np.ndarray) for one in inputs)
    if is_in_memory and len({one.shape[1:3] for one in inputs}) == 1:
        return recipe
    own = inputs if cut.negative is None else inputs[:-1]
    side = lazy_inputs.common_side(own)
    return replace(recipe, pipeline=replace(recipe.pipeline, side=side))


def _digest(samples: Samples) -> str:
    """Return a hash of labels and of inputs in memory; of files, of their names."""
    found = hashlib.sha256(np.ascontiguousarray(samples.labels).tobytes())
    if isinstance(samples.inputs, np.ndarray):
        found.update(np.ascontiguousarray(samples.inputs).data)
    elif isinstance(samples.inputs, lazy_inputs.ImageFiles):
        found.update("\n".join(map(str, samples.inputs.paths)).encode())
    return found.hexdigest()[:16]
