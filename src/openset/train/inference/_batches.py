"""Batches of a loader: the inputs, labels and ids in them."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras

with _extras.importing("openset.train", "torch"):
    from torch import Tensor, nn
    from torch.nn.parallel import DataParallel, DistributedDataParallel
    from torch.utils.data import TensorDataset

CALLER = "extract"
_LABELS = ("labels", "label", "targets", "target")
_IDS = ("ids", "id", "paths", "path")


def labels_of(loader: Iterable[Any]) -> NDArray[np.int64] | None:
    """Return all labels, if the data set has them at hand."""
    data = getattr(loader, "dataset", None)
    found = getattr(data, "targets", None)
    if isinstance(data, TensorDataset) and len(data.tensors) > 1:
        found = data.tensors[1]
    values = np.asarray([] if found is None else found)
    return values if values.ndim == 1 and values.dtype.kind == "i" else None


def n_batches(loader: Iterable[Any]) -> int | None:
    """Return the number of batches, if the loader knows it."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:  # a generator, or the loader of a stream
        return None


def n_samples(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> int:
    """Return the number of samples of a batch."""
    return len(arguments[0] if arguments else next(iter(keywords.values())))


def parts_of(
    batch: Any, place: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Tensor | None, Sequence[Any] | None]:
    """Split a batch into the model's arguments, on its device, labels and ids."""
    if isinstance(batch, Mapping):
        names = [name for name in _LABELS if name in batch]
        labels = batch[names[0]] if names else None
        ids = next((batch[name] for name in _IDS if name in batch), None)
        others = {*_LABELS, *_IDS}
        keywords = {k: _moved(v, place) for k, v in batch.items() if k not in others}
        return (), keywords, labels, ids
    if isinstance(batch, tuple | list):
        if len(batch) not in (1, 2, 3):
            msg = _check.must(
                "(inputs, labels), (inputs, labels, ids), inputs, or a mapping",
                caller=CALLER,
                name="a batch",
                got=f"{len(batch)} parts",
            )
            raise ValueError(msg)
        inputs, labels, ids = [*batch, None, None][:3]
        return (_moved(inputs, place),), {}, labels, ids
    return (_moved(batch, place),), {}, None, None


def check_keywords(model: nn.Module, keywords: Mapping[str, Any]) -> None:
    """Refuse entries of a batch that the model does not take by these names."""
    model = _unwrapped(model)
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # the call itself will fail
        return
    try:
        signature.bind(**keywords)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "nothing"
        msg = _check.must(
            f"arguments of {type(model).__name__}.forward ({takes}), to which entries "
            f"go by keyword, or for the labels one of {', '.join(_LABELS)}",
            caller=CALLER,
            name="the keys of a batch",
            got=f"{', '.join(map(repr, keywords))} ({error})",
            remedy="Rename them in the loader, or let it give (inputs, labels)",
        )
        raise TypeError(msg) from error


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the network inside wrappers that take any arguments."""
    if isinstance(model, DataParallel | DistributedDataParallel):
        return _unwrapped(model.module)
    inner = getattr(model, "_orig_mod", None)  # compiled
    return model if inner is None else _unwrapped(inner)


def _moved(value: Any, place: Any) -> Any:
    return value.to(place, non_blocking=True) if isinstance(value, Tensor) else value
