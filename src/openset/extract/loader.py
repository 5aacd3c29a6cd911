"""`extract`: logits and features of every sample of a loader, from a torch module."""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import Any

from openset import _check
from openset._optional import needs
from openset._xp import to_numpy
from openset.extract import head as heads
from openset.extract.loop import Arrays, gather, parts_of
from openset.outputs import Outputs

with needs("torch"):
    from torch import Tensor, nn
    from torch.utils.data import SequentialSampler


def extract(
    model: nn.Module,
    loader: Iterable[Any],
    head: str | nn.Module | None = None,
    out: str | Path | None = None,
    *,
    device: Any = None,
    step: Any = None,
    layers: Sequence[str] = (),
    features_only: bool = False,
    **about: Any,
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
    **about
        `classes`: names of the classes. `groups`: where each sample comes from, in the
        order of the loader; one name for all. `ids`: names of the samples, in the order
        of the loader. Lists of groups or ids need a loader that does not shuffle.
        ``unknown=True``: all samples are of no known class, and labelled -1, whatever
        labels the loader has. `invalid`: what to do with samples of which the network
        makes NaN, see :class:`openset.Outputs`; ``"keep"`` keeps them. `progress`:
        whether to show a progress bar, if standard error is a terminal (default: True).

    Returns
    -------
    Outputs
        NumPy arrays, in the order of the loader.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> batches = [(torch.ones(5, 4), torch.zeros(5, dtype=torch.int64))]
    >>> extract(model, batches)
    Outputs(n=5, logits=(5, 2) float32, features=(5, 3) float32, head, numpy)
    """
    heads.linears("extract", model)  # raises for what is no module
    sampler: Any = getattr(loader, "sampler", None)
    has_lists = any(not isinstance(about.get(n), str | None) for n in ("groups", "ids"))
    is_in_order = isinstance(sampler, SequentialSampler | None) or not has_lists
    drop_last = getattr(loader, "drop_last", False)
    if not is_in_order or drop_last or getattr(sampler, "replacement", False):
        rule = "one that gives every sample once, in the order of groups and ids"
        got = f"one with {drop_last=} and a {type(sampler).__name__}"
        _check.fail("extract", "loader", rule, got)
    tensors = chain(model.parameters(), model.buffers())
    place = device or next((one.device for one in tensors), "cpu")
    batches = iter(loader)
    first = next(batches, None)
    if first is None:
        _check.fail("extract", "loader", "non-empty", "no sample")

    def moved(value: Any) -> Any:
        is_tensor = isinstance(value, Tensor)
        return value.to(place, non_blocking=True) if is_tensor else value

    def run(inputs: Any, named: Any, step: Any = None) -> Any:
        inputs = tuple(map(moved, inputs))
        named = {key: moved(value) for key, value in named.items()}
        if step is not None:
            inputs, named = step.moved(model, inputs, named)
            calls.clear()
        return model(*inputs, **named)

    layer: Any = head
    if head is None:
        layer = heads.found("extract", model, lambda: run(*parts_of(first)[:2]))
    elif isinstance(head, str | nn.Module):
        layer = heads.named("extract", model, head)
    inner = heads.inner_layers(model, layers)
    # One hook for all batches: another would recompile a compiled network.
    recorded = heads.recording({"": layer.layer} | inner)
    with heads.evaluating(model), recorded as calls:

        def forward(*inputs: Any, **named: Any) -> Arrays:
            calls.clear()
            run(inputs, named, step)
            features, made = heads.only_call("extract", layer.name, calls.get("", []))
            features = heads.inner_features(layers, calls) if layers else features
            found = {"features": to_numpy(features)}
            logits = heads.logits_of("extract", made)
            return found if features_only else {"logits": to_numpy(logits)} | found

        weights = None if features_only or layers else layer.arrays()
        about |= {"total": length_hint(loader), "head": weights, "step": step}
        return gather(forward, chain([first], batches), out=out, **about)
