"""Decisions by the rule a method was published with, instead of a chosen threshold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from openset import _check, _extras
from openset.bench._check_study import no_rule
from openset.bench._study import Component
from openset.detectors import Fitted
from openset.outputs import Outputs
from openset.scores import Scores


def decided_by_method(
    method: Component | None, scores: Scores, test: Outputs
) -> Scores:
    """Apply the rule of a training method to its published scores of the test part.

    The result has margins as knownness: a sample is accepted iff it is >= 0.
    """
    train: Any = _extras.optional("bench", "openset.train", name="torch")
    kind = train.methods.find("softmax" if method is None else method.name)
    logits = np.asarray(test.logits, dtype=np.float64)
    margin = kind.published_margin(logits, scores.known)
    if margin is None:
        raise ValueError(no_rule("bench", "calibrate.objective", kind.name))
    return replace(scores, known=margin)


def decided_by_argmax(
    fitted: Fitted, scores: Scores, test: Outputs, epsilon: Any
) -> Scores:
    """Accept a sample iff a known class has the largest of C + 1 probabilities.

    With `epsilon` that probability must also be larger than it; a mapping gives one for
    each number of known classes. The predicted class is the most probable known one.
    """
    shares = fitted.class_probabilities(test)
    known, unknown = shares[:, :-1], shares[:, -1]
    best = known.max(axis=1)
    margin = best - unknown
    least = _epsilon(epsilon, known.shape[1])
    if least is not None:
        margin = np.minimum(margin, best - np.nextafter(least, 1))
    return replace(scores, known=margin, predicted=known.argmax(axis=1))


def _epsilon(given: Any, n_classes: int) -> float | None:
    if given is None:
        return None
    name = "calibrate.options.epsilon"
    if isinstance(given, Mapping):
        if n_classes not in given:
            rule = f"given for {n_classes} classes"
            got = ", ".join(map(str, given)) or "none"
            raise ValueError(_check.must(rule, caller="bench", name=name, got=got))
        given = given[n_classes]
    return _check.number("bench", name, given, low=0, high=1)
