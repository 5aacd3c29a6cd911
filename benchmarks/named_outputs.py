"""Outputs of small networks in the form of `openset bench NAME --outputs`.

Real data, plain torch on the CPU, minutes: a network of the six digits 0 to 5 for
`mnist-small`, and one of the ten classes for `openood:cifar10`, with the unknown data
sets that are at hand (no CIFAR-100, textures or places: `--partial`). The images are
not those of OpenOOD's lists, and the networks are far smaller: see the notes of
docs/results/named.md.

    OPENSET_DATA=... python benchmarks/named_outputs.py mnist-small outputs/mnist-small
    openset bench mnist-small --outputs outputs/mnist-small --out runs/mnist-small

With `--budget`, `classifier32` is trained on all training images by the recipe
`openset` instead, for as many image passes as so many epochs (on a GPU, a minute for
200); the images are read as packaged, so that known and unknown ones are equally lossy.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import packaged_data
from _networks import Images, outputs_of, train_small
from PIL import Image

from openset import Outputs, datasets, protocols, train

N_UNKNOWN = 2000  # images of each unknown data set

# Classes of TinyImageNet that are classes of CIFAR-10: frogs, birds, dogs, cats, cars,
# trucks and ships. OpenOOD leaves them out, too, and 20 classes for validation.
# fmt: off
SHARED = (
    "n01641577", "n01644900", "n01855672", "n02002724", "n02056570", "n02058221",
    "n02085620", "n02094433", "n02099601", "n02099712", "n02106662", "n02113799",
    "n02123045", "n02123394", "n02124075", "n02814533", "n03100240", "n03447447",
    "n03662601", "n03670208", "n03796401", "n03977966", "n04146614", "n04285008",
)
# fmt: on


def mnist_small(data: Any) -> tuple[dict[str, Any], dict[str, Images]]:
    """Return the digits 0 to 5, and what is unknown."""
    own = data.load("mnist")
    is_unknown = own["test_y"] > 5
    sets = {
        "near/digits": own["test_x"][is_unknown],
        "far/notmnist": data.load("notmnist")["test_x"],
        "far/omniglot": data.load("omniglot28")["test_x"],
    }
    kept: dict[str, Any] = {}
    for part in ("train", "test"):
        rows = own[f"{part}_y"] < 6
        kept |= {f"{part}_{a}": own[f"{part}_{a}"][rows] for a in ("x", "y")}
    return kept, sets


def openood_cifar10(data: Any) -> tuple[dict[str, Any], dict[str, Images]]:
    """Return CIFAR-10, and what is unknown."""
    tiny, digits = data.load("tinyimagenet32_val"), data.load("mnist")["test_x"]
    shared = [i for i, name in enumerate(tiny["wnids"]) if name in SHARED]
    sets = {
        "near/tin": tiny["test_x"][~np.isin(tiny["test_y"], shared)],
        "far/mnist": np.stack([_as_photograph(one) for one in digits[: 2 * N_UNKNOWN]]),
        "far/svhn": data.load("svhn")["test_x"],
    }
    return data.load("cifar10"), sets


def _as_photograph(digit: Images) -> Images:
    resized = Image.fromarray(digit).resize((32, 32), Image.Resampling.BILINEAR)
    return np.repeat(np.asarray(resized)[..., None], 3, axis=-1)


PROBLEMS: dict[str, tuple[Callable[..., Any], int, int]] = {
    # name: data, training images, epochs
    "mnist-small": (mnist_small, 10_000, 4),
    "openood:cifar10": (openood_cifar10, 10_000, 5),
}


def _trained(own: dict[str, Any], budget: float) -> Callable[..., Outputs]:
    """Train to the end on all images; return what runs the network over others."""
    n = len(own["train_y"])
    # A protocol needs unknown classes, training does not: they are ten black images.
    n_classes = int(own["train_y"].max()) + 1
    black = np.zeros((10, *own["train_x"].shape[1:]), dtype=np.uint8)
    labels = [own["train_y"], own["test_y"], np.full(10, n_classes)]
    data = datasets.Dataset(
        inputs=np.concatenate([own["train_x"], own["test_x"], black]),
        labels=np.concatenate(labels).astype(np.int64),
        classes=[str(i) for i in range(n_classes + 1)],
        kind="image",
        name="cifar10",
        parts={
            "train": np.arange(n),
            "test": np.arange(n, n + len(own["test_y"]) + 10),
        },
    )
    protocol = protocols.Protocol(
        known=data.classes[:-1], unknown=data.classes[-1:], source=data.name
    )
    recipe = train.recipe("openset", data.name, budget=budget)
    done = train.fit(
        method="ceplus", data=data, protocol=protocol, recipe=recipe, validation=0
    )
    return partial(done.apply, progress=False)


def main() -> None:
    """Train a network, and write its outputs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PROBLEMS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", type=float, default=0)
    given = parser.parse_args()
    read, n_train, epochs = PROBLEMS[given.name]
    own, unknown = read(packaged_data.reader())
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(own["train_y"]))[:n_train]
    images, labels = own["train_x"][rows], own["train_y"][rows]
    if given.budget:
        of = _trained(own, given.budget)
    else:
        of = partial(outputs_of, train_small(images, labels, epochs=epochs))
    of(images, labels).save(given.out / "train.npz")
    known = of(own["test_x"], own["test_y"])
    known.save(given.out / "known.npz")
    accuracy = (known.logits.argmax(axis=1) == known.labels).mean()
    print(f"{given.name}: accuracy {accuracy:.4f} on {len(known)} known samples")
    for name, x in unknown.items():
        chosen = x[np.sort(rng.permutation(len(x))[:N_UNKNOWN])]
        made = of(chosen, np.full(len(chosen), -1))
        made.save(given.out / f"{name}.npz")


if __name__ == "__main__":
    main()
