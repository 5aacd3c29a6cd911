"""`extract`: logits and features of every sample of a loader, from a torch module."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from operator import length_hint
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from openset import _check, _extras
from openset._progress import bar
from openset.extract import head as heads
from openset.extract.gather import Made, gather
from openset.extract.layers import Layers, recording_layers
from openset.extract.odin import words_of
from openset.outputs import Invalid, Outputs

with _extras.importing("openset.extract", "torch"):
    import torch
    from torch import Tensor, nn
    from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler
    from torch.utils.data.distributed import DistributedSampler

_LABELS = ("labels", "label", "targets", "target")
_IDS = ("ids", "id", "paths", "path")


def extract(
    model: nn.Module,
    loader: Iterable[Any],
    head: str | nn.Module | None = None,
    out: str | Path | None = None,
    *,
    device: Any = None,
    classes: Iterable[str] = (),
    groups: str | Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    unknown: bool = False,
    step: Any = None,
    layers: Sequence[str] = (),
    features_only: bool = False,
    invalid: Invalid = "error",
    progress: bool = True,
) -> Outputs:
    """Run a classifier on the batches of a loader; return logits, features and labels.

    Features are the input of the last linear layer, logits its output; its weight and
    bias are kept with them (a bias of zeros, if it has none). The model runs in
    evaluation mode without gradients; afterwards each module is in its former mode.

    Parameters
    ----------
    model
        A classifier: anything whose forward ends in an ``nn.Linear``.
    loader
        Gives batches: ``(inputs, labels)``, ``(inputs, labels, ids)``, inputs alone,
        or a mapping with ``labels`` (or ``label``, ``targets``, ``target``) whose other
        entries are passed by keyword. Labels are ``0..C-1``, or -1; ids are strings,
        such as paths.
    head
        The last linear layer, or its name. Default: the layer whose output is the
        model's output, found with the first batch.
    out
        Folder to write to, batch by batch, so that memory does not grow with the data;
        the result is memory-mapped. The folder appears when it is complete.
    device
        Device to run on: the inputs are moved there. Default: that of the model.
    classes
        Names of the classes.
    groups
        Where each sample comes from, in the order of the loader; one name for all.
        Lists of groups or ids need a loader that does not shuffle.
    ids
        Names of the samples, in the order of the loader.
    unknown
        All samples are of no known class: they are labelled -1, whatever labels the
        loader has.
    step
        Changes the inputs before the network runs:
        ``Odin(temperature=1000, epsilon=0.0014)``, or any object with its method
        `moved`. This takes a backward pass and a second forward pass.
    layers
        Names of layers, as in ``model.named_modules()``: the features are the means of
        their channels, side by side, instead of those of the last layer, whose weights
        are left out.
    features_only
        Leave out logits, weight and bias: to fit a last layer of your own
        (:meth:`openset.extract.LinearHead.fit`). Labels may then number other classes.
    invalid
        What to do with samples of which the network makes NaN, see
        :class:`openset.Outputs`: ``"keep"`` keeps them.
    progress
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    Outputs
        NumPy arrays, in the order of the loader.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> batches = [(torch.ones(5, 4), torch.zeros(5, dtype=torch.int64))]
    >>> extract(model, batches)
    Outputs(n=5, logits=(5, 2) float32, features=(5, 3) float32, head, numpy)
    """
    heads.check_module("extract", model)
    has_lists = ids is not None or not isinstance(groups, str | None)
    _check_loader(loader, has_lists=has_lists)
    with heads.evaluating(model), ExitStack() as stack:
        forward = _Forward(
            stack, model, head, layers, step=step, device=device, bare=features_only
        )
        total = length_hint(loader) or None
        return gather(
            bar(loader, "extracting", total=total, show=progress),
            forward,
            out=out,
            groups=groups,
            ids=ids,
            unknown=unknown,
            invalid=invalid,
            classes=tuple(classes),
            input_step=words_of(step),
        )


class _Forward:
    """Runs a model on batches; the head is found with the first one."""

    def __init__(
        self,
        stack: ExitStack,
        model: nn.Module,
        head: str | nn.Module | None,
        layers: Sequence[str],
        *,
        step: Any,
        device: Any,
        bare: bool,
    ) -> None:
        tensors = [*model.parameters(), *model.buffers()]
        self.place = device or (tensors[0].device if tensors else "cpu")
        self.model, self.step, self.stack = model, step, stack
        self.bare = bare
        self.head = None if head is None else heads.named("extract", model, head)
        # One hook for all batches: another would recompile a compiled network.
        self.recorded: list[heads.Call] | None = None
        self.layers: Layers | None = None
        if layers:
            self.layers = stack.enter_context(recording_layers(model, layers))

    def __call__(self, batch: Any) -> Made:
        inputs, keywords, labels, ids = _parts(batch, self.place)
        if self.head is None:
            run = partial(self.model, *inputs, **keywords)
            self._clear()
            self.head = heads.found("extract", self.model, run)
        if self.recorded is None:
            self.recorded = self.stack.enter_context(heads.recording(self.head))
        if self.step is not None:
            self._clear()
            inputs, keywords = self.step.moved(self.model, inputs, keywords)
        self._clear()
        self.model(*inputs, **keywords)
        features, logits = heads.only_call("extract", self.head, self.recorded)
        if self.layers is not None:
            features = self.layers.features()
        made = {} if self.bare else {"logits": _numpy(logits)}
        return Made(made | {"features": _numpy(features)}, labels, ids)

    def _clear(self) -> None:
        if self.recorded is not None:
            self.recorded.clear()
        if self.layers is not None:
            self.layers.clear()

    def about(self) -> dict[str, Any]:
        if self.head is None or self.bare or self.layers is not None:
            return {}
        return {"weight": _numpy(self.head.weight()), "bias": _numpy(self.head.bias())}


def _parts(
    batch: Any, place: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Any, Sequence[Any] | None]:
    """Split a batch into the model's arguments, on its device, labels and ids."""

    def moved(value: Any) -> Any:
        is_tensor = isinstance(value, Tensor)
        return value.to(place, non_blocking=True) if is_tensor else value

    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in _LABELS if name in batch), None)
        ids = next((batch[name] for name in _IDS if name in batch), None)
        others = [name for name in batch if name not in {*_LABELS, *_IDS}]
        return (), {name: moved(batch[name]) for name in others}, _plain(labels), ids
    parts = batch if isinstance(batch, tuple | list) else (batch,)
    if not 1 <= len(parts) <= 3:
        rule = "(inputs, labels), (inputs, labels, ids), inputs, or a mapping"
        _check.fail("extract", "a batch", rule, f"{len(parts)} parts")
    inputs, labels, ids = [*parts, None, None][:3]
    return (moved(inputs),), {}, _plain(labels), ids


def _check_loader(loader: Any, *, has_lists: bool) -> None:
    """Raise for loaders that leave samples out, repeat some, or change their order."""
    if not isinstance(loader, DataLoader):
        return
    sampler: Any = loader.sampler
    is_shared = isinstance(sampler, DistributedSampler)
    shuffles = isinstance(sampler, RandomSampler | SubsetRandomSampler)
    shuffles |= is_shared and sampler.shuffle
    why = {
        "drop_last=True, which leaves samples out": loader.drop_last,
        "a sampler that draws with replacement": getattr(sampler, "replacement", False),
        "a DistributedSampler that pads: give every process a torch.utils.data.Subset "
        "of its own": is_shared and sampler.total_size != len(sampler.dataset),
        "one that shuffles, with groups or ids in order: let its batches give them, "
        "(inputs, labels, ids)": has_lists and shuffles,
    }
    for got, is_so in why.items():
        if is_so:
            rule = "one that gives every sample once, in order"
            _check.fail("extract", "loader", rule, got)


def _plain(labels: Any) -> Any:
    return _numpy(labels) if isinstance(labels, Tensor) else labels


def _numpy(tensor: Tensor) -> NDArray[Any]:
    if tensor.dtype == torch.bfloat16:  # NumPy has none; float32 holds all of them
        tensor = tensor.float()
    return tensor.detach().cpu().numpy()
