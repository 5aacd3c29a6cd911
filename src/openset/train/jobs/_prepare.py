"""Jobs made ready to start: data loaded and cut, recipe and network chosen."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from openset import _check, _plugins, datasets, protocols
from openset._types import TrainingWarning
from openset.datasets import Cut, Dataset, lazy_inputs
from openset.protocols import Protocol
from openset.train import methods, networks, recipes
from openset.train.jobs import _fingerprint
from openset.train.jobs._job import Job
from openset.train.jobs._negatives import load_negatives
from openset.train.jobs._spec import Spec
from openset.train.methods import WithNegatives
from openset.train.methods.negatives import need_negatives
from openset.train.recipes import Recipe

_CALLER = "train.fit"
_SHOWN = 8  # classes in a message
_SAME = ("known", "unknown", "source", "unknown_source")


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedJob:
    """A run that can start: its spec, its data, and the folder of its results."""

    spec: Spec
    cut: Cut
    network: str | nn.Module
    pretrained: bool | Path
    out: Path | None
    title: str


def prepare_all(jobs: Iterable[Job], *, precision: str) -> list[PreparedJob]:
    """Prepare several jobs; those on the same data and protocol share the samples."""
    cuts: dict[Any, tuple[Cut, str, str]] = {}
    prepared = []
    for job in jobs:
        is_name = isinstance(job.data, str | Path)
        data = str(job.data) if is_name else id(job.data)
        is_name = not isinstance(job.negatives, Dataset)
        others = str(job.negatives) if is_name else id(job.negatives)
        size = (job.validation, job.max_train)
        key = (data, others, job.protocol, job.split, *size, str(job.root))
        if key not in cuts:
            cut, name = _cut(job)
            limited = _limited(cut, job.max_train)
            cuts[key] = limited, name, _fingerprint.of_cut(limited)
        prepared.append(_prepared(job, *cuts[key], precision))
    return prepared


def _prepared(
    job: Job, cut: Cut, name: str, samples: str, precision: str
) -> PreparedJob:
    """Write down what determines the result of a job."""
    kind = methods.find(job.method)
    needs = issubclass(kind, WithNegatives) and kind.needs_negatives
    if needs and cut.negative is None:
        need_negatives(_CALLER, kind.name)
    network = job.network
    if network is None:
        network = "classifier32" if cut.train.kind == "image" else "mlp"
    given = job.pretrained
    if not given and str(network).startswith(networks.FOREIGN):
        msg = (
            f"{_CALLER}: {network} starts from random weights. To fine-tune: "
            "pretrained=True, or pretrained= a file of weights"
        )
        warnings.warn(msg, TrainingWarning, stacklevel=2)
    pretrained = given if isinstance(given, bool) else Path(given)
    recipe = job.recipe
    if isinstance(recipe, str):
        recipe = recipes.recipe(recipe, name, method=kind.name, **job.changes)
        if pretrained:  # images as the weights know them
            pixels: Any = networks.normalisation(str(network))
            recipe = replace(recipe, pipeline=replace(recipe.pipeline, **pixels))
    spec = Spec(
        method=kind.name,
        plugin="" if _plugins.is_built_in(kind) else _plugins.reference(kind),
        data=name,
        protocol=cut.protocol,
        network=_fingerprint.of_network(network),
        pretrained=_fingerprint.of_pretrained(pretrained),
        recipe=_with_side(recipe, cut),
        seed=int(job.seed),
        options=dict(job.options or {}),
        precision=precision,
        accumulate=int(job.accumulate),
        samples=samples,
    )
    return PreparedJob(
        spec=spec,
        cut=cut,
        network=network,
        pretrained=pretrained,
        out=None if job.out is None else Path(job.out),
        title=job.title or spec.title,
    )


def _cut(job: Job) -> tuple[Cut, str]:
    """Return the data cut by the protocol, and whose published constants apply."""
    if isinstance(job.data, Cut):
        return job.data, _constants_of(job.data.protocol, job.data.protocol.source)
    loaded = _load(job.data, job.root)
    name = loaded.label_set or loaded.name
    protocol = _protocol(job, loaded, name)
    has_validation = protocol.validation or "validation" in loaded.parts
    if job.validation and not has_validation:
        protocol = replace(protocol, validation=job.validation)
    others = {}
    if job.negatives is not None:
        found = load_negatives(job, loaded, caller=_CALLER)
        protocol = datasets.with_negatives(protocol, loaded, found)
        others = {} if found is loaded else {"negative": found}
    others |= {
        part: datasets.load(source, job.root, imports=False)
        for part in ("unknown", "negative", "surrogate")
        if getattr(protocol, part)
        and part not in others
        and (source := protocol.source_of(part)) != protocol.source
    }
    return datasets.cut(loaded, protocol, **others), _constants_of(protocol, name)


def _constants_of(protocol: Protocol, data: str) -> str:
    """Return the name of the published protocol this is, or else of the data set.

    CIFAR-10 and CIFAR+10 have the same images and different constants.
    """
    for name in recipes.CEPLUS:
        for split in protocols.splits(name):
            published = protocols.published(name, split)
            if all(getattr(published, k) == getattr(protocol, k) for k in _SAME):
                return name
    return data


def _protocol(job: Job, data: Dataset, name: str) -> Protocol:
    """Return the protocol given, published or, without either, drawn."""
    given = job.protocol
    if isinstance(given, Protocol):
        return given
    if isinstance(given, Path) or str(given).endswith(".json"):
        found = protocols.load(Path(str(given)))
        return _draw([found] if isinstance(found, Protocol) else found, job.split)
    published = name if given is None else given
    if given is None and name not in protocols.names():
        drawn = _draw(protocols.default(data), job.split)
        warnings.warn(_about_draw(drawn, name), TrainingWarning, stacklevel=2)
        return drawn
    first = protocols.splits(published)[0]
    return protocols.published(published, first if job.split is None else job.split)


def _draw(draws: Iterable[Protocol], split: int | str | None) -> Protocol:
    """Return the first of several draws, or the one with that number."""
    numbered = {str(i): one for i, one in enumerate(draws)}
    wanted = "0" if split is None else str(split)
    _check.one_of(_CALLER, "split", wanted, list(numbered))
    return numbered[wanted]


def _about_draw(protocol: Protocol, name: str) -> str:
    unknown = ", ".join(map(str, protocol.unknown[:_SHOWN]))
    more = len(protocol.unknown) - _SHOWN
    return (
        f"{_CALLER}: {name} has no published protocol. Drawn with seed 0: "
        f"{protocol.n_known} known classes; unknown, and not trained on: "
        f"{unknown}{(f' and {more} more' if more > 0 else '')}. To choose the "
        "classes yourself: protocol="
    )


def _limited(cut: Cut, n: int | None) -> Cut:
    """Train on `n` samples at most; every class must keep one."""
    train = cut.train.at_most(n, seed=cut.protocol.seed)
    missing = set(range(len(train.classes))) - set(train.labels.tolist())
    if train is not cut.train and missing:
        msg = _check.must(
            "enough for a sample of each known class",
            caller=_CALLER,
            name="max_train",
            got=f"{n}, which leaves none of {len(missing)} of {len(train.classes)}",
        )
        raise ValueError(msg)
    return replace(cut, train=train)


def _load(data: str | Path | Dataset, root: str | Path | None) -> Dataset:
    """Load a data set by name, or take it as it is; draw parts if it has none."""
    found = data if isinstance(data, Dataset) else datasets.load(str(data), root)
    if "test" in found.parts and "train" in found.parts:
        return found
    if "train" not in found.parts:
        return found.with_parts(test=0.3, rng=0)
    # Of the training samples alone: those for validation, or in no part, stay that.
    rows = found.parts["train"]
    drawn = found.take(rows).with_parts(test=0.3, rng=0).parts
    new = {part: rows[drawn[part]] for part in ("train", "test")}
    return replace(found, parts={**found.parts, **new})


def _with_side(recipe: Recipe, cut: Cut) -> Recipe:
    """Keep the size of images in files, where all are squares of one size.

    Decided here for all parts together: separately, they could get different sizes.
    Negatives of another size are brought to that of the others.
    """
    if cut.train.kind != "image" or recipe.pipeline.side is not None:
        return recipe
    listed = (cut.train, cut.validation, cut.surrogate, *cut.tests)
    inputs = [part.inputs for part in listed if part is not None]
    more = [] if cut.negative is None else [cut.negative.inputs]
    is_in_memory = all(isinstance(one, np.ndarray) for one in (*inputs, *more))
    if is_in_memory and len({one.shape[1:3] for one in (*inputs, *more)}) == 1:
        return recipe
    side = lazy_inputs.common_side(inputs)
    return replace(recipe, pipeline=replace(recipe.pipeline, side=side))
