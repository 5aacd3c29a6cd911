"""Outputs of an ImageNet network on all sets of the PostMax paper. Not run here.

    python benchmarks/postmax_imagenet.py --root data --out outputs/hiera-h \
        --title Hiera-H --timm hiera_huge_224.mae_in1k_ft_in1k
    openset reproduce postmax-table1 --outputs outputs

It needs ImageNet, ImageNetV2, ImageNet-21K-P and the sets of unknowns under `--root`
(`openset datasets NAME` says where each belongs), torch, and either timm with its
weights, or a function of yours that returns network and transform
(`--function package.module:name`). The network must have a linear last layer: its input
is the feature. A part that is complete is not run again.

With the title of a network of the paper (Hiera-H, ConvNeXtV2-H), the tables show its
published numbers beside.
"""

import argparse
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from openset import reproduce
from openset.datasets import Dataset

HARD, EASY = "21K-P Hard", "21K-P Easy"


def from_timm(name: str) -> tuple[nn.Module, Callable[[Any], torch.Tensor]]:
    """Load a network with its own transform."""
    import timm

    network = timm.create_model(name, pretrained=True)
    settings = timm.data.resolve_model_data_config(network)
    return network, timm.data.create_transform(**settings, is_training=False)


def last_linear(network: nn.Module) -> nn.Linear:
    """Return the last linear layer."""
    return [one for one in network.modules() if isinstance(one, nn.Linear)][-1]


class Images(torch.utils.data.Dataset):
    """Images of a data set, transformed."""

    def __init__(self, data: Dataset, transform: Callable[[Any], torch.Tensor]) -> None:
        self.data, self.transform = data, transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> torch.Tensor:
        from PIL import Image

        return self.transform(Image.fromarray(self.data.inputs[i]))


def labels_of(data: Dataset, classes: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the labels as the network numbers them; -1 for other classes."""
    number = {name: i for i, name in enumerate(classes)}
    table = np.array([number.get(name, -1) for name in data.classes])
    return table[data.labels]


def write(
    folder: Path,
    data: Dataset,
    classes: tuple[str, ...],
    *,
    network: nn.Module,
    transform: Callable[[Any], torch.Tensor],
    args: argparse.Namespace,
) -> None:
    """Run the network over one part, straight into files."""
    if (folder / "meta.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    head = last_linear(network)
    found: list[torch.Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    loader = torch.utils.data.DataLoader(
        Images(data, transform), args.batch, num_workers=args.workers
    )
    shapes = {"logits": head.out_features, "features": head.in_features}
    files = {
        name: np.lib.format.open_memmap(
            folder / f"{name}.npy", "w+", np.float32, (len(data), width)
        )
        for name, width in shapes.items()
    }
    first = 0
    with torch.inference_mode():
        for batch in loader:
            logits = network(batch.to(args.device))
            rows = slice(first, first + len(batch))
            files["logits"][rows] = logits.float().cpu().numpy()
            files["features"][rows] = found.pop().flatten(1).float().cpu().numpy()
            first += len(batch)
    hook.remove()
    for array in files.values():
        array.flush()
    np.save(folder / "labels.npy", labels_of(data, classes))
    for name in ("weight", "bias"):
        np.save(folder / f"{name}.npy", getattr(head, name).detach().cpu().numpy())
    # Last: where this file exists, the part is complete.
    meta = {"kind": "openset.Outputs", "schema": 1, "classes": list(classes)}
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def main() -> None:
    """Run a network over every part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", required=True)
    parser.add_argument("--timm", default="")
    parser.add_argument("--function", default="")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu"
    )
    args = parser.parse_args()
    if args.timm:
        network, transform = from_timm(args.timm)
    else:
        module, _, name = args.function.partition(":")
        network, transform = getattr(importlib.import_module(module), name)()
    network = network.eval().to(args.device)
    parts = reproduce.imagenet_parts(args.root)
    classes = parts["test"].classes
    for name, data in parts.items():
        folder = args.out / name
        write(folder, data, classes, network=network, transform=transform, args=args)
        print(f"{name}: {len(data)}", flush=True)
    about = {"title": args.title, "surrogate": HARD, "easy": EASY}
    text = json.dumps(about, indent=1)
    (args.out / "network.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
