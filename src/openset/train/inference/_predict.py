"""Outputs and scores of samples by a trained learner."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from openset import _check, detectors
from openset._progress import bar
from openset._types import UNKNOWN
from openset.datasets import Samples
from openset.extract.head import Head, evaluating
from openset.outputs import Outputs
from openset.scores import Scores
from openset.train.augment import Pipeline
from openset.train.learner._learner import Learner
from openset.train.learner._tensors import as_tensor

_BATCH = 2048
GENTLER = (
    "Try a lower learning rate (lr=), or a longer warm-up (warmup=, with "
    "schedule='cosine')"
)


class Predictions(NamedTuple):
    """Outputs of samples, and their scores by the method's published score."""

    outputs: Outputs
    scores: Scores


def predict(
    fabric: Any, learner: Learner, samples: Samples, pipeline: Pipeline
) -> Predictions:
    """Run the learner over samples; each process takes its share of them.

    It runs in float32 whatever the precision of training: scores that differ must not
    be rounded to one number.
    """
    rank, world = fabric.global_rank, fabric.world_size
    inputs = as_tensor(samples.inputs, samples.kind, pipeline.side)
    rows = torch.arange(len(samples))[rank::world]
    found = forward(learner, inputs, rows, pipeline)
    gathered = {
        name: _gathered(fabric, part, rows, len(samples))
        for name, part in found._asdict().items()
    }
    for name, array in gathered.items():
        if not np.isfinite(array).all():
            what = "scores" if name == "known" else name
            msg = _check.must(
                "finite",
                caller="train.fit",
                name=f"the {what} of the trained network",
                got="NaN or infinity",
                remedy=GENTLER,
            )
            raise FloatingPointError(msg)
    outputs = Outputs(
        logits=gathered["logits"],
        features=gathered["features"],
        labels=samples.labels,
        groups=samples.groups,
        classes=samples.classes,
        **head_of(learner),
    )
    scores = Scores(
        labels=samples.labels,
        predicted=gathered["logits"].argmax(axis=1),
        known=gathered["known"].astype(np.float64),
        groups=samples.groups,
    )
    return Predictions(outputs, scores)


class ForwardPass(NamedTuple):
    """Features, logits and knownness of some samples."""

    features: Tensor
    logits: Tensor
    known: Tensor


def forward(
    learner: Learner,
    inputs: Tensor,
    rows: Tensor,
    pipeline: Pipeline,
    *,
    progress: bool = False,
) -> ForwardPass:
    """Run the learner over rows of the inputs, in float32, on its device."""
    parts = []
    batches = bar(
        _batches(inputs, rows, pipeline, learner.device),
        "extracting",
        total=-(-len(rows) // _BATCH),
        show=progress,
    )
    with evaluating(learner):
        for batch in batches:
            features, response = learner.respond(batch)
            both = response.logits, response.known
            parts.append(ForwardPass(features.float(), *(one.float() for one in both)))
    return ForwardPass(*(torch.cat(part) for part in zip(*parts, strict=True)))


def head_of(learner: Learner) -> dict[str, NDArray[Any]]:
    """Return weight and bias of the last layer, if the logits are its output."""
    if not learner.method.has_linear_head:
        return {}
    layer = Head("head", learner.network.head)
    n = learner.method.n_classes
    both = {"weight": layer.weight(), "bias": layer.bias()}
    return {name: one[:n].float().cpu().numpy() for name, one in both.items()}


def _batches(
    inputs: Tensor, rows: Tensor, pipeline: Pipeline, device: torch.device
) -> Iterator[Tensor]:
    for part in rows.split(_BATCH):
        batch = inputs[part].to(device)
        yield pipeline.resized(batch) if batch.dtype == torch.uint8 else batch


def _gathered(fabric: Any, part: Tensor, rows: Tensor, n: int) -> NDArray[Any]:
    """Bring the shares of all processes together, each sample in its own row."""
    if fabric.world_size == 1:
        return part.cpu().numpy()
    longest = -(-n // fabric.world_size)
    padded = part.new_zeros((longest, *part.shape[1:]))
    padded[: part.shape[0]] = part
    # Shorter shares are padded; the padding is marked by -1 and dropped again.
    ids = torch.full((longest,), UNKNOWN, device=part.device)
    ids[: rows.shape[0]] = rows.to(part.device)
    every, of_whom = from_all(fabric, padded), from_all(fabric, ids)
    flat, place = every.flatten(0, 1).cpu(), of_whom.flatten().cpu()
    whole = flat.new_zeros((n, *flat.shape[1:]))
    whole[place[place != UNKNOWN]] = flat[place != UNKNOWN]
    return whole.numpy()


def from_all(fabric: Any, tensor: Tensor) -> Tensor:
    """Return the tensors of all processes, stacked by rank."""
    found = [torch.empty_like(tensor) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(found, tensor.contiguous())
    return torch.stack(found)


def logit_scores(outputs: Outputs) -> dict[str, Scores]:
    """Return the scores of the detectors maxlogit and msp, which is log-odds."""
    known = outputs.take(outputs.labels != UNKNOWN)  # they learn nothing from it
    return {
        name: detectors.make(name).fit(known).score(outputs)
        for name in ("maxlogit", "msp")
    }
