"""Outputs of small networks in the form of `openset bench NAME --outputs`.

Real data, plain torch on the CPU, minutes: a network of the six digits 0 to 5 for
`mnist-small`, and one of the ten classes for `openood:cifar10`, with the unknown data
sets that are at hand (no CIFAR-100, textures or places: `--partial`). The images are
not those of OpenOOD's lists, and the networks are far smaller: see the notes of
docs/named-benchmarks.md.

    OPENSET_DATA=... python benchmarks/named_outputs.py mnist-small outputs/mnist-small
    openset bench mnist-small --outputs outputs/mnist-small --out runs/mnist-small
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import packaged_data
from _networks import Images, outputs_of, train_small
from PIL import Image

N_UNKNOWN = 2000  # images of each unknown data set

# Classes of TinyImageNet that are classes of CIFAR-10: frogs, birds, dogs, cats, cars,
# trucks and ships. OpenOOD leaves such classes out, too; its list is not at hand.
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


def main() -> None:
    """Train a network, and write its outputs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PROBLEMS)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    read, n_train, epochs = PROBLEMS[given.name]
    own, unknown = read(packaged_data.reader())
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(own["train_y"]))[:n_train]
    images, labels = own["train_x"][rows], own["train_y"][rows]
    network = train_small(images, labels, epochs=epochs)
    outputs_of(network, images, labels).save(given.out / "train.npz")
    known = outputs_of(network, own["test_x"], own["test_y"])
    known.save(given.out / "known.npz")
    accuracy = (known.logits.argmax(axis=1) == known.labels).mean()
    print(f"{given.name}: accuracy {accuracy:.4f} on {len(known)} known samples")
    for name, x in unknown.items():
        chosen = x[np.sort(rng.permutation(len(x))[:N_UNKNOWN])]
        made = outputs_of(network, chosen, np.full(len(chosen), -1))
        made.save(given.out / f"{name}.npz")


if __name__ == "__main__":
    main()
