"""Outputs of several layers of a network, from one pass over the data."""

from collections.abc import Iterable, Sequence
from typing import Any

from openset import _extras
from openset.detectors.layered import POWERS
from openset.outputs import Invalid, Outputs
from openset.train.inference import _layers
from openset.train.inference._extract import place_of, run
from openset.train.inference._input_step import words_of
from openset.train.inference._loader import SampleNames, check_loader
from openset.train.inference._row_files import RowLists
from openset.train.networks import last_layer

with _extras.importing("openset.train", "torch"):
    import torch  # noqa: F401  # for the examples
    from torch import nn

_CALLER = "extract_layers"


def extract_layers(
    model: nn.Module,
    loader: Iterable[Any],
    layers: Sequence[str],
    *,
    head: str | nn.Module | None = None,
    device: Any = None,
    classes: Iterable[str] = (),
    groups: str | Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    unknown: bool = False,
    step: Any = None,
    summary: _layers.Summary = _layers.mean_over_places,
    invalid: Invalid = "error",
    progress: bool = True,
) -> dict[str, Outputs]:
    """Run a classifier over a loader and keep the features of several layers.

    Parameters
    ----------
    model, loader, head, device, classes, groups, ids, unknown, step, invalid, progress
        As in :func:`openset.train.extract`.
    layers
        Names of layers, as in ``model.named_modules()``.
    summary
        From what a layer returns (channels on axis 1; tokens of a transformer count as
        places) to shape (n, d). Default: the mean of each channel.

    Returns
    -------
    dict[str, Outputs]
        By layer: its features, and the logits and labels, which are the same for all.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    >>> images = [(torch.ones(5, 3, 8, 8), torch.zeros(5, dtype=torch.int64))]
    >>> extract_layers(model, images, ["0", "1"])["0"]
    Outputs(n=5, logits=(5, 2) float32, features=(5, 4) float32, numpy)
    """
    last_layer.check_module(_CALLER, model)
    check_loader(_CALLER, loader)
    names = _layers.check_names(_CALLER, layers)
    _layers.check_layers(_CALLER, model, names)
    samples = SampleNames(loader, groups=groups, ids=ids)
    rows = RowLists()
    recorder = _layers.LayerRecorder(_CALLER, names, summary)
    run(
        model,
        loader,
        rows,
        names=samples,
        head=None if head is None else last_layer.named(_CALLER, model, head),
        place=place_of(model) if device is None else device,
        unknown=unknown,
        step=step,
        layers=recorder,
        progress=progress,
    )
    arrays = rows.arrays()
    shared = {
        "logits": arrays["logits"],
        "labels": arrays.get("labels"),
        "classes": tuple(classes),
        "input_step": words_of(step),
        "invalid": invalid,
        **samples.arrays(len(arrays["logits"])),
    }
    return {
        name: Outputs(features=arrays[_layers.column(name)], **shared) for name in names
    }


def layer_outputs(
    model: nn.Module,
    loader: Iterable[Any],
    layers: Sequence[str],
    *,
    powers: Sequence[int] = POWERS,
    **options: Any,
) -> Outputs:
    """Return one `Outputs` with the features of several layers side by side.

    Parameters
    ----------
    model, loader, **options
        As in :func:`extract_layers`.
    layers
        Names of layers; with ``gram:`` before each, the row sums of Gram matrices are
        taken instead of means.
    powers
        Powers of those Gram matrices.
    """
    names, summary = _layers.named_summary(_CALLER, layers, powers)
    found = extract_layers(model, loader, names, summary=summary, **options)
    return Outputs.of_layers(dict(zip(layers, found.values(), strict=True)))
