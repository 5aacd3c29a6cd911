"""Trained classifiers with their preprocessing, from timm, torchvision, Hugging Face.

:func:`load` opens one by name, or from an ONNX file; :meth:`Classifier.apply` turns
images or texts into :class:`openset.Outputs`. From the shell: `openset extract`.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from openset import _check, _extras, _plugins
from openset._types import MissingExtraError
from openset.integrations import _embedding, _zero_shot
from openset.integrations._classifier import CALLER, Classifier
from openset.integrations._embedding import LinearHead
from openset.integrations._hugging_face import Options, of_hugging_face
from openset.integrations._preprocessing import Each, Pixels, blank, listed
from openset.train.networks import last_layer
from openset.train.networks.weight_files import fill, read_weights

with _extras.importing("openset.integrations.networks", "torch"):
    from torch import nn

__all__ = ["Classifier", "LinearHead", "load"]

_RANDOM = "random"


def load(
    source: str | Path | nn.Module,
    *,
    weights: str | Path | None = None,
    classes: Sequence[str] = (),
    prompts: Sequence[str] = (),
    head: str | Path | LinearHead | None = None,
    pooling: str | None = None,
    side: int | None = None,
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
) -> Classifier:
    """Open a trained classifier.

    Parameters
    ----------
    source
        ``"timm:NAME"``, ``"torchvision:NAME"``, ``"hf:NAME"`` (an image or text
        classifier of Hugging Face, a model like CLIP or SigLIP, an embedding model, or
        a folder that `save_pretrained` wrote), an ONNX file, ``"package.module:name"``
        (a module, or a function that makes one), or in Python a module itself.
    weights
        For timm and torchvision: a file of weights by name (``.safetensors``,
        ``.pth``). Default: the published weights, from the cache or downloaded.
        ``"random"``: random weights.
    classes
        Names of the outputs, if the network does not come with them. A model like CLIP
        needs them: it compares images with their texts.
    prompts
        For a model like CLIP: texts with ``{}`` in place of the class, whose embeddings
        are averaged. Default: "a photo of a {}."
    head
        The last layer, or a file of it (see `LinearHead`): for an embedding model,
        which has none, or in place of the network's last layer. An embedding model
        without one gives features and no logits, to fit a last layer on.
    pooling
        For an embedding model: "mean" over the tokens, or "cls", the first one.
        Default: what the folder states (sentence-transformers), else "mean".
    side, mean, std
        For an ONNX file or a module: images are resized to this size, scaled to [0, 1],
        and normalised per channel. Other networks come with their preprocessing.

    Examples
    --------
    >>> import numpy as np
    >>> network = load(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), side=2)
    >>> network.apply(np.zeros((5, 8, 8, 3), np.uint8), progress=False)
    Outputs(n=5, logits=(5, 2) float32, features=(5, 12) float32, head, numpy)
    """
    pixels = Pixels(side, tuple(mean), tuple(std))
    if weights is not None and not str(source).startswith(("timm:", "torchvision:")):
        rule = "left out, except for timm:NAME and torchvision:NAME"
        msg = _check.must(rule, caller=CALLER, name="weights", got=repr(weights))
        raise ValueError(msg)
    if isinstance(source, nn.Module):
        name = type(source).__name__
        about: dict[str, Any] = {"std": pixels.std, "preprocessing": str(pixels)}
        found = Classifier(name, "image", source, pixels, **about)
    elif str(source).endswith(".onnx"):
        # Imported here: onnx is an extra.
        from openset.integrations.onnx._classifier import (  # noqa: PLC0415
            OnnxClassifier,
        )

        model = OnnxClassifier.open(Path(str(source)))
        pixels = replace(pixels, side=side or model.side, dtype=model.dtype)
        found = Classifier(
            str(source), "image", model, pixels, preprocessing=str(pixels)
        )
    else:
        options = Options(weights, tuple(classes), tuple(prompts), head, pooling)
        found = _by_name(str(source), pixels, options)
    if not isinstance(found.model, _embedding.Embedded):
        if pooling is not None:
            rule, got = "left out for a network that is no embedding model", pooling
            msg = _check.must(rule, caller=CALLER, name="pooling", got=repr(got))
            raise ValueError(msg)
        if head is not None:
            found = _with_head(found, head)
    if prompts and not isinstance(found.model, _zero_shot.ZeroShot):
        rule = "left out for a network that is no model of images and texts"
        got = f"{len(prompts)} of them"
        raise ValueError(_check.must(rule, caller=CALLER, name="prompts", got=got))
    names = tuple(classes) or found.classes
    return replace(found, classes=names)


def _with_head(found: Classifier, head: str | Path | LinearHead) -> Classifier:
    """Return the network with another last layer."""
    is_module = isinstance(found.model, nn.Module)
    if not is_module or isinstance(found.model, _zero_shot.ZeroShot):
        rule = "left out for an ONNX file, and for a model of images and texts"
        msg = _check.must(rule, caller=CALLER, name="head", got=repr(head))
        raise ValueError(msg)
    layer = head if isinstance(head, LinearHead) else LinearHead.load(head)
    model = copy.deepcopy(found.model)  # the caller's own stays as it is
    batch = found.prepare(["a" if found.kind == "text" else blank()])
    named = isinstance(batch, Mapping)
    with last_layer.evaluating(model):
        last = last_layer.by_running(
            CALLER, model, lambda: model(**batch) if named else model(batch)
        )
    layer.check_width(last.layer.in_features)
    if last.layer is model:
        model = layer.module()
    else:
        parent, _, name = last.name.rpartition(".")
        setattr(model.get_submodule(parent), name, layer.module())
    return replace(found, model=model.eval(), classes=layer.classes)


def _by_name(source: str, pixels: Pixels, options: Options) -> Classifier:
    kind, _, name = source.partition(":")
    if not name:
        msg = _check.must(
            "timm:NAME, torchvision:NAME, hf:NAME, package.module:name, or an ONNX "
            "file",
            caller=CALLER,
            name="network",
            got=repr(source),
            remedy="A folder of openset train: train.Trained.load(folder).apply",
        )
        raise ValueError(msg)
    if kind == "hf":
        return of_hugging_face(name, options)
    if kind == "timm":
        return _of_timm(name, options.weights)
    if kind == "torchvision":
        return _of_torchvision(name, options.weights)
    made = _plugins.imported(source, caller=CALLER)
    model = made if isinstance(made, nn.Module) else made()
    if not isinstance(model, nn.Module):
        msg = _check.must(
            "an nn.Module, or a function that makes one",
            caller=CALLER,
            name=source,
            got=type(model).__name__,
        )
        raise TypeError(msg)
    about: dict[str, Any] = {"std": pixels.std, "preprocessing": str(pixels)}
    return Classifier(source, "image", model, pixels, **about)


def _of_timm(name: str, weights: str | Path | None) -> Classifier:
    timm = _extras.library(CALLER, "timm")
    with _naming_model("timm", name):
        model = timm.create_model(name, pretrained=weights is None)
    model, note = _filled(model, weights, partial(timm.create_model, name))
    data = _extras.library(CALLER, "timm.data")
    config = data.resolve_model_data_config(model)
    transform = data.create_transform(**config, is_training=False)
    said = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
    about = "RGB, " + listed({key: config[key] for key in said if key in config})
    return Classifier(
        f"timm:{name}",
        "image",
        model,
        Each(transform),
        note=note,
        std=tuple(config["std"]),
        preprocessing=about,
    )


def _of_torchvision(name: str, weights: str | Path | None) -> Classifier:
    models = _extras.library(CALLER, "torchvision").models
    with _naming_model("torchvision", name):
        published = models.get_model_weights(name).DEFAULT
        model = models.get_model(name, weights=published if weights is None else None)
    model, note = _filled(model, weights, partial(models.get_model, name, weights=None))
    names = tuple(published.meta["categories"]) if weights is None else ()
    transform = published.transforms()
    return Classifier(
        f"torchvision:{name}",
        "image",
        model,
        Each(transform),
        names,
        note,
        tuple(transform.std),
        preprocessing="RGB, " + " ".join(str(transform).split()),
    )


def _filled(
    model: nn.Module, weights: str | Path | None, make: Callable[..., nn.Module]
) -> tuple[nn.Module, str]:
    """Return the network with weights from a file, and a note if it has none.

    `make(num_classes=...)` makes it anew where the weights have other classes.
    """
    if weights is None:
        return model, ""
    if weights == _RANDOM:
        return model, "its weights are random: it has learnt nothing"
    state = read_weights(Path(str(weights)), caller=CALLER)
    # By name: files need not keep the order of the layers.
    name, head = last_layer.linears(model)[-1]
    found = state.get(f"{name}.weight")
    if found is not None and len(found) != head.out_features:
        model = make(num_classes=len(found))
    fill(model, state, caller=CALLER, name="weights")
    return model, ""


@contextmanager
def _naming_model(owner: str, name: str) -> Iterator[None]:
    """Say which network could not be made or downloaded."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:  # several libraries, each with classes of its own
        msg = (
            f"{CALLER}: network must be a model of {owner} whose weights are here "
            f"or can be downloaded, got {name!r} ({_extras.first_line(error)}). A file "
            "of weights can be given: weights='FILE'"
        )
        raise ValueError(msg) from error
