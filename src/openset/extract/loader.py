"""`extract`: logits and features of every sample of a loader, from a torch module."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import Any

from openset import _check, _extras
from openset._progress import bar
from openset.extract import head as heads
from openset.extract.gather import gather
from openset.extract.head import as_numpy
from openset.extract.layers import recording_layers
from openset.extract.odin import words_of
from openset.outputs import Invalid, Outputs, WithGaps

with _extras.importing("openset.extract", "torch"):
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
    heads.linears("extract", model)  # raises for what is no module
    has_lists = ids is not None or not isinstance(groups, str | None)
    _check_loader(loader, has_lists=has_lists)
    layer = None if head is None else heads.named("extract", model, head)
    tensors = [one for of in (model.parameters, model.buffers) for one in of()]
    place = device or (tensors[0].device if tensors else "cpu")
    batches = bar(
        loader, "extracting", total=length_hint(loader) or None, show=progress
    )
    with heads.evaluating(model), ExitStack() as stack:
        first = next(batches, None)
        if first is None:
            _check.fail("extract", "loader", "non-empty", "no sample")
        arguments, keywords, _ = _parts(first, place)
        if layer is None:
            layer = heads.found("extract", model, lambda: model(*arguments, **keywords))
        # One hook for all batches: another would recompile a compiled network.
        recorded = stack.enter_context(heads.recording(layer))
        inner = stack.enter_context(recording_layers(model, layers))

        def forward(batch: Any) -> dict[str, Any]:
            arguments, keywords, about = _parts(batch, place)
            if step is not None:
                inner.clear()
                arguments, keywords = step.moved(model, arguments, keywords)
            recorded.clear()
            inner.clear()
            model(*arguments, **keywords)
            features, logits = heads.only_call("extract", layer, recorded)
            features = inner.features(layers) if layers else features
            made = {} if features_only else {"logits": as_numpy(logits)}
            made["features"] = as_numpy(features)
            return (batch.filled(made) if isinstance(batch, WithGaps) else made) | about

        return gather(
            map(forward, chain([first], batches)),
            out=out,
            groups=groups,
            ids=ids,
            unknown=unknown,
            invalid=invalid,
            classes=tuple(classes),
            input_step=words_of(step),
            **({} if features_only or layers else layer.arrays()),
        )


def _parts(batch: Any, place: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Split a batch into the model's arguments, on its device, and labels and ids."""

    def moved(value: Any) -> Any:
        is_tensor = isinstance(value, Tensor)
        return value.to(place, non_blocking=True) if is_tensor else value

    batch = batch.batch if isinstance(batch, WithGaps) else batch
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in _LABELS if name in batch), None)
        ids = next((batch[name] for name in _IDS if name in batch), None)
        others = [name for name in batch if name not in {*_LABELS, *_IDS}]
        keywords = {name: moved(batch[name]) for name in others}
    else:
        parts = [*batch] if isinstance(batch, tuple | list) else [batch]
        inputs, labels, ids = parts + [None] * (3 - len(parts))
        arguments = (moved(inputs),)
    labels = as_numpy(labels) if isinstance(labels, Tensor) else labels
    return arguments, keywords, {"labels": labels, "ids": ids}


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
        "a DistributedSampler that pads; a torch.utils.data.Subset does not": is_shared
        and sampler.total_size != len(sampler.dataset),
        "one that shuffles, with groups or ids in order": has_lists and shuffles,
    }
    for got in (got for got, is_so in why.items() if is_so):
        rule = "one that gives every sample once, in order"
        _check.fail("extract", "loader", rule, got)
