"""Small networks for the problems of `_kinds.py`, and their scores.

A *network* is a linear model, a multilayer perceptron or a small convolutional network
trained on the known classes, or a given one. Of each network the scores of all fast
detectors are kept, so that rules can be compared without running anything again.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from _kinds import DOMAINS, Problem
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import nn

from openset import Outputs, detectors, selection

# Every detector of the package that fits in seconds; EVM and the two SVMs need minutes.
DETECTORS = (
    *("msp", "maxlogit", "energy", "gen", "postmax", "openmax"),
    *("nnguide", "scale", "ash", "react", "vim", "knn"),
    *("mahalanobis", "rmds", "fdbd", "nci", "osnn", "nno"),
)
BANK = ("nnguide", "knn", "osnn")
"""Detectors that keep the training features: often refused in operation."""


@dataclass(frozen=True, eq=False)
class Network:
    """From samples to features, and the last layer."""

    features: Callable[[Any], NDArray[np.float32]]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def outputs(self, x: Any, labels: NDArray[np.int64]) -> Outputs:
        """Run it."""
        found = self.features(x)
        return Outputs(
            features=found,
            logits=found @ self.weight.T + self.bias,
            labels=labels,
            weight=self.weight,
            bias=self.bias,
        )


def trained(problem: Problem, kind: str) -> Network:
    """Train a network on the training part of a problem."""
    if problem.given is not None:
        head = problem.given
        return Network(lambda x: x, head.weight, head.bias)
    x, y = problem.train
    flat = np.asarray(x, dtype=np.float32).reshape(len(x), -1)
    mean, spread = flat.mean(axis=0), flat.std() + 1e-6
    if x.ndim == 2 and problem.family in DOMAINS["tables"]:
        spread = flat.std(axis=0) + 1e-6

    def scaled(x: Any) -> NDArray[np.float32]:
        x = np.asarray(x, dtype=np.float32).reshape(len(x), -1)
        return ((x - mean) / spread).astype(np.float32)

    if kind == "linear":
        model = LogisticRegression(C=1.0, max_iter=200).fit(scaled(x), y)
        weight, bias = (w.astype(np.float32) for w in (model.coef_, model.intercept_))
        return Network(scaled, weight, bias)
    torch.manual_seed(sum(map(ord, problem.name + kind)))
    if kind.startswith("cnn"):
        channels = 1 if x.ndim == 3 else x.shape[3]
        body = _convolutions(channels, x.shape[1], wide="wide" in kind)
        epochs = int(kind[3:].removesuffix("-wide"))

        def shaped(x: Any) -> torch.Tensor:
            x = x[..., None] if x.ndim == 3 else x
            made = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
            return torch.from_numpy(made).float() / 127.5 - 1
    else:
        widths = {
            "mlp64-wide": (512, 64),
            "mlp64-deep": (128, 128, 64),
            "mlp128-64": (128, 64),
        }.get(kind, (int(kind[3:]) if kind[3:].isdigit() else 64,))
        layers: list[nn.Module] = []
        for n_in, n_out in zip((flat.shape[1], *widths), widths, strict=False):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        body, epochs = nn.Sequential(*layers), max(25, 100_000 // len(x))

        def shaped(x: Any) -> torch.Tensor:
            return torch.from_numpy(scaled(x))

    with torch.no_grad():
        width = body(shaped(x[:2])).shape[1]
    network = nn.Sequential(body, nn.Linear(width, problem.n_classes))
    _train(network, shaped(x), torch.from_numpy(y.astype(np.int64)), epochs)
    head = network[1]

    def features(x: Any) -> NDArray[np.float32]:
        with torch.inference_mode():
            parts = [network[0](part) for part in shaped(x).split(512)]
        return torch.cat(parts).numpy().copy()

    arrays = (head.weight.detach().numpy(), head.bias.detach().numpy())
    return Network(features, *arrays)


def _convolutions(channels: int, side: int, *, wide: bool) -> nn.Sequential:
    widths = (channels, 48, 96, 160) if wide else (channels, 24, 48, 96)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    size = widths[-1] * (side // 8) ** 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(size, 128), nn.ReLU())


def _train(network: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    steps = epochs * -(-len(x) // 64)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.004, total_steps=steps
    )
    network.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            if len(rows) > 1:
                nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
    network.eval()


def scored(problem: Problem, network: Network) -> dict[str, NDArray[Any]]:
    """Score everything with every detector that fits: one column each."""
    train = network.outputs(*problem.train)
    known, test = network.outputs(*problem.known), network.outputs(*problem.test)
    strange = {
        f"{part}:{kind}": network.outputs(x, np.full(len(x), -1))
        for kind, pair in problem.kinds.items()
        for part, x in zip(("cal", "test"), pair, strict=True)
    }
    columns: dict[str, list[Any]] = {}
    names = []
    for name in DETECTORS:
        recipe = detectors.make(name)
        try:
            fitted = recipe.fit(train)
            found: dict[str, Any] = {}
            for part, one in (("known", known), ("known_test", test)):
                scores = fitted.score(one)
                found[part], found[f"{part}_correct"] = scores.known, scores.is_correct
            for part, one in strange.items():
                found[part] = fitted.score(one).known
        except ValueError as error:
            print(f"{problem.name}: without {name} ({str(error)[:90]})", flush=True)
            continue
        found |= _classes_left_out(recipe, train, known)
        names.append(name)
        for part, column in found.items():
            columns.setdefault(part, []).append(column)
    arrays = {part: np.column_stack(all_) for part, all_ in columns.items()}
    seen = np.unique(problem.known[1]).size
    right = float((test.logits.argmax(axis=1) == test.labels).mean())
    return arrays | {
        "names": np.array(names),
        "labels": problem.known[1],
        "facts": np.array([right, seen, problem.n_classes]),
    }


def _classes_left_out(
    recipe: Any, train: Outputs, known: Outputs
) -> dict[str, NDArray[Any]]:
    """Known classes as unknowns, each detector fitted without them."""
    seen = np.unique(known.labels).size
    folds = min(3, seen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = selection.leave_classes_out(recipe, train, known, folds=folds)
        except ValueError:
            nothing = np.full(len(known), np.nan)
            return {"lco_known": nothing, "lco_correct": nothing, "lco": nothing}
    mine = ~found.is_unknown
    return {
        "lco_known": found.known[mine],
        "lco_correct": found.is_correct[mine].astype(float),
        "lco": found.known[found.is_unknown],
    }
