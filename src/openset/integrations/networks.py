"""Trained classifiers with their preprocessing, from timm, torchvision, Hugging Face.

:func:`load` opens one by name, or from an ONNX file; :meth:`Classifier.apply` turns
images or texts into :class:`openset.Outputs`. From the shell: `openset extract`.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from openset import _check, _io, _plugins
from openset._types import UNKNOWN, MissingExtraError
from openset.detectors import MCM
from openset.integrations import _embedding, _zero_shot
from openset.integrations._embedding import LinearHead
from openset.outputs import Outputs
from openset.train import Odin, extract
from openset.train.networks import last_layer
from openset.train.networks.weight_files import fill, read_weights

with _io.importing("openset.integrations.networks", "torch"):
    import torch
    from torch import nn

__all__ = ["Classifier", "LinearHead", "load"]

_CALLER = "networks.load"
_RANDOM = "random"
Kind = Literal["image", "text"]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network, how it wants its inputs, and the names of its classes.

    Attributes
    ----------
    name
        What it was loaded by.
    kind
        ``"image"`` or ``"text"``.
    model
        From a prepared batch to logits.
    prepare
        From a list of images (PIL) or texts to a batch of the model.
    classes
        Names of the outputs; empty if they are not known.
    note
        What the user should know, in a sentence; else empty.
    std
        Of images: what pixels in [0, 1] are divided by, per channel, if it is known.
    embeds
        Its outputs have features and no logits, to fit a last layer on
        (`LinearHead.fit`): an embedding model without one, or `without_head`.
    preprocessing
        What `prepare` does to images, in a sentence; else empty.
    """

    name: str
    kind: Kind
    model: Any
    prepare: Callable[[list[Any]], Any]
    classes: tuple[str, ...] = ()
    note: str = ""
    std: tuple[float, ...] | None = None
    embeds: bool = False
    preprocessing: str = ""

    def without_head(self) -> "Classifier":
        """Return the network as one that gives features only, for `LinearHead.fit`."""
        return replace(self, embeds=True, classes=())

    def traced(self) -> tuple[nn.Module, torch.Tensor]:
        """Return a module from prepared images to logits, and an example: for ONNX."""
        if self.kind != "image" or not isinstance(self.model, nn.Module):
            msg = _check.must(
                "one for images, in PyTorch",
                caller=_CALLER,
                name="network",
                got=self.name,
                remedy="Export the rejector alone, and give it the network's outputs",
            )
            raise ValueError(msg)
        batch = self.prepare([_blank(), _blank()])
        if not isinstance(batch, Mapping):
            return self.model, batch
        (name, example), *_ = batch.items()
        return _Logits(self.model, name), example

    def apply(
        self,
        inputs: Sequence[Any],
        *,
        labels: ArrayLike | None = None,
        groups: Any = None,
        ids: Any = None,
        unknown: bool = False,
        out: str | Path | None = None,
        step: Odin | None = None,
        layers: Sequence[str] = (),
        batch_size: int | None = None,
        device: Any = None,
        progress: bool = True,
    ) -> Outputs:
        """Return the outputs of images or texts.

        Parameters
        ----------
        inputs
            Images (arrays (h, w, 3) or (h, w) of bytes, or PIL images), or strings.
        labels, groups, ids, unknown, out
            As in :func:`openset.train.extract`.
        step
            As there. Its `epsilon` is meant for pixels in [0, 1], unless it has a
            `std` of its own.
        layers
            Names of layers, as in ``model.named_modules()``: the features are theirs,
            side by side, instead of those of the last layer. With ``gram:`` before each
            name they are row sums of Gram matrices, else means of channels.
        batch_size
            Samples per pass. Default: 8 on a CPU, where larger batches leave the caches
            and are slower, else 64.
        device
            Device to run on. Default: CUDA if there is one.
        progress
            Show a progress bar, if there is a terminal to show it in.
        """
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if batch_size is None:
            batch_size = 8 if str(place) == "cpu" else 64
        _check.positive_int("Classifier.apply", "batch_size", batch_size)
        if len(inputs) == 0:
            rule, got = "at least one sample", "none"
            raise ValueError(
                _check.must(rule, caller="Classifier.apply", name="inputs", got=got)
            )
        batches = _Batches(self, inputs, labels, batch_size)
        about: dict[str, Any] = {"groups": groups, "ids": ids, "unknown": unknown}
        about["out"] = out
        if step is not None and step.std is None and self.std is not None:
            step = replace(step, std=self.std)
        if layers and self.embeds:
            rule, got = "left out for a network without a head", ", ".join(layers)
            msg = _check.must(rule, caller="Classifier.apply", name="layers", got=got)
            raise ValueError(msg)
        if not isinstance(self.model, nn.Module):  # an ONNX file
            for name, given in (("step", step), ("layers", layers or None)):
                if given is not None:
                    msg = _check.must(
                        "left out for an ONNX file, which gives its outputs only",
                        caller="Classifier.apply",
                        name=name,
                        got=repr(given),
                        remedy="Load the network in PyTorch",
                    )
                    raise ValueError(msg)
            return self.model.outputs(
                batches, classes=self.classes, progress=progress, **about
            )
        if self.embeds:
            return self._embedded(labels, batches, place, progress, **about)
        options: dict[str, Any] = {
            "device": place,
            "classes": self.classes,
            "step": step,
            "progress": progress,
        }
        model = self.model.to(place)
        return extract(model, batches, layers=layers, **options, **about)

    def _embedded(
        self,
        labels: ArrayLike | None,
        batches: "_Batches",
        place: Any,
        progress: bool,  # noqa: FBT001  # handed on
        *,
        unknown: bool,
        out: str | Path | None,
        **about: Any,
    ) -> Outputs:
        """Return features and labels of an embedding model without a last layer."""
        if out is not None:
            rule = "left out for an embedding model without a head"
            msg = _check.must(rule, caller="Classifier.apply", name="out", got=out)
            raise ValueError(msg)
        found = extract(
            self.model.to(place),
            replace(batches, labels=None),
            device=place,
            progress=progress,
            **about,
        )
        if unknown:
            labels = np.full(len(found), UNKNOWN)
        return _embedding.with_labels(found, labels)


class _Logits(nn.Module):
    """A network of Hugging Face, from one tensor to logits."""

    def __init__(self, model: nn.Module, argument: str) -> None:
        super().__init__()
        self.model, self.argument = model, argument

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made = self.model(**{self.argument: inputs})
        return last_layer.logits_of(_CALLER, made)


@dataclass(frozen=True, eq=False)
class _Batches:
    """Prepared batches with labels, in order."""

    network: Classifier
    inputs: Sequence[Any]
    labels: ArrayLike | None
    size: int

    def __len__(self) -> int:
        return math.ceil(len(self.inputs) / self.size)

    def __iter__(self) -> Iterator[Any]:
        labels = None if self.labels is None else np.asarray(self.labels)
        for start in range(0, len(self.inputs), self.size):
            rows = range(start, min(start + self.size, len(self.inputs)))
            samples = [self.inputs[row] for row in rows]
            # A model of images and texts takes both.
            if self.network.kind == "image" and not isinstance(samples[0], str):
                samples = [_image(one) for one in samples]
            batch = self.network.prepare(samples)
            mine = None if labels is None else labels[rows.start : rows.stop]
            if isinstance(batch, Mapping):
                yield dict(batch) | ({} if mine is None else {"labels": mine})
            else:
                yield (batch,) if mine is None else (batch, mine)


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
        Of timm and torchvision: a file (``.safetensors``, ``.pth``) of weights by name.
        Left out: the published ones, from the cache or downloaded. ``"random"``: none.
    classes
        Names of the outputs, if the network does not bring them. A model like CLIP
        needs them: it compares images with their texts.
    prompts
        For a model like CLIP: texts with ``{}`` in place of the class, whose embeddings
        are averaged. Default: "a photo of a {}."
    head
        The last layer, or a file of it (see `LinearHead`): of an embedding model, or in
        place of the one a network has. An embedding model without it gives features
        and no logits, to fit one on.
    pooling
        For an embedding model: "mean" over the tokens, or "cls", the first one.
        Default: what the folder states (sentence-transformers), else "mean".
    side, mean, std
        Of an ONNX file or a module: images are brought to this size, scaled to [0, 1],
        and normalised per channel. Others bring their own preprocessing.

    Examples
    --------
    >>> network = load(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), side=2)
    >>> network.apply(np.zeros((5, 8, 8, 3), np.uint8), progress=False)
    Outputs(n=5, logits=(5, 2) float32, features=(5, 12) float32, head, numpy)
    """
    pixels = _Pixels(side, tuple(mean), tuple(std))
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
        options = _Options(weights, tuple(classes), tuple(prompts), head, pooling)
        found = _by_name(str(source), pixels, options)
    if not isinstance(found.model, _embedding.Embedded):
        if pooling is not None:
            rule, got = "left out for a network that is no embedding model", pooling
            msg = _check.must(rule, caller=_CALLER, name="pooling", got=repr(got))
            raise ValueError(msg)
        if head is not None:
            found = _with_head(found, head)
    if prompts and not isinstance(found.model, _zero_shot.ZeroShot):
        rule = "left out for a network that is no model of images and texts"
        got = f"{len(prompts)} of them"
        raise ValueError(_check.must(rule, caller=_CALLER, name="prompts", got=got))
    names = tuple(classes) or found.classes
    return replace(found, classes=names)


def _with_head(found: Classifier, head: str | Path | LinearHead) -> Classifier:
    """Return the network with another last layer."""
    is_module = isinstance(found.model, nn.Module)
    if not is_module or isinstance(found.model, _zero_shot.ZeroShot):
        rule = "left out for an ONNX file, and for a model of images and texts"
        msg = _check.must(rule, caller=_CALLER, name="head", got=repr(head))
        raise ValueError(msg)
    layer = head if isinstance(head, LinearHead) else LinearHead.load(head)
    model = copy.deepcopy(found.model)  # the caller's own stays as it is
    batch = found.prepare(["a" if found.kind == "text" else _blank()])
    named = isinstance(batch, Mapping)
    with last_layer.evaluating(model):
        last = last_layer.by_running(
            _CALLER, model, lambda: model(**batch) if named else model(batch)
        )
    layer.check_width(last.layer.in_features)
    if last.layer is model:
        model = layer.module()
    else:
        parent, _, name = last.name.rpartition(".")
        setattr(model.get_submodule(parent), name, layer.module())
    return replace(found, model=model.eval(), classes=layer.classes)


@dataclass(frozen=True, eq=False)
class _Options:
    """What :func:`load` was given beside the source."""

    weights: str | Path | None
    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    head: str | Path | LinearHead | None
    pooling: str | None


def _by_name(source: str, pixels: "_Pixels", options: _Options) -> Classifier:
    kind, _, name = source.partition(":")
    if not name:
        msg = _check.must(
            "timm:NAME, torchvision:NAME, hf:NAME, package.module:name, an ONNX file, "
            "or a folder of openset train",
            caller=_CALLER,
            name="network",
            got=repr(source),
        )
        raise ValueError(msg)
    if kind == "hf":
        try:
            with _without_bars():
                return _of_hugging_face(name, options)
        except ModuleNotFoundError as error:
            if error.__cause__ is None:
                raise
            # Its parts are imported late; the cause says why that failed.
            with _io.fitting(_CALLER, "transformers"):
                raise error.__cause__ from None
    if kind == "timm":
        return _of_timm(name, options.weights)
    if kind == "torchvision":
        return _of_torchvision(name, options.weights)
    made = _plugins.imported(source, caller=_CALLER)
    model = made if isinstance(made, nn.Module) else made()
    if not isinstance(model, nn.Module):
        msg = _check.must(
            "an nn.Module, or a function that makes one",
            caller=_CALLER,
            name=source,
            got=type(model).__name__,
        )
        raise TypeError(msg)
    about: dict[str, Any] = {"std": pixels.std, "preprocessing": str(pixels)}
    return Classifier(source, "image", model, pixels, **about)


def _of_timm(name: str, weights: str | Path | None) -> Classifier:
    timm = _library("timm")
    with _naming_model("timm", name):
        model = timm.create_model(name, pretrained=weights is None)
    model, note = _filled(model, weights, partial(timm.create_model, name))
    data = _library("timm.data")
    config = data.resolve_model_data_config(model)
    transform = data.create_transform(**config, is_training=False)
    said = ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")
    about = "RGB, " + _listed({key: config[key] for key in said if key in config})
    return Classifier(
        f"timm:{name}",
        "image",
        model,
        _Each(transform),
        note=note,
        std=tuple(config["std"]),
        preprocessing=about,
    )


def _of_torchvision(name: str, weights: str | Path | None) -> Classifier:
    models = _library("torchvision").models
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
        _Each(transform),
        names,
        note,
        tuple(transform.std),
        preprocessing="RGB, " + " ".join(str(transform).split()),
    )


@contextmanager
def _without_bars() -> Iterator[None]:
    """Read weights without a progress bar: a moment, and even where none can move."""
    settings = _library("transformers.utils.logging")
    is_shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            settings.enable_progress_bar()


def _of_hugging_face(name: str, options: _Options) -> Classifier:
    transformers = _library("transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        msg = (
            f"{_CALLER}: network must be a model of Hugging Face, or a folder of one, "
            f"got {name!r} ({_io.first_line(error)})"
        )
        raise ValueError(msg) from error
    made = next(iter(config.architectures or ()), "")
    if _zero_shot.is_zero_shot(getattr(transformers, made, None)):
        prompts = options.prompts or _zero_shot.PROMPTS
        return _of_texts(transformers, name, options.classes, prompts)
    names = config.id2label or {}
    own = tuple(str(names[i]) for i in sorted(names))
    if made.endswith("ForImageClassification"):
        model = transformers.AutoModelForImageClassification.from_pretrained(name)
        images, std, about = _image_processor(transformers, name)
        settings: dict[str, Any] = {"std": std, "preprocessing": about}
        return Classifier(f"hf:{name}", "image", model, images, own, **settings)
    if made.endswith("ForSequenceClassification"):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(name)
        return Classifier(f"hf:{name}", "text", model, _words(transformers, name), own)
    if not made.endswith("Model"):
        msg = _check.must(
            "a classifier of images or of sequences, a model like CLIP, or an "
            "embedding model",
            caller=_CALLER,
            name="network",
            got=f"{name!r}, a {made or config.model_type}",
        )
        raise ValueError(msg)
    return _of_embeddings(transformers, name, config, options)


def _of_embeddings(
    transformers: Any, name: str, config: Any, options: _Options
) -> Classifier:
    pooling = options.pooling
    if pooling is None:
        pooling = _embedding.usual_pooling(Path(name))
    _check.one_of(_CALLER, "pooling", pooling, _embedding.POOLINGS)
    head = options.head
    if isinstance(head, str | Path):
        head = LinearHead.load(head)
    if not hasattr(config, "hidden_size"):
        rule = "an embedding model with embeddings of one size (hidden_size)"
        got = f"a {type(config).__name__}"
        raise ValueError(_check.must(rule, caller=_CALLER, name="network", got=got))
    model = transformers.AutoModel.from_pretrained(name)
    made = _embedding.Embedded(model, pooling, head).eval()
    std, about = None, ""
    is_image = hasattr(config, "num_channels")
    if is_image:
        prepare, std, about = _image_processor(transformers, name)
    else:
        prepare = _words(transformers, name)
    return Classifier(
        f"hf:{name}",
        "image" if is_image else "text",
        made,
        prepare,
        classes=() if head is None else head.classes,
        note=f"an embedding model, {pooling} pooling",
        std=std,
        embeds=head is None,
        preprocessing=about,
    )


def _of_texts(
    transformers: Any, name: str, classes: Sequence[str], prompts: Sequence[str]
) -> Classifier:
    _zero_shot.check_texts(classes, prompts)
    model = transformers.AutoModel.from_pretrained(name)
    words = transformers.AutoTokenizer.from_pretrained(name)
    found = _zero_shot.ZeroShot(model, words, classes, prompts).eval()
    scale = found.scale
    note = f"zero-shot: its logits are {scale:.6g} times the cosines of image and text"
    if f"{scale:.6g}" != f"{MCM().scale:.6g}":
        note += f". For MCM say so: --detector mcm:scale={scale:.6g}"
    images, std, about = _image_processor(transformers, name)

    def prepare(samples: list[Any]) -> Any:
        is_text = isinstance(samples[0], str)
        return {"texts": found.embedded(samples)} if is_text else images(samples)

    return Classifier(
        f"hf:{name}",
        "image",
        found,
        prepare,
        tuple(classes),
        note,
        std,
        preprocessing=about,
    )


def _image_processor(
    transformers: Any, name: str
) -> tuple[Callable[[list[Any]], Any], tuple[float, ...] | None, str]:
    """Return what prepares images, what it divides pixels by, and a description."""
    images = transformers.AutoImageProcessor.from_pretrained(name)
    is_divided = images.do_rescale and images.do_normalize
    std = tuple(images.image_std) if is_divided else None
    config = images.to_dict()
    said = ("size", "crop_size", "do_center_crop", "resample", "rescale_factor")
    about = {key: config.get(key) for key in (*said, "image_mean", "image_std")}
    shown = _listed({key: value for key, value in about.items() if value is not None})

    def prepare(samples: list[Any]) -> Any:
        return images(samples, return_tensors="pt")

    return prepare, std, f"RGB, {shown}"


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _words(transformers: Any, name: str) -> Callable[[list[Any]], Any]:
    words = transformers.AutoTokenizer.from_pretrained(name)
    return partial(words, return_tensors="pt", padding=True, truncation=True)


@dataclass(frozen=True)
class _Each:
    """Prepare images one by one, and stack them."""

    transform: Callable[[Any], Any]

    def __call__(self, samples: list[Any]) -> Any:
        return torch.stack([self.transform(one) for one in samples])


@dataclass(frozen=True)
class _Pixels:
    """Resize, scale to [0, 1] and normalise; bytes stay bytes."""

    side: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: str = "float32"

    def __str__(self) -> str:
        size = "of one size" if self.side is None else f"brought to {self.side} pixels"
        if self.dtype == "uint8":
            return f"RGB, {size}, as bytes"
        return f"RGB, {size}, scaled to [0, 1], mean {self.mean}, std {self.std}"

    def __call__(self, samples: list[Any]) -> Any:
        if self.side is not None:
            samples = [one.resize((self.side, self.side)) for one in samples]
        sizes = {one.size for one in samples}
        if len(sizes) > 1:
            msg = _check.must(
                "given for images of several sizes",
                caller="Classifier.apply",
                name="side",
                got=f"none, and sizes {sorted(sizes)[0]} and {sorted(sizes)[1]}",
            )
            raise ValueError(msg)
        pixels = np.stack([np.asarray(one) for one in samples]).transpose(0, 3, 1, 2)
        if self.dtype == "uint8":
            return torch.from_numpy(np.ascontiguousarray(pixels))
        scaled = torch.from_numpy(pixels.astype(np.float32)) / 255
        mean, std = (
            torch.tensor(v)[None, :, None, None] for v in (self.mean, self.std)
        )
        return (scaled - mean) / std


def _blank() -> Any:
    return _image(np.zeros((64, 64, 3), np.uint8))


def _image(one: Any) -> Any:
    """Return an image as PIL has it, in colour."""
    images = _io.optional("Classifier.apply", "PIL.Image", name="vision")
    if isinstance(one, np.ndarray):
        one = images.fromarray(one.squeeze())
    return one.convert("RGB")


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
    state = read_weights(Path(str(weights)), caller=_CALLER)
    # By name: files need not keep the order of the layers.
    name, head = last_layer.linears(model)[-1]
    found = state.get(f"{name}.weight")
    if found is not None and len(found) != head.out_features:
        model = make(num_classes=len(found))
    fill(model, state, caller=_CALLER, name="weights")
    return model, ""


@contextmanager
def _naming_model(library: str, name: str) -> Iterator[None]:
    """Say which network could not be made or downloaded."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:  # several libraries, each with classes of its own
        msg = (
            f"{_CALLER}: network must be a model of {library} whose weights are here "
            f"or can be downloaded, got {name!r} ({_io.first_line(error)}). A file of "
            "weights can be given: weights='FILE'"
        )
        raise ValueError(msg) from error


def _library(name: str) -> Any:
    top = name.partition(".")[0]
    try:
        with _io.fitting(_CALLER, top):
            return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or top
        msg = f"{_CALLER}: needs {missing}; install it with: pip install {missing}"
        raise MissingExtraError(msg) from error
