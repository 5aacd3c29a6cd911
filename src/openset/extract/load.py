"""Open a trained network of any kind, by name or file."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from openset import _check
from openset.extract.linear_head import LinearHead
from openset.extract.network import Network

_CALLER = "extract.load"
# What can be opened: how it is named, module and function. Each has packages of its
# own, which are imported when it is used.
_KINDS = {
    "run": ("a folder of openset train", "train.trained", "of_run"),
    "onnx": ("an ONNX file", "extract.onnx_file", "of_onnx"),
    "timm": ("timm:NAME", "extract.modules", "of_timm"),
    "hf": ("hf:NAME or hf:FOLDER of Hugging Face", "extract.hugging_face", "of_model"),
    "module": ("package.module:name, a torch module", "extract.modules", "of_module"),
}


def load(
    source: Any,
    *,
    classes: Sequence[str] = (),
    head: str | Path | LinearHead | None = None,
    **options: Any,
) -> Network:
    """Open a trained network.

    Parameters
    ----------
    source
        A folder of ``openset train``, an ONNX file, ``"timm:NAME"``, ``"hf:NAME"`` (an
        image or text classifier of Hugging Face, a model like CLIP or SigLIP, an
        embedding model, or a folder that `save_pretrained` wrote),
        ``"package.module:name"`` (a module, or a function that makes one; so open
        models of torchvision), or a module itself.
    classes
        Names of the outputs, if the network does not come with them. A model like CLIP
        needs them: it compares images with their texts.
    head
        The last layer, or a file of it (see :class:`LinearHead`): for an embedding
        model, which has none, or in place of the network's last layer. An embedding
        model without one gives features and no logits, to fit a last layer on.
    **options
        For timm, `weights`: a file of weights by name (``.safetensors``, ``.pth``), in
        place of the published weights (from the cache or downloaded).

        For an ONNX file or a module, `side`, `mean`, `std`: images are resized to this
        size, scaled to [0, 1], and normalised per channel. Other networks come with
        their preparation.

        For a model like CLIP, `prompts`: texts with ``{}`` in place of the class, whose
        embeddings are averaged. Default: "a photo of a {}."

        For an embedding model, `pooling`: "mean" over the tokens, or "cls", the first
        one. Default: what the folder states (sentence-transformers), else "mean".

        For a folder of ``openset train``, `plugins`: training methods to import.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> network = load(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), side=2)
    >>> network.apply(np.zeros((5, 8, 8, 3), np.uint8), progress=False)
    Outputs(n=5, logits=(5, 2) float32, features=(5, 12) float32, head, numpy)
    >>> network.head
    LinearHead(12 features to 2 classes)
    """
    key = _kind(source)
    named, module, function = _KINDS[key]
    opened = getattr(import_module(f"openset.{module}"), function)
    given = {name: one for name, one in options.items() if one not in (None, (), [])}
    takes = signature(opened).parameters
    if classes and key in {"hf", "run"}:  # names that others need not know
        given["classes"] = classes
    for name in given.keys() - takes:
        _check.fail(_CALLER, name, f"left out for {named}", f"it for {source}")
    if not isinstance(head, LinearHead | None):
        head = LinearHead.load(head)
    name = str(source).partition(":")[2] if key in {"timm", "hf"} else source
    found: Network = opened(name, **given)
    if head is not None:
        found = found.with_head(head)
    return replace(found, classes=tuple(classes) or found.classes)


def _kind(source: Any) -> str:
    """Return what kind of network this names."""
    if hasattr(source, "named_modules"):
        return "module"
    path = Path(str(source))
    prefix, _, name = str(source).partition(":")
    if (path / "trained.json").exists():
        return "run"
    if path.suffix == ".onnx":
        return "onnx"
    if not name or path.exists():
        what = "" if path.exists() else ", which does not exist"
        what = ", a folder without trained.json" if path.is_dir() else what
        rule = ", ".join(one for one, *_ in _KINDS.values())
        _check.fail(_CALLER, "network", rule, f"{str(source)!r}{what}")
    return prefix if prefix in {"timm", "hf"} else "module"
