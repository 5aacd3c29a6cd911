"""A sample in a graph: logits and features, and what a detector has learnt."""

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from openset import _check, _xp
from openset.detectors import Fitted
from openset.integrations.onnx._graph import Graph, Var

CALLER = "onnx.export"


class Sample:
    """Logits and features in a graph, with the reductions detectors share."""

    def __init__(
        self, graph: Graph, fitted: Fitted, logits: Var, features: Var | None
    ) -> None:
        self.graph = graph
        self.logits = logits
        self._features = features
        self.n_classes = fitted.widths.get("n_classes")
        self._width = fitted.widths.get("n_features")
        self.arrays = {name: _xp.to_numpy(a) for name, a in fitted.state.items()}

    @property
    def features(self) -> Var:
        """Features, for detectors that need them."""
        if self._features is None:
            rule, got = "given to this detector", "none"
            msg = _check.must(rule, caller=CALLER, name="features", got=got)
            raise ValueError(msg)
        return self._features

    @property
    def width(self) -> int:
        """Number of features."""
        if self._width is None:
            rule, got = "fitted on outputs with features", "a head alone"
            msg = _check.must(rule, caller=CALLER, name="rejector", got=got)
            raise ValueError(msg)
        return self._width

    def part(self, i: int) -> "Sample":
        """Return the sample for one of several combined detectors."""
        other = copy(self)
        prefix = f"{i}."
        other.arrays = {
            name.removeprefix(prefix): array
            for name, array in self.arrays.items()
            if name.startswith(prefix)
        }
        return other

    def layer(self, i: int, start: int, stop: int) -> "Sample":
        """Return the sample for the detector of one layer, with its features alone."""
        other = self.part(i)
        other._features = self.features.columns(start, stop)
        other._width = stop - start
        return other

    def state(self, name: str, dtype: Any = np.float32) -> Var:
        """Add an array of the fitted detector as a constant."""
        return self.graph.constant(self.arrays[name], dtype)

    @cached_property
    def top_class(self) -> Var:
        """Argmax of the logits."""
        return self.logits.argmax()

    @cached_property
    def top_logit(self) -> Var:
        """Largest logit."""
        return self.logits.pick(self.top_class)

    def tempered(self, temperature: float) -> Var:
        """Logits over a temperature."""
        return self.logits if temperature == 1 else self.logits / temperature


def is_top(logits: Var, top: Var) -> Var:
    """Mask the predicted class: one entry of each row, even among equal ones."""
    return logits.places().equals(top)
