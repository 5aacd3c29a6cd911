"""A run to be trained, described before it is started."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from openset import _check, datasets, protocols
from openset.datasets import Cut, Dataset, lazy_inputs
from openset.protocols import Protocol
from openset.train import _fingerprint
from openset.train._spec import Spec
from openset.train.methods import find
from openset.train.recipes import Recipe
from openset.train.recipes import recipe as named_recipe

_CALLER = "train.fit"
# What a run leaves behind, from its first moment to its last.
_TRACES = {"tensorboard", "log.jsonl", "checkpoint.safetensors", "trained.json"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One run to be trained: a spec, the data cut for it, and where it is kept."""

    spec: Spec
    cut: Cut
    network: str | nn.Module
    out: Path | None = None
    title: str = ""
    """Shown beside its progress bar."""

    def __post_init__(self) -> None:
        if self.out is not None and self.out.is_file():
            rule, got = "a folder", f"the file {self.out}"
            raise ValueError(_check.must(rule, caller=_CALLER, name="out", got=got))


def check_folder(caller: str, name: str, folder: Path) -> None:
    """Refuse a folder of other files: those of a run would be mixed with them."""
    if not folder.is_dir():
        return
    found = {path.name for path in folder.iterdir()}
    # Hidden ones are the system's, or of a run that was killed while it wrote.
    others = sorted(one for one in found if not one.startswith("."))
    if others and not found & _TRACES:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        msg = _check.must(
            "a new or empty folder, or one of a run to go on with",
            caller=caller,
            name=name,
            got=f"{folder} with other files in it ({others[0]}{more})",
            remedy="Choose another folder",
        )
        raise ValueError(msg)


def job(
    *,
    method: str,
    data: str | Path | Dataset | Cut,
    protocol: str | Protocol | None = None,
    split: int | str | None = None,
    network: str | nn.Module | None = None,
    recipe: str | Recipe = "B",
    seed: int = 0,
    validation: float = 0.1,
    options: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    out: str | Path | None = None,
    precision: str = "32-true",
    accumulate: int = 1,
    title: str = "",
    **changes: Any,
) -> Job:
    """Describe a run without starting it; parameters as in :func:`fit`.

    `title` is shown beside its progress bar.
    """
    find(method)  # a wrong name is the first thing to say
    is_integer = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_integer or seed < 0:
        rule = "an integer >= 0"
        raise ValueError(_check.must(rule, caller=_CALLER, name="seed", got=repr(seed)))
    if options is not None and not isinstance(options, Mapping):
        rule, got = "a mapping of names to values", repr(options)
        raise TypeError(_check.must(rule, caller=_CALLER, name="options", got=got))
    cut, name = _cut(data, protocol, split, root, validation)
    if network is None:
        network = "classifier32" if cut.train.kind == "image" else "mlp"
    if isinstance(recipe, str):
        made = named_recipe(recipe, name, **changes)
    elif not isinstance(recipe, Recipe):
        rule, got = "'A', 'B', 'T' or a Recipe", type(recipe).__name__
        msg = _check.must(rule, caller=_CALLER, name="recipe", got=got)
        raise TypeError(msg)
    elif changes:
        msg = _check.must(
            "given only with a recipe by name",
            caller=_CALLER,
            name=next(iter(changes)),
            got=f"recipe={recipe.name!r} as an object",
            remedy="Use dataclasses.replace on the recipe",
        )
        raise ValueError(msg)
    else:
        made = recipe
    made = _sided(made, cut)
    spec = Spec(
        method=method,
        data=name,
        protocol=cut.protocol,
        network=_fingerprint.of_network(network),
        recipe=made,
        seed=int(seed),
        options=dict(options or {}),
        precision=precision,
        parts=_check.positive_int(_CALLER, "accumulate", accumulate),
        samples=_fingerprint.of_cut(cut),
    )
    return Job(
        spec=spec,
        cut=cut,
        network=network,
        out=None if out is None else Path(out),
        title=title or spec.title,
    )


def _cut(
    data: Any,
    protocol: str | Protocol | None,
    split: int | str | None,
    root: str | Path | None,
    validation: float,
) -> tuple[Cut, str]:
    """Return the data cut by the protocol, and the name its constants go by."""
    if isinstance(data, Cut):
        if protocol is not None or split is not None:
            what = "protocol" if protocol is not None else "split"
            msg = f"{_CALLER}: {what} must be left out: a Cut brings its own protocol"
            raise ValueError(msg)
        return data, data.protocol.source
    _check.number(_CALLER, "validation", validation, low=0, high=1, open_high=True)
    loaded = load_data(data, root)
    name = loaded.label_set or loaded.name
    if protocol is None:
        protocol = _published(name)
    if isinstance(protocol, str):
        name = protocol
        first = protocols.splits(protocol)[0]
        protocol = protocols.published(protocol, first if split is None else split)
    elif split is not None:
        msg = f"{_CALLER}: split must be left out with a Protocol, got {split!r}"
        raise ValueError(msg)
    if validation and not protocol.validation and "validation" not in loaded.parts:
        protocol = replace(protocol, validation=validation)
    others = {
        part: datasets.load(source, root, imports=False)
        for part in ("unknown", "negative", "surrogate")
        if getattr(protocol, part)
        and (source := protocol.source_of(part)) != protocol.source
    }
    return datasets.cut(loaded, protocol, **others), name


def _published(name: str) -> str:
    if name not in protocols.names():
        msg = _check.must(
            "given for data without a published one",
            caller=_CALLER,
            name="protocol",
            got=f"None for {name!r}",
            remedy="Draw one: protocols.holdout(data, n_known, n_unknown, rng=0)",
        )
        raise ValueError(msg)
    return name


def _sided(recipe: Recipe, cut: Cut) -> Recipe:
    """Keep the size of images in files, where all are squares of one size.

    Decided here, once for all parts: each by itself could come to another one.
    """
    listed = (cut.train, cut.validation, cut.negative, cut.surrogate, *cut.tests)
    inputs = [part.inputs for part in listed if part is not None]
    is_in_memory = all(isinstance(one, np.ndarray) for one in inputs)
    if cut.train.kind != "image" or is_in_memory or recipe.pipeline.side is not None:
        return recipe
    side = lazy_inputs.common_side(inputs)
    return replace(recipe, pipeline=replace(recipe.pipeline, side=side))


def load_data(data: str | Path | Dataset, root: str | Path | None = None) -> Dataset:
    """Load a data set by name, or take it as it is; draw parts if it has none."""
    if not isinstance(data, str | Path | Dataset):
        msg = _check.must(
            "the name of a data set, a path, a Dataset or a Cut",
            caller=_CALLER,
            name="data",
            got=type(data).__name__,
            remedy="datasets.from_arrays makes a Dataset of arrays",
        )
        raise TypeError(msg)
    found = data if isinstance(data, Dataset) else datasets.load(str(data), root)
    if "test" in found.parts and "train" in found.parts:
        return found
    return found.with_parts(test=0.3, rng=0)
