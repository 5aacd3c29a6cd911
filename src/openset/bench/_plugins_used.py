"""Plug-ins that a study uses, for workers to import."""

import sys
from typing import Any

from openset import _extras, _plugins, datasets, detectors
from openset.bench._study import DATA_KEYS, PUBLISHED, NetworkModel, Study
from openset.metrics import Metric


def plugins(study: Study) -> tuple[str, ...]:
    """Return ``module:Name`` of the detectors and methods from outside openset.

    A worker can import modules and finds installed packages; it does not know what was
    registered in the process that started it.
    """
    names = [one.name for one in study.detectors if one.name != PUBLISHED]
    with _plugins.searching(study.base):
        found: list[Any] = [detectors.find(name) for name in names]
        if any(isinstance(model, NetworkModel) for model in study.models):
            train: Any = _extras.optional("bench", "openset.train", name="torch")
            found += [train.methods.find(one.name) for one in study.methods]
        return tuple(
            _plugins.need_importable(one, caller="bench")
            for one in found
            if not _plugins.is_built_in(one)
        )


def dataset_plugins(study: Study) -> tuple[tuple[str, str], ...]:
    """Return name and ``module:function`` of data sets from outside the package."""
    used = {getattr(entry, key, "") for entry in study.protocols for key in DATA_KEYS}
    used |= {one.negatives for one in study.models if isinstance(one, NetworkModel)}
    infos = {name: datasets.info(name) for name in datasets.names() if name in used}
    return tuple(
        (name, _plugins.need_importable(info, caller="bench"))
        for name, info in infos.items()
        if not _plugins.is_built_in(info)
    )


def metric_for_workers(row: Metric) -> str | Metric:
    """Return a metric for workers: as ``module:NAME`` if possible, else as a value.

    A module in the folder of the study must be imported by name: its folder is not on
    the path when values are unpickled.
    """
    module = row.function.__module__
    if module != "__main__" and not _plugins.is_built_in(row):
        for name, value in vars(sys.modules[module]).items():
            if value is row:
                return f"{module}:{name}"
    return row
