"""Open a trained network of any kind, by name or file."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from openset import _check
from openset.extract.linear_head import LinearHead
from openset.extract.network import Network

# The function that opens what is named so. Each has packages of its own, which are
# imported when it is used.
_OPENERS = {
    "run": ("train.trained", "of_run"),
    "onnx": ("extract.onnx_file", "of_onnx"),
    "timm": ("extract.modules", "of_timm"),
    "hf": ("extract.hugging_face", "of_model"),
    "module": ("extract.modules", "of_module"),
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
        model without one gives features and no logits, to fit a last layer on; they are
        pooled as the folder states (sentence-transformers), else the mean over tokens.
    **options
        For timm, `weights`: a file of weights by name (``.safetensors``, ``.pth``), in
        place of the published weights (from the cache or downloaded).

        For an ONNX file or a module, `side`, `mean`, `std`: images are resized to this
        size, scaled to [0, 1], and normalised, per channel or by one number for all.
        Other networks come with their preparation.

        For a model like CLIP, `prompts`: texts with ``{}`` in place of the class, whose
        embeddings are averaged. Default: "a photo of a {}."

        For a folder of ``openset train``, `plugins`: training methods to import.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> network = load(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), side=2)
    >>> network.apply(np.zeros((5, 8, 8, 3), np.uint8), progress=False)
    Outputs(n=5, logits=(5, 2) float32, features=(5, 12) float32, head, numpy)
    """
    kind = _kind(source)
    module, function = _OPENERS[kind]
    given = {name: one for name, one in options.items() if one not in (None, (), [])}
    if kind == "hf":  # a model like CLIP makes its last layer of them
        given["classes"] = classes
    name = str(source).partition(":")[2] if kind in {"timm", "hf"} else source
    opened = getattr(import_module(f"openset.{module}"), function)
    found: Network = opened(name, **given)
    if head is not None:
        head = head if isinstance(head, LinearHead) else LinearHead.load(head)
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
        rule = (
            "a folder of openset train, an ONNX file, timm:NAME, hf:NAME or hf:FOLDER "
            "of Hugging Face, package.module:name, a torch module"
        )
        _check.fail("extract.load", "network", rule, f"{str(source)!r}{what}")
    return prefix if prefix in {"timm", "hf"} else "module"
