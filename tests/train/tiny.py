"""Networks and data small enough to check by hand."""

from collections import OrderedDict

import numpy as np
from torch import nn

from openset.datasets import Dataset
from openset.protocols import Protocol
from openset.train import fit, methods
from openset.train.networks import Network, TwoNorms

N_CLASSES = 3
# Generator and discriminator of ARPL+CS, some thousand times cheaper than published.
NARROW = {"width": 8}
# The published bounds are for the logits of a trained network.
GENTLER = {"energy_bounded": {"m_in": -5.0, "m_out": -2.0}}


def rows_network(n_outputs, *, n_in=4, width=5, n_features=3):
    """Two tanh layers: smooth, no batch statistics, one place to mix in between."""
    parts = OrderedDict(
        first=nn.Sequential(nn.Linear(n_in, width), nn.Tanh()),
        second=nn.Sequential(nn.Linear(width, n_features), nn.Tanh()),
    )
    return Network(nn.Sequential(parts), nn.Linear(n_features, n_outputs))


def image_network(n_outputs, *, width=8):
    """Two convolutions with two batch norms each."""
    layers = [
        nn.Sequential(nn.Conv2d(n, width, 3, 2, 1), TwoNorms(width), nn.LeakyReLU(0.2))
        for n in (3, width)
    ]
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return Network(nn.Sequential(*layers, pool), nn.Linear(4 * width, n_outputs))


def rows_data(n=60, *, n_classes=4, name="rows"):
    """Return a table with classes around corners of a cube; the last is unknown."""
    rng = np.random.default_rng(3)
    labels = np.arange(2 * n) % n_classes
    rows = rng.normal(size=(2 * n, 4)).astype(np.float32) / 2
    rows[np.arange(2 * n), labels] += 3
    return _in_halves(rows, labels, n_classes, "table", name)


def image_data(n=24, *, side=16, n_classes=4, name="images"):
    """Return pictures of one grey level per class, with noise; the last is unknown."""
    rng = np.random.default_rng(4)
    labels = np.arange(2 * n) % n_classes
    level = labels[:, None, None, None] * 60
    pixels = level + rng.integers(0, 40, size=(2 * n, side, side, 3))
    return _in_halves(pixels.astype(np.uint8), labels, n_classes, "image", name)


def _in_halves(inputs, labels, n_classes, kind, name):
    n = len(labels) // 2
    return Dataset(
        inputs=inputs,
        labels=labels,
        classes=[f"class {c}" for c in range(n_classes)],
        kind=kind,
        name=name,
        parts={"train": np.arange(n), "test": np.arange(n, 2 * n)},
    )


def last_unknown(data):
    """Return the protocol in which the last class is unknown."""
    *known, unknown = data.classes
    return Protocol(known=known, unknown=[unknown], source=data.name)


def others(data, n=20, *, name="others"):
    """Return samples unlike those of all classes: rows or images, inverted."""
    inputs = data.inputs[:n]
    inverted = 255 - inputs if data.kind == "image" else -inputs
    about = {"classes": ["other"], "kind": data.kind, "name": name}
    return Dataset(inputs=inverted, labels=np.zeros(n, int), **about)


def needs_negatives(method):
    """Whether a method, by its name, is trained with negatives."""
    return issubclass(methods.find(method), methods.WithNegatives)


def fit_tiny(data=None, **changes):
    """Train on a tiny problem, on one CPU, without pictures."""
    data = rows_data() if data is None else data
    method = changes.get("method", "softmax")
    usual = {
        "method": "softmax",
        "options": GENTLER.get(method),
        "protocol": last_unknown(data) if isinstance(data, Dataset) else None,
        "recipe": "torchosr",
        "epochs": 3,
        "batch": 16,
        "lr": 0.1,
        "accelerator": "cpu",
        "progress": False,
    }
    if needs_negatives(method) and isinstance(data, Dataset):
        usual["negatives"] = others(data)
    return fit(data=data, **(usual | changes))
