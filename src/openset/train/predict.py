"""Outputs and scores of samples by a trained learner."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from openset import detectors
from openset._types import UNKNOWN
from openset.datasets import Samples
from openset.extract.head import evaluating
from openset.outputs import Outputs
from openset.scores import Scores
from openset.train.augment import Pipeline
from openset.train.batches import as_tensor
from openset.train.learner import Learner

AT_ONCE = 2048
"""Samples that the network predicts together."""


class Predictions(NamedTuple):
    """Outputs of samples, and their scores by the method's published score."""

    outputs: Outputs
    scores: Scores


def predict(learner: Learner, samples: Samples, pipeline: Pipeline) -> Predictions:
    """Run the learner over samples.

    It runs in float32 whatever the precision of training: scores that differ must not
    be rounded to one number.
    """
    inputs = as_tensor(samples.inputs, samples.kind, pipeline.side)
    arrays = forward(learner, inputs, pipeline)
    known = arrays.pop("known").astype(np.float64)
    about: dict[str, Any] = {"labels": samples.labels, "groups": samples.groups}
    outputs = Outputs(**arrays, **about, classes=samples.classes, **head_of(learner))
    predicted = arrays["logits"].argmax(axis=1)
    return Predictions(outputs, Scores(predicted=predicted, known=known, **about))


def forward(
    learner: Learner, inputs: Tensor, pipeline: Pipeline
) -> dict[str, NDArray[Any]]:
    """Return features, logits and knownness of inputs, computed on its device."""
    parts = []
    with evaluating(learner):
        for one in inputs.split(AT_ONCE):
            batch = one.to(learner.device)
            if batch.dtype == torch.uint8:
                batch = pipeline.resized(batch)
            features, response = learner.respond(batch)
            parts.append((features.float(), *(one.float() for one in response)))
    names = ("features", "logits", "known")
    joined = (torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True))
    return dict(zip(names, joined, strict=True))


def head_of(learner: Learner) -> dict[str, NDArray[Any]]:
    """Return weight and bias of the last layer, if the logits are its output."""
    if not learner.method.has_linear_head:
        return {}
    head, n = learner.network.head, learner.method.n_classes
    bias = head.weight.new_zeros(n) if head.bias is None else head.bias[:n]
    both = {"weight": head.weight[:n], "bias": bias}
    return {name: one.detach().float().cpu().numpy() for name, one in both.items()}


def logit_scores(outputs: Outputs) -> dict[str, Scores]:
    """Return the scores of the detectors maxlogit and msp, which is log-odds."""
    known = outputs.take(outputs.labels != UNKNOWN)  # they learn nothing from it
    return {
        name: detectors.make(name).fit(known).score(outputs)
        for name in ("maxlogit", "msp")
    }
