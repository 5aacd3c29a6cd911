"""The plan of a study: every network and every cell, each with a key."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from openset import _check, _plugins, runs
from openset._optional import optional
from openset.bench import dependencies, protocols
from openset.bench.networks import Network, Task
from openset.bench.study import PUBLISHED, Component, Study


def plan(study: Study) -> list[Task]:
    """List every cell of a study, without reading data.

    Examples
    --------
    >>> from openset.bench import parse
    >>> text = '''
    ... protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, repeats: 2}]
    ... models: [{kind: mlp}]
    ... detectors: [msp, energy, {name: knn, k: 5}]
    ... seeds: 2'''
    >>> made = plan(parse(text))
    >>> len(made), len({task.network.id for task in made})
    (12, 4)
    """
    base = study.base.resolve()
    with _plugins.searching(base, Path.cwd()):
        tasks = list(_tasks(study, base))
    if not tasks:
        rule = "with cells: of protocols and models, or of saved outputs"
        remedy = f"The detector {PUBLISHED!r} is for networks only"
        _check.fail("bench", "study", rule, "none", remedy)
    return tasks


def _tasks(study: Study, base: Path) -> Iterator[Task]:
    measured = {row.key: row for row in study.rows()}
    scored = {"metrics": ", ".join(sorted(measured))}
    used = [(one, _parts(one), one.recipe()) for one in study.detectors]
    wanted = study.calibrate and study.calibrate.model_dump()
    for network in [*_trained(study, base), *_saved(study, base)]:
        is_network = network.model is not None and network.model.is_network
        for (detector, parts, recipe), split in product(used, range(network.n_tests)):
            if detector.name == PUBLISHED and not is_network:
                continue  # only training methods have a published score
            needs = network.key["needs"] | dependencies.needs(parts | measured) | scored
            key = network.key | {
                "detector": detector.title,
                "needs": needs,
                "recipe": _digest(network.key["recipe"], recipe, wanted, study.threads),
            }
            key |= {"split": split} if network.n_tests > 1 else {}
            yield Task(key=key, network=network, detector=detector, split=split)


def _parts(detector: Component) -> dict[str, Any]:
    """Return the class of a detector by name, and those of its parts."""
    made = detector.detector()
    if made is None:
        return {}
    return {one.name: type(one) for one in made.recipes} | {detector.name: type(made)}


def _trained(study: Study, base: Path) -> Iterator[Network]:
    for entry, model in product(study.protocols, study.models):
        # Training methods apply to networks only; other models train in their own way.
        methods = study.methods if model.is_network else [None]
        data = [*entry.names(), getattr(entry, "path", ""), model.negatives]
        n_tests = enumerate(protocols.n_tests(entry, base))
        every = product(n_tests, range(entry.folds), methods, study.seeds)
        for (i, n), fold, method, seed in every:
            recipes = [one and one.recipe() for one in (entry, model, method)]
            key = {
                "protocol": entry.title,
                "repeat": i * entry.folds + fold,
                "model": model.title,
                "method": "" if method is None else method.title,
                "detector": "",
                "seed": seed,
                "needs": dependencies.needs(_trainer(method), data, base),
                "recipe": _digest(*recipes, study.threads),
            }
            place: dict[str, Any] = {"entry": entry, "draw": i, "fold": fold}
            yield Network(key=key, n_tests=n, model=model, method=method, **place)


def _trainer(method: Component | None) -> dict[str, Any]:
    """Return the class of a training method by name, if there is one."""
    if method is None:
        return {}
    train: Any = optional("openset.train", "torch")
    return {method.name: train.methods.find(method.name)}


def _saved(study: Study, base: Path) -> Iterator[Network]:
    for saved in study.outputs:
        names = ("repeat", "model", "method", "seed")
        key = {name: getattr(saved, name) for name in names}
        key |= {
            "protocol": saved.name,
            "detector": "",
            "recipe": _digest(saved.recipe()),
        }
        content = {saved.path: dependencies.content(base / saved.path)}
        key |= {"needs": dependencies.needs({}) | content}
        yield Network(key=key, saved=saved, n_tests=saved.n_tests)


def _digest(*recipe: Any) -> str:
    # Tuples equal lists, and the order of keys does not matter.
    return runs.identity({"recipe": json.loads(json.dumps(recipe, default=str))})
