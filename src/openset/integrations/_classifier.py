"""A trained network with its preprocessing, run on images or texts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from openset import _check, _extras
from openset._types import UNKNOWN
from openset.datasets.lazy_inputs import Mended
from openset.integrations import _embedding
from openset.integrations._preprocessing import blank, image
from openset.outputs import Invalid, Outputs, WithGaps
from openset.train import FittedLayers, Odin, extract
from openset.train.networks import last_layer

with _extras.importing("openset.integrations.networks", "torch"):
    import torch
    from torch import nn

CALLER = "networks.load"
Kind = Literal["image", "text"]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network with its preprocessing and the names of its classes.

    Attributes
    ----------
    name
        The name it was loaded by.
    kind
        ``"image"`` or ``"text"``.
    model
        The network: from a preprocessed batch to logits.
    prepare
        Function from a list of images (PIL) or texts to a batch for the model.
    classes
        Names of the outputs; empty if they are not known.
    note
        A sentence the user should know; empty if there is none.
    std
        For images: what pixels in [0, 1] are divided by, per channel, if known.
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
                caller=CALLER,
                name="network",
                got=self.name,
                remedy="Export the rejector alone, and give it the network's outputs",
            )
            raise ValueError(msg)
        batch = self.prepare([blank(), blank()])
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
        step: Odin | FittedLayers | None = None,
        layers: Sequence[str] = (),
        batch_size: int | None = None,
        device: Any = None,
        invalid: Invalid = "error",
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
            As in :func:`openset.train.extract`. Its `epsilon` is meant for pixels in
            [0, 1], unless it has its own `std`. Or a fitted detector over layers with
            an `epsilon`, whose score the changed inputs raise: the features are those
            of its layers.
        layers
            Names of layers, as in ``model.named_modules()``: the features are theirs,
            side by side, instead of those of the last layer. With ``gram:`` before each
            name they are row sums of Gram matrices, else means of channels.
        batch_size
            Number of samples per batch. Default: 8 on a CPU, where larger batches are
            slower, else 64.
        device
            Device to run on. Default: CUDA if there is one.
        invalid
            As in :func:`openset.train.extract`. With ``"keep"`` an image file that is
            damaged, or not an image, gets a row of NaN; it is in no batch, so that the
            others have the outputs they have without it.
        progress
            Show a progress bar, if standard error is a terminal.
        """
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.device(place)
        except RuntimeError as error:
            rule = "a device of torch, such as 'cpu', 'cuda' or 'cuda:1'"
            msg = _check.must(
                rule, caller="Classifier.apply", name="device", got=repr(device)
            )
            raise ValueError(msg) from error
        if batch_size is None:
            batch_size = 8 if str(place) == "cpu" else 64
        _check.positive_int("Classifier.apply", "batch_size", batch_size)
        if len(inputs) == 0:
            rule, got = "at least one sample", "none"
            raise ValueError(
                _check.must(rule, caller="Classifier.apply", name="inputs", got=got)
            )
        _check.one_of("Classifier.apply", "invalid", invalid, get_args(Invalid))
        keeps = invalid == "keep"
        batches = _Batches(self, inputs, labels, batch_size, keeps_damaged=keeps)
        about: dict[str, Any] = {"groups": groups, "ids": ids, "unknown": unknown}
        about["invalid"] = invalid
        about["out"] = out
        self._check_step(step)
        if isinstance(step, FittedLayers):
            step = step.with_std(self.std)
        elif step is not None and step.std is None and self.std is not None:
            step = replace(step, std=self.std)
        if layers and self.embeds:
            rule, got = "left out for a network without a head", ", ".join(layers)
            msg = _check.must(rule, caller="Classifier.apply", name="layers", got=got)
            raise ValueError(msg)
        if not isinstance(self.model, nn.Module):  # an ONNX file
            if layers:
                msg = _check.must(
                    "left out for an ONNX file, which gives its outputs only",
                    caller="Classifier.apply",
                    name="layers",
                    got=repr(layers),
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
            "progress": progress,
        }
        model = self.model.to(place)
        if isinstance(step, FittedLayers):
            if about.pop("out") is not None:
                rule = "left out where inputs are perturbed for several layers"
                msg = _check.must(rule, caller="Classifier.apply", name="out", got=out)
                raise ValueError(msg)
            return step.outputs(model, batches, **options, **about)
        return extract(model, batches, step=step, layers=layers, **options, **about)

    def _check_step(self, step: Odin | FittedLayers | None) -> None:
        """Refuse a step where there is no gradient to move along."""
        why = ""
        if not isinstance(self.model, nn.Module):
            why = "an ONNX file, which has no gradients"
            remedy = "Load the network in PyTorch"
        elif self.kind == "text":
            why = "texts: the numbers of their tokens have no gradient"
            remedy = "Take a detector without a step, such as msp or knn"
        elif self.embeds:
            why = "a network without a last layer"
            remedy = "Fit one first, without the step, and give it: head="
        if why and step is not None:
            msg = _check.must(
                f"left out for {why}",
                caller="Classifier.apply",
                name="step",
                got=repr(step),
                remedy=remedy,
            )
            raise ValueError(msg)

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
        return last_layer.logits_of(CALLER, made)


@dataclass(frozen=True, eq=False)
class _Batches:
    """Prepared batches with labels, in order."""

    network: Classifier
    inputs: Sequence[Any]
    labels: ArrayLike | None
    size: int
    keeps_damaged: bool = False

    def __len__(self) -> int:
        return math.ceil(len(self.inputs) / self.size)

    def __iter__(self) -> Iterator[Any]:
        mended = Mended(self.inputs)
        inputs = mended if self.keeps_damaged else self.inputs
        start = 0
        samples: list[Any] = []
        for row in range(len(inputs)):
            sample = inputs[row]
            if row in mended.damaged:
                continue
            if len(samples) == self.size:  # damaged ones behind it are with it
                yield self._batch(samples, range(start, row), mended.damaged)
                start, samples = row, []
            samples.append(sample)
        yield self._batch(samples, range(start, len(inputs)), mended.damaged)

    def _batch(self, samples: list[Any], rows: range, damaged: set[int]) -> Any:
        # A model of images and texts takes both.
        if self.network.kind == "image" and not (
            samples and isinstance(samples[0], str)
        ):
            samples = [image(one) for one in samples or [blank()]]
        made = self.network.prepare(samples)
        labels = None if self.labels is None else np.asarray(self.labels)
        mine = None if labels is None else labels[rows.start : rows.stop]
        batch: Any
        if isinstance(made, Mapping):
            batch = dict(made) | ({} if mine is None else {"labels": mine})
        else:
            batch = (made,) if mine is None else (made, mine)
        is_read = np.array([row not in damaged for row in rows])
        return batch if is_read.all() else WithGaps(batch, is_read)
