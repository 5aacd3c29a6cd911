"""Loaders and their batches: inputs, labels and names of the samples."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io

with _io.importing("openset.train", "torch"):
    from torch import Tensor, nn
    from torch.nn.parallel import DataParallel, DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

CALLER = "extract"
_LABELS = ("labels", "label", "targets", "target")
_IDS = ("ids", "id", "paths", "path")


def check_loader(loader: Iterable[Any]) -> None:
    """Raise for loaders that leave samples out, or repeat some of them."""
    if not isinstance(loader, DataLoader):
        return
    if loader.drop_last:
        msg = _check.must(
            "one that keeps the last batch (drop_last=False)",
            caller=CALLER,
            name="loader",
            got="drop_last=True",
            remedy="The samples of the last batch would be missing from every metric",
        )
        raise ValueError(msg)
    sampler = loader.sampler
    if isinstance(sampler, DistributedSampler):
        n = len(sampler.dataset)  # type: ignore[arg-type]
        if n != sampler.total_size:
            msg = _check.must(
                "free of padding",
                caller=CALLER,
                name="loader",
                got=f"a DistributedSampler that makes {sampler.total_size} of {n}",
                remedy="Give every process a torch.utils.data.Subset of its own",
            )
            raise ValueError(msg)


class SampleNames:
    """Groups and ids of the samples, given beforehand or by the batches."""

    def __init__(
        self,
        *,
        groups: str | Sequence[str] | None,
        ids: Sequence[str] | None,
        expected: int | None,
    ) -> None:
        self._groups, self._ids = groups, ids
        self._found: list[str] = []
        if expected is not None:  # before the pass, where possible
            self._check(expected)

    def add(self, ids: Sequence[Any] | None) -> None:
        """Take the ids of one batch."""
        if ids is None:
            return
        other = next((one for one in ids if not isinstance(one, str)), None)
        if other is not None:
            msg = _check.must(
                "(inputs, labels), (inputs, labels, ids), inputs, or a mapping",
                caller=CALLER,
                name="a batch",
                got=f"a {type(other).__name__} among the ids, which must be strings",
            )
            raise TypeError(msg)
        self._found.extend(ids)

    def arrays(self, n: int) -> dict[str, NDArray[Any]]:
        """Return what is known of `n` samples."""
        self._check(n)
        groups, ids = self._groups, self._found if self._ids is None else self._ids
        given = {
            "groups": [groups] * n if isinstance(groups, str) else groups,
            "ids": ids or None,
        }
        return {
            name: _check.names(CALLER, name, list(values))
            for name, values in given.items()
            if values is not None
        }

    def _check(self, n: int) -> None:
        for name, values in (("groups", self._groups), ("ids", self._ids)):
            if values is not None and not isinstance(values, str):
                _check.same_length(
                    CALLER, {"the loader's samples": n, name: len(values)}
                )


def rows_of(loader: Iterable[Any]) -> int | None:
    """Return the number of samples, if the loader knows it and has its usual order."""
    if not isinstance(loader, DataLoader):
        return None
    try:
        return len(loader.sampler)  # type: ignore[arg-type]
    except TypeError:
        return None


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
