"""`extract`: logits and features of every sample of a loader, from a torch module."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import Any

from openset import _check
from openset._optional import needs
from openset._xp import to_numpy
from openset.extract import head as heads
from openset.extract.gather import Arrays, gather, parts_of
from openset.extract.layers import recording_layers
from openset.extract.odin import words_of
from openset.outputs import Invalid, Outputs

with needs("torch"):
    from torch import Tensor, nn
    from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler
    from torch.utils.data.distributed import DistributedSampler


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
    _check_loader(loader, [ids, *([] if isinstance(groups, str) else [groups])])
    layer = None if head is None else heads.named("extract", model, head)
    tensors = [one for of in (model.parameters, model.buffers) for one in of()]
    place = device or (tensors[0].device if tensors else "cpu")

    def placed(inputs: Any, named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = dict(enumerate(inputs)) | named
        moved = {
            k: one.to(place, non_blocking=True) if isinstance(one, Tensor) else one
            for k, one in given.items()
        }
        return tuple(moved.pop(i) for i in range(len(inputs))), moved

    batches = iter(loader)
    first = next(batches, None)
    if first is None:
        _check.fail("extract", "loader", "non-empty", "no sample")
    with heads.evaluating(model), ExitStack() as stack:
        if layer is None:
            inputs, named, *_ = parts_of(first)
            inputs, named = placed(inputs, named)
            layer = heads.found("extract", model, lambda: model(*inputs, **named))
        # One hook for all batches: another would recompile a compiled network.
        recorded = stack.enter_context(heads.recording(layer))
        inner = stack.enter_context(recording_layers(model, layers))

        def forward(*inputs: Any, **named: Any) -> Arrays:
            inputs, named = placed(inputs, named)
            if step is not None:
                inputs, named = step.moved(model, inputs, named)
            recorded.clear()
            inner.clear()
            model(*inputs, **named)
            features, logits = heads.only_call("extract", layer, recorded)
            features = inner.features(layers) if layers else features
            made = {"features": to_numpy(features)}
            return made if features_only else {"logits": to_numpy(logits)} | made

        return gather(
            forward,
            chain([first], batches),
            total=length_hint(loader) or None,
            out=out,
            groups=groups,
            ids=ids,
            unknown=unknown,
            invalid=invalid,
            progress=progress,
            classes=tuple(classes),
            input_step=words_of(step),
            **({} if features_only or layers else layer.arrays()),
        )


def _check_loader(loader: Any, lists: Sequence[Any]) -> None:
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
        "one that shuffles, with groups or ids in order": shuffles
        and any(one is not None for one in lists),
    }
    for got in (got for got, is_so in why.items() if is_so):
        rule = "one that gives every sample once, in order"
        _check.fail("extract", "loader", rule, got)
