"""What a study uses from outside the package, for workers to import."""

import sys
from typing import Any

from openset import _io, _plugins, datasets, detectors
from openset.bench._study import DATA_KEYS, PUBLISHED, NetworkModel, Study
from openset.metrics import Metric


def guests(study: Study) -> tuple[str, ...]:
    """Return ``module:Name`` of everything that does not come with openset.

    A worker knows what is installed and what it can import, not what was registered in
    the process that started it.
    """
    names = [one.name for one in study.detectors if one.name != PUBLISHED]
    with _plugins.searching(study.base):
        found: list[Any] = [detectors.find(name) for name in names]
        if any(isinstance(model, NetworkModel) for model in study.models):
            train: Any = _io.optional("bench", "openset.train", name="torch")
            found += [train.methods.find(one.name) for one in study.methods]
        return tuple(
            _plugins.need_importable(one, caller="bench")
            for one in found
            if not _plugins.is_built_in(one)
        )


def guest_datasets(study: Study) -> tuple[tuple[str, str], ...]:
    """Return name and ``module:function`` of data sets from outside the package."""
    used = {getattr(entry, key, "") for entry in study.protocols for key in DATA_KEYS}
    infos = {name: datasets.info(name) for name in datasets.names() if name in used}
    return tuple(
        (name, _plugins.need_importable(info, caller="bench"))
        for name, info in infos.items()
        if not _plugins.is_built_in(info)
    )


def metric_for_workers(row: Metric) -> str | Metric:
    """Return how a worker gets a metric: by ``module:NAME``, or else by its value.

    A module in the study's folder can be imported by name only: it is on no path when
    values arrive.
    """
    module = row.function.__module__
    if module != "__main__" and not _plugins.is_built_in(row):
        for name, value in vars(sys.modules[module]).items():
            if value is row:
                return f"{module}:{name}"
    return row
