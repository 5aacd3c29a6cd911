"""Outputs of a network: logits and features of every sample of a loader."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras, _io
from openset._progress import bar
from openset._types import UNKNOWN
from openset.outputs import Invalid, Outputs, WithGaps, put_folder
from openset.train.inference._batches import (
    CALLER,
    check_keywords,
    labels_of,
    n_batches,
    n_samples,
    parts_of,
)
from openset.train.inference._input_step import Odin, words_of
from openset.train.inference._layers import LayerRecorder, SideBySide, check_layers
from openset.train.inference._loader import SampleNames, check_loader
from openset.train.inference._row_files import RowFiles, RowLists
from openset.train.jobs import _fingerprint
from openset.train.networks import last_layer
from openset.train.networks.last_layer import Head

with _extras.importing("openset.train", "torch"):
    import torch
    from torch import Tensor, nn

_ONE_LOGIT = (
    ". If one output z stands for two classes, give "
    "Outputs(logits=numpy.stack([-z, z], axis=1) / 2, ...)"
)


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
    step: Odin | None = None,
    layers: Sequence[str] = (),
    resume: bool = False,
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
        model's output, found with the first batch. A warning is given
        for a model that changes the output of the named layer (other than by a
        softmax).
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
        ``Odin(temperature=1000, epsilon=0.0014)``. This takes a backward pass and a
        second forward pass.
    layers
        Names of layers, as in ``model.named_modules()``: the features are theirs, side
        by side, instead of those of the last layer, whose weights are left out. With
        ``gram:`` before each name they are row sums of Gram matrices, else means of
        channels. See :func:`extract_layers` for other summaries.
    resume
        Keep an interrupted run (as ``.NAME.partial`` beside `out`) and continue after
        its last complete batch next time. The loader must give the same samples in the
        same order; weights, first batch and labels are compared.
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
    >>> outputs = extract(model, batches)
    >>> outputs
    Outputs(n=5, logits=(5, 2) float32, features=(5, 3) float32, head, numpy)
    """
    last_layer.check_module(CALLER, model)
    check_loader(CALLER, loader)
    _check.one_of(CALLER, "invalid", invalid, get_args(Invalid))
    about = {"classes": tuple(classes), "input_step": words_of(step)}
    given = None if head is None else last_layer.named(CALLER, model, head)
    place = place_of(model) if device is None else device
    recorder = SideBySide(CALLER, layers) if layers else None
    if recorder is not None:
        check_layers(CALLER, model, recorder.layers)
    names_of = SampleNames(loader, groups=groups, ids=ids)
    once = partial(
        run,
        model,
        loader,
        names=names_of,
        head=given,
        place=place,
        unknown=unknown,
        step=step,
        layers=recorder,
        progress=progress,
    )
    if out is None:
        if resume:
            rule = "a folder to keep an interrupted run in (resume=True)"
            msg = _check.must(rule, caller=CALLER, name="out", got=None)
            raise ValueError(msg)
        return _in_memory(once, names_of, recorder, about | {"invalid": invalid})
    path = Path(out)
    if path.suffix:
        got = repr(str(out))
        msg = _check.must("the name of a folder", caller=CALLER, name="out", got=got)
        raise ValueError(msg)
    provenance: dict[str, Any] = {}
    if resume:
        provenance = {"weights": _fingerprint.of_weights(model), "step": repr(step)}
        provenance["layers"] = list(layers)
    with _folder(path, resume=resume) as folder:
        files = RowFiles.reopen(folder) or RowFiles(folder, provenance)
        if resume:
            _same_run(folder, files.provenance, provenance)
        found = once(files)
        files.close()
        arrays = names_of.arrays(files.rows)
        arrays |= _layer(found) if recorder is None else {}
        meta = {
            "kind": "openset.Outputs",
            "schema": 1,
            "classes": about["classes"],
            "head": found.name,
            "layers": files.provenance.get("widths", ()),
            "input_step": about["input_step"],
        }
        _complete(folder, arrays, meta)
        files.forget()
    return Outputs.load(path, invalid=invalid)


def _in_memory(
    once: Callable[[RowLists], Head],
    names: SampleNames,
    recorder: SideBySide | None,
    about: dict[str, Any],
) -> Outputs:
    rows = RowLists()
    found = once(rows)
    arrays = rows.arrays()
    about = about | names.arrays(len(arrays["logits"]))
    about |= _layer(found) if recorder is None else {"layers": recorder.pairs()}
    return Outputs(**arrays, **about)


def _same_run(folder: Path, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue a run of another network, or with other options."""
    if was.get("weights") != now["weights"]:
        msg = (
            f"extract: model must be the one the interrupted run {folder} was made "
            f"with, got other weights. Delete that folder to start again"
        )
        raise ValueError(msg)
    for name in ("step", "layers"):
        before = was.get(name, now[name])
        if before != now[name]:
            msg = _check.must(
                f"as in the interrupted run, {before}",
                caller=CALLER,
                name=name,
                got=now[name],
                remedy=f"Delete {folder} to start again",
            )
            raise ValueError(msg)


def _complete(
    folder: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Write what the rows lack to be outputs; raise if they cannot be read."""
    for name, array in arrays.items():
        save = partial(np.save, arr=array, allow_pickle=False)
        _io.write(folder / f"{name}.npy", save)
    _io.put(folder / "meta.json", json.dumps(meta))
    Outputs.load(folder)


def run(
    model: nn.Module,
    loader: Iterable[Any],
    rows: RowLists | RowFiles,
    *,
    names: SampleNames,
    head: Head | None,
    place: Any,
    unknown: bool,
    progress: bool,
    step: Any = None,
    layers: LayerRecorder | None = None,
) -> Head:
    """Send every batch through the model, into `rows`; return the last layer.

    Parameters
    ----------
    step
        Changes the inputs first: `Odin`, or any object with the same method `moved`.
    layers
        Records other layers, as columns beside logits and features.
    """
    batches = bar(loader, "extracting", total=n_batches(loader), show=progress)
    seen = done = 0
    is_named = head is not None
    forward: Callable[..., dict[str, NDArray[Any]]] | None = None
    with last_layer.evaluating(model), ExitStack() as stack:
        for number, given in enumerate(batches):
            gaps = given if isinstance(given, WithGaps) else None
            batch = given if gaps is None else gaps.batch
            arguments, keywords, labels, ids = parts_of(batch, place)
            names.add(ids)
            if keywords:
                check_keywords(model, keywords)
            if head is None:
                call = partial(model, *arguments, **keywords)
                head = last_layer.by_running(CALLER, model, call)
            if number == 0 and not unknown:  # before the whole pass, where possible
                _check_range(labels_of(loader), head)
            if unknown:
                n = gaps.is_read.size if gaps else n_samples(arguments, keywords)
                labels = torch.full((n,), UNKNOWN)
            if isinstance(rows, RowFiles):
                if number == 0:
                    _same_start(rows, arguments, keywords)
                if number < rows.batches:
                    done = _same_labels(rows, done, labels)
                    seen += 1
                    continue
            if forward is None:  # one hook for all: another would recompile a network
                watched = _forward(model, head, step, layers, is_named=is_named)
                forward = stack.enter_context(watched)
            arrays = forward(arguments, keywords)
            arrays = arrays if gaps is None else gaps.filled(arrays)
            if labels is not None:
                arrays["labels"] = _label_array(labels, len(arrays["logits"]))
                _check_range(arrays["labels"], head)
            if isinstance(rows, RowFiles) and isinstance(layers, SideBySide):
                rows.provenance["widths"] = layers.pairs()
            rows.append(arrays)
            seen += 1
    if seen == 0 or head is None:
        msg = _check.must("non-empty", caller=CALLER, name="loader", got="no batch")
        raise ValueError(msg)
    return head


@contextmanager
def _forward(
    model: nn.Module,
    head: Head,
    step: Any,
    layers: LayerRecorder | None,
    *,
    is_named: bool,
) -> Iterator[Callable[..., dict[str, NDArray[Any]]]]:
    """Give a function from the model's arguments to logits, features and layers."""
    with ExitStack() as stack:
        recorded = stack.enter_context(last_layer.recording(head))
        if layers:
            stack.enter_context(layers.recording(model))
        is_compared = not is_named

        def forward(
            arguments: tuple[Any, ...], keywords: dict[str, Any]
        ) -> dict[str, NDArray[Any]]:
            if step is not None:
                arguments, keywords = step.moved(model, arguments, keywords)
            recorded.clear()
            if layers:
                layers.clear()
            output = model(*arguments, **keywords)
            features, logits = last_layer.check_recorded(CALLER, head, recorded)
            nonlocal is_compared
            if not is_compared:
                last_layer.warn_of_changed_logits(CALLER, head, output, logits)
                is_compared = True
            found = {"logits": logits, "features": features}
            found |= layers.found() if layers else {}
            return {name: _numpy(one) for name, one in found.items()}

        yield forward


def _check_range(labels: NDArray[np.int64] | None, head: Head) -> None:
    n_classes = head.layer.out_features
    if labels is not None and labels.size and labels.max() >= n_classes:
        msg = _check.must(
            f"-1 or 0..{n_classes - 1}, as the model has {n_classes} outputs",
            caller=CALLER,
            name="labels",
            got=int(labels.max()),
            remedy="For samples of none of its classes use unknown=True. Otherwise "
            "number the labels in the order of its outputs"
            + (_ONE_LOGIT if n_classes == 1 else ""),
        )
        raise ValueError(msg)


def _numpy(tensor: Tensor) -> NDArray[Any]:
    if tensor.dtype == torch.bfloat16:  # NumPy has none; float32 holds all of them
        tensor = tensor.float()
    return tensor.detach().cpu().numpy()


def _label_array(labels: Any, n: int) -> NDArray[np.int64]:
    values = _numpy(labels) if isinstance(labels, Tensor) else np.asarray(labels)
    values = _check.labels(CALLER, "labels", values, lowest=-1)
    _check.same_length(CALLER, {"inputs": n, "labels": values.size})
    return values


def _layer(head: Head) -> dict[str, NDArray[Any]]:
    return {"weight": _numpy(head.weight()), "bias": _numpy(head.bias())}


def place_of(model: nn.Module) -> torch.device:
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


@contextmanager
def _folder(path: Path, *, resume: bool) -> Iterator[Path]:
    """Give a folder to write in; it is renamed to `path` when it is complete."""
    if not resume:
        with _io.replacing_folder(path, put=put_folder) as temporary:
            yield temporary
        return
    unfinished = path.parent / f".{path.name}.partial"
    unfinished.mkdir(parents=True, exist_ok=True)
    yield unfinished
    with _io.writing(path):
        put_folder(unfinished, path)


def _same_start(
    files: RowFiles, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Compare the first inputs with those of the interrupted run, or keep them."""
    digest = hashlib.sha256()
    for value in (*arguments, *keywords.values()):
        if isinstance(value, Tensor):
            digest.update(_fingerprint.bytes_of(value))
    if files.batches and files.provenance.get("inputs") != digest.hexdigest():
        msg = (
            "extract: loader must begin as in the interrupted run, got other inputs. "
            "Turn off shuffling and random augmentation, or start with resume=False"
        )
        raise ValueError(msg)
    files.provenance["inputs"] = digest.hexdigest()


def _same_labels(files: RowFiles, done: int, labels: Any) -> int:
    """Compare the labels of a batch that is written; return the rows seen so far."""
    if labels is None or not files.has("labels"):
        return done
    found = _label_array(labels, len(labels))
    rows = slice(done, done + found.size)
    if rows.stop > files.rows or not np.array_equal(
        files.stored("labels", rows), found
    ):
        msg = (
            f"extract: loader must give samples in the order of the interrupted run, "
            f"got other labels in rows {rows.start} to {rows.stop - 1}. Turn off "
            f"shuffling, or start with resume=False"
        )
        raise ValueError(msg)
    return rows.stop
