"""Networks trained on image sets, and their outputs on kinds of unknowns.

Two of each set: one trained to the end (`train_networks.py`, on a GPU), and a small one
trained here for a minute or two, plain torch on the CPU, fixed seeds and sizes. Of each
data set the first six classes are known; unknowns for calibration come from the data
sets' training parts (or, of sets that have none, from other classes than those of the
test).
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from openset import Outputs
from openset.train import Trained

N_KNOWN = 6
N_TRAIN, N_VALIDATION, N_TEST = 10_000, 1500, 2000
N_SURROGATE, N_UNKNOWN = 300, 500  # of each kind
# The same for networks trained to the end, whose sets are used as far as they go.
MANY_KNOWN, MANY_SURROGATE, MANY_UNKNOWN = 5000, 1000, 2000

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Kind:
    """Unknowns of one kind: images to calibrate with, and others to test on."""

    name: str
    surrogate: Images
    test: Images


@dataclass(frozen=True)
class Problem:
    """An image set of which six classes are known, and kinds of unknowns."""

    own: dict[str, Any]
    kinds: list[Kind]


def mnist(data: Any) -> Problem:
    """Digits 0 to 5; unknown: other digits, letters of print, characters by hand."""
    own = data.load("mnist")
    letters, characters = data.load("notmnist"), data.load("omniglot28")
    is_early = letters["test_y"] < 5  # A to E, F to J: no training part is packaged
    return Problem(
        own,
        [
            *_classes(own, {"digits 6 and 7": (6, 7), "digits 8 and 9": (8, 9)}),
            Kind("letters", letters["test_x"][is_early], letters["test_x"][~is_early]),
            Kind("characters", characters["train_x"], characters["test_x"]),
        ],
    )


def cifar(data: Any) -> Problem:
    """Airplane to dog; unknown: other classes, house numbers, food and places."""
    own, numbers = data.load("cifar10"), data.load("svhn")
    others = {"frogs and horses": (6, 7), "ships and trucks": (8, 9)}
    return Problem(
        own,
        [
            *_classes(own, others),
            Kind("house numbers", numbers["train_x"], numbers["test_x"]),
            _food_and_places(data),
        ],
    )


def svhn(data: Any) -> Problem:
    """House numbers 0 to 5; unknown: other numbers, photographs of two sets."""
    own, photographs = data.load("svhn"), data.load("cifar10")
    others = {"numbers 6 and 7": (6, 7), "numbers 8 and 9": (8, 9)}
    return Problem(
        own,
        [
            *_classes(own, others),
            Kind("photographs", photographs["train_x"], photographs["test_x"]),
            _food_and_places(data),
        ],
    )


def _classes(own: dict[str, Any], named: dict[str, tuple[int, ...]]) -> list[Kind]:
    return [
        Kind(
            name,
            *(
                own[f"{part}_x"][np.isin(own[f"{part}_y"], classes)]
                for part in ("train", "test")
            ),
        )
        for name, classes in named.items()
    ]


def _food_and_places(data: Any) -> Kind:
    """Classes of TinyImageNet that are no animals and no things: WordNet's n07 on."""
    found = data.load("tinyimagenet32_val")
    ids = np.array(found["wnids"])
    chosen = [i for i, name in enumerate(ids) if name[:3] in {"n07", "n09", "n12"}]
    half = len(chosen) // 2
    x, y = found["test_x"], found["test_y"]
    return Kind(
        "food and places", x[np.isin(y, chosen[:half])], x[np.isin(y, chosen[half:])]
    )


def of_small(problem: Problem, *, epochs: int) -> dict[str, Outputs]:
    """Train a small network on the first classes, and run it over all parts."""
    own = problem.own
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero(own["train_y"] < N_KNOWN))
    rows, held = np.split(rows[: N_TRAIN + N_VALIDATION], [N_TRAIN])
    tested = np.flatnonzero(own["test_y"] < N_KNOWN)
    tested = rng.permutation(tested)[:N_TEST]
    network = train_small(own["train_x"][rows], own["train_y"][rows], epochs=epochs)

    def of(images: Images, labels: Any, groups: Any) -> Outputs:
        return outputs_of(network, images, labels, groups)

    def knowns(part: str, chosen: NDArray[np.intp]) -> Outputs:
        labels = own[f"{part}_y"][chosen]
        return of(own[f"{part}_x"][chosen], labels, np.full(labels.size, ""))

    return {
        "train": knowns("train", rows),
        "known": knowns("train", held),
        "surrogate": _unknowns(problem.kinds, "surrogate", N_SURROGATE, rng, of),
        "test_known": knowns("test", tested),
        "test_unknown": _unknowns(problem.kinds, "test", N_UNKNOWN, rng, of),
    }


def of_run(problem: Problem, folder: Path) -> dict[str, Outputs]:
    """Take a network trained by `train_networks.py`, its own outputs and more."""
    trained = Trained.load(folder)
    rng = np.random.default_rng(0)
    test = trained.outputs["test"]
    train, known = trained.outputs["train"], trained.outputs["validation"]
    test_known = test.take(np.flatnonzero(test.labels >= 0))
    few = {
        "train": (train, N_TRAIN),
        "known": (known, MANY_KNOWN),
        "test_known": (test_known, MANY_KNOWN),
    }
    parts = {
        name: one.take(np.sort(rng.permutation(len(one))[:size]))
        for name, (one, size) in few.items()
    }
    for name, part, size in (
        ("surrogate", "surrogate", MANY_SURROGATE),
        ("test_unknown", "test", MANY_UNKNOWN),
    ):
        parts[name] = _unknowns(problem.kinds, part, size, rng, trained.apply)
    return {name: _without_groups(one) for name, one in parts.items()}


def _without_groups(outputs: Outputs) -> Outputs:
    """Forget the classes of what is known: only unknowns are of a kind."""
    if (outputs.labels < 0).any():
        return outputs
    arrays = {
        name: getattr(outputs, name)
        for name in ("logits", "features", "labels", "classes", "weight", "bias")
    }
    return Outputs(groups=np.full(len(outputs), ""), **arrays)


def _unknowns(kinds: list[Kind], part: str, size: int, rng: Any, of: Any) -> Outputs:
    """Run a network over up to so many unknowns of each kind."""
    sets = {kind.name: getattr(kind, part) for kind in kinds}
    drawn = [x[rng.permutation(len(x))[:size]] for x in sets.values()]
    groups = np.repeat(list(sets), [len(x) for x in drawn])
    return of(np.concatenate(drawn), np.full(groups.size, -1), groups)


def _network(channels: int, side: int, n_classes: int) -> nn.Sequential:
    widths = (channels, 32, 64, 128)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    body = [*layers, nn.Flatten(), nn.Linear(128 * (side // 8) ** 2, 128), nn.ReLU()]
    return nn.Sequential(nn.Sequential(*body), nn.Linear(128, n_classes))


def _tensor(images: Images) -> torch.Tensor:
    images = images[..., None] if images.ndim == 3 else images
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _scaled(batch: torch.Tensor) -> torch.Tensor:
    return batch.float() / 127.5 - 1


def train_small(images: Images, labels: Any, *, epochs: int) -> nn.Sequential:
    """Train a small network on images of the classes 0, 1, ..."""
    torch.manual_seed(0)
    x, y = _tensor(images), torch.from_numpy(labels.astype(np.int64))
    network = _network(x.shape[1], x.shape[2], int(y.max()) + 1)
    network = network.to(memory_format=torch.channels_last)
    steps = epochs * -(-len(x) // 128)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.005, total_steps=steps
    )
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(128):
            batch = _scaled(x[rows])
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(batch), y[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def outputs_of(
    network: nn.Sequential, images: Images, labels: Any, groups: Any = None
) -> Outputs:
    """Run a small network over images."""
    head = network[1]
    with torch.inference_mode():
        parts = [network[0](_scaled(batch)) for batch in _tensor(images).split(512)]
        features = torch.cat(parts)
        logits = head(features)
    return Outputs(
        logits=logits.numpy().copy(),
        features=features.numpy().copy(),
        labels=labels,
        groups=groups,
        weight=head.weight.detach().numpy().copy(),
        bias=head.bias.detach().numpy().copy(),
    )
