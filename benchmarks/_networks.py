"""Small networks trained here on image sets, and their outputs on kinds of unknowns.

Plain torch on the CPU, fixed seeds and sizes, a minute or two each. Of every data set
the first six classes are known. What is known is cut into training, validation and
test samples; unknowns for calibration come from the data sets' training parts (or, of
sets that have none, from other classes than those of the test).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from openset import Outputs

N_KNOWN = 6
N_TRAIN, N_VALIDATION, N_TEST = 10_000, 1500, 2000
N_SURROGATE, N_UNKNOWN = 300, 500  # of each kind

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Kind:
    """Unknowns of one kind: images to calibrate with, and others to test on."""

    name: str
    surrogate: Images
    test: Images


def mnist(data: Any) -> dict[str, Outputs]:
    """Digits 0 to 5; unknown: other digits, letters of print, characters by hand."""
    own = data.load("mnist")
    letters, characters = data.load("notmnist"), data.load("omniglot28")
    is_early = letters["test_y"] < 5  # A to E, F to J: no training part is packaged
    kinds = [
        *_classes(own, {"digits 6 and 7": (6, 7), "digits 8 and 9": (8, 9)}),
        Kind("letters", letters["test_x"][is_early], letters["test_x"][~is_early]),
        Kind("characters", characters["train_x"], characters["test_x"]),
    ]
    return outputs(own, kinds, epochs=2)


def cifar(data: Any) -> dict[str, Outputs]:
    """Airplane to dog; unknown: other classes, house numbers, food and places."""
    own, numbers = data.load("cifar10"), data.load("svhn")
    others = {"frogs and horses": (6, 7), "ships and trucks": (8, 9)}
    kinds = [
        *_classes(own, others),
        Kind("house numbers", numbers["train_x"], numbers["test_x"]),
        _food_and_places(data),
    ]
    return outputs(own, kinds, epochs=6)


def svhn(data: Any) -> dict[str, Outputs]:
    """House numbers 0 to 5; unknown: other numbers, photographs of two sets."""
    own, photographs = data.load("svhn"), data.load("cifar10")
    others = {"numbers 6 and 7": (6, 7), "numbers 8 and 9": (8, 9)}
    kinds = [
        *_classes(own, others),
        Kind("photographs", photographs["train_x"], photographs["test_x"]),
        _food_and_places(data),
    ]
    return outputs(own, kinds, epochs=4)


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


def outputs(own: dict[str, Any], kinds: list[Kind], *, epochs: int) -> dict[str, Any]:
    """Train on the first classes, and run the network over all parts."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero(own["train_y"] < N_KNOWN))
    rows, held = np.split(rows[: N_TRAIN + N_VALIDATION], [N_TRAIN])
    tested = np.flatnonzero(own["test_y"] < N_KNOWN)
    tested = rng.permutation(tested)[:N_TEST]
    network = _trained(own["train_x"][rows], own["train_y"][rows], epochs)

    def of(images: Images, labels: Any, groups: Any) -> Outputs:
        return _outputs(network, images, labels, groups)

    def unknowns(part: str, size: int) -> Outputs:
        sets = {kind.name: getattr(kind, part) for kind in kinds}
        drawn = [x[rng.permutation(len(x))[:size]] for x in sets.values()]
        groups = np.repeat(list(sets), [len(x) for x in drawn])
        return of(np.concatenate(drawn), np.full(groups.size, -1), groups)

    def knowns(part: str, chosen: NDArray[np.intp]) -> Outputs:
        labels = own[f"{part}_y"][chosen]
        return of(own[f"{part}_x"][chosen], labels, np.full(labels.size, ""))

    return {
        "train": knowns("train", rows),
        "known": knowns("train", held),
        "surrogate": unknowns("surrogate", N_SURROGATE),
        "test_known": knowns("test", tested),
        "test_unknown": unknowns("test", N_UNKNOWN),
    }


def _network(channels: int, side: int) -> nn.Sequential:
    widths = (channels, 32, 64, 128)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    body = [*layers, nn.Flatten(), nn.Linear(128 * (side // 8) ** 2, 128), nn.ReLU()]
    return nn.Sequential(nn.Sequential(*body), nn.Linear(128, N_KNOWN))


def _tensor(images: Images) -> torch.Tensor:
    images = images[..., None] if images.ndim == 3 else images
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _scaled(batch: torch.Tensor) -> torch.Tensor:
    return batch.float() / 127.5 - 1


def _trained(images: Images, labels: Any, epochs: int) -> nn.Sequential:
    torch.manual_seed(0)
    x, y = _tensor(images), torch.from_numpy(labels.astype(np.int64))
    network = _network(x.shape[1], x.shape[2]).to(memory_format=torch.channels_last)
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


def _outputs(network: nn.Sequential, images: Images, labels: Any, groups: Any) -> Any:
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
