"""A detector that is one column of the features, and outputs to choose it on."""

import numpy as np

from openset import Outputs
from openset.detectors import Detector, Fitted


class Column(Detector):
    """Knownness is one column of the features: what it is worth is up to the data."""

    name = "column"
    score_needs = ("features",)
    score_cost = "1"
    paper = "-"

    def __init__(self, place):
        object.__setattr__(self, "place", place)

    def params(self):
        """Return the place."""
        return {"place": self.place}

    def _score(self, state, batch):
        return batch.features[:, self.place]


def fitted_column(place):
    """Return the fitted detector of one column."""
    return Fitted(detector=Column(place=place), state={})


def drawn(shifts, seed=0, n=300):
    """Knowns at 0 in every column; group g is shifted by ``-shifts[g]``."""
    rng = np.random.default_rng(seed)
    width = len(next(iter(shifts.values())))

    def part(shift, labels, name):
        return Outputs(
            features=rng.normal(size=(n, width)) - np.asarray(shift, float),
            logits=np.eye(3)[np.maximum(labels, 0)] * 5,
            labels=labels,
            groups=np.full(n, name),
        )

    known = part([0] * width, rng.integers(0, 3, n), "known")
    unknown = [part(s, np.full(n, -1), g) for g, s in shifts.items()]
    return known, Outputs.concat(unknown)
