"""Which loaders give every sample once, and the names of their samples."""

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from openset import _check, _extras
from openset.train.inference._batches import CALLER

with _extras.importing("openset.train", "torch"):
    from torch.utils.data import (
        DataLoader,
        RandomSampler,
        SubsetRandomSampler,
        WeightedRandomSampler,
    )
    from torch.utils.data.distributed import DistributedSampler


def check_loader(caller: str, loader: Iterable[Any]) -> None:
    """Raise for loaders that leave samples out, or repeat some of them."""
    if not isinstance(loader, DataLoader):
        return
    if loader.drop_last:
        msg = _check.must(
            "one that keeps the last batch (drop_last=False)",
            caller=caller,
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
                caller=caller,
                name="loader",
                got=f"a DistributedSampler that makes {sampler.total_size} of {n}",
                remedy="Give every process a torch.utils.data.Subset of its own",
            )
            raise ValueError(msg)
    if (
        isinstance(sampler, WeightedRandomSampler | RandomSampler)
        and sampler.replacement
    ):
        msg = _check.must(
            "one that gives every sample once",
            caller=caller,
            name="loader",
            got=f"a {type(sampler).__name__} that draws with replacement",
            remedy="Give a loader of the same data without a sampler",
        )
        raise ValueError(msg)


def _check_order(name: str, loader: Iterable[Any]) -> None:
    sampler = getattr(loader, "sampler", None)
    shuffles = isinstance(sampler, RandomSampler | SubsetRandomSampler)
    if shuffles or (isinstance(sampler, DistributedSampler) and sampler.shuffle):
        msg = _check.must(
            f"one that keeps its order (shuffle=False), as {name} are in that order",
            caller=CALLER,
            name="loader",
            got=f"a {type(sampler).__name__}",
            remedy=f"Or let its batches give them: (inputs, labels, {name})"
            if name == "ids"
            else "",
        )
        raise ValueError(msg)


class SampleNames:
    """Groups and ids of the samples, given beforehand or by the batches."""

    def __init__(
        self,
        loader: Iterable[Any],
        *,
        groups: str | Sequence[str] | None,
        ids: Sequence[str] | None,
    ) -> None:
        self._groups, self._ids = groups, ids
        self._found: list[str] = []
        for name, values in (("groups", groups), ("ids", ids)):
            if values is not None and not isinstance(values, str):
                _check_order(name, loader)
        expected = _rows_of(loader)
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
            "ids": ids if len(ids) else None,
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


def _rows_of(loader: Iterable[Any]) -> int | None:
    """Return the number of samples, if the loader knows it and has its usual order."""
    if not isinstance(loader, DataLoader):
        return None
    try:
        return len(loader.sampler)  # type: ignore[arg-type]
    except TypeError:
        return None
