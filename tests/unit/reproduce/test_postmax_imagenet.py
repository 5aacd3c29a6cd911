"""From image folders in the layout of the PostMax paper's sets to its tables."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from openset import Outputs, reproduce
from openset.protocols import published
from openset.reproduce import Settings, postmax

torch = pytest.importorskip("torch", reason="runs a network")
image_module = pytest.importorskip("PIL.Image", reason="reads images")
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "postmax_imagenet.py"
if not SCRIPT.exists():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)


def network():
    """Return a tiny network with a linear last layer, and its transform."""
    torch.manual_seed(0)
    layers = torch.nn
    made = layers.Sequential(
        layers.AdaptiveAvgPool2d(2),
        layers.Flatten(),
        layers.Linear(12, 8),
        layers.ReLU(),
        layers.Linear(8, 3),
    )

    def transform(image):
        pixels = np.asarray(image).transpose(2, 0, 1).copy()
        return torch.from_numpy(pixels).float() / 255

    return made, transform


@pytest.fixture
def root(tmp_path):
    """Write coloured squares: three known classes, Easy, Hard and NINCO."""
    rng = np.random.default_rng(0)
    colours = iter(rng.integers(0, 255, (20, 3)))

    def images(folder, n, colour):
        folder.mkdir(parents=True)
        for i in range(n):
            pixels = np.clip(colour + rng.normal(0, 20, (8, 8, 3)), 0, 255)
            picture = image_module.fromarray(pixels.astype(np.uint8))
            picture.save(folder / f"{i}.png")

    known = sorted(published("imagenet-21k-p", "Easy").known[:3])
    for number, wnid in enumerate(known):
        colour = next(colours)
        images(tmp_path / "imagenet/train" / wnid, 40, colour)  # PostMax fits 30
        images(tmp_path / "imagenet/val" / wnid, 10, colour)
        numbered = "imagenetv2/imagenetv2-matched-frequency-format-val"
        images(tmp_path / numbered / str(number), 5, colour)
    for level in ("Easy", "Hard"):
        for wnid in published("imagenet-21k-p-winter21", level).unknown[:2]:
            there = tmp_path / "imagenet-21k-p/imagenet21k_val" / wnid
            images(there, 10, next(colours))
    images(tmp_path / "ninco/NINCO/NINCO_OOD_classes/amphiuma", 10, next(colours))
    return tmp_path


def test_a_network_is_run_over_all_parts_and_the_tables_read_them(
    root, tmp_path, monkeypatch
):
    spec = importlib.util.spec_from_file_location("postmax_imagenet", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    out = tmp_path / "outputs" / "hiera-h"
    words = ["--root", root, "--out", out, "--title", "Hiera-H", "--workers", "0"]
    words += ["--device", "cpu", "--function", f"{__name__}:network", "--batch", "7"]
    monkeypatch.setattr(sys, "argv", ["postmax_imagenet.py", *map(str, words)])
    script.main()
    parts = reproduce.imagenet_parts(root)
    made, transform = network()
    for name, data in parts.items():
        found = Outputs.load(out / name)
        assert len(found) == len(data)
        with torch.inference_mode():
            first = made(transform(image_module.fromarray(data.inputs[0]))[None])
        assert found.logits[0] == pytest.approx(first[0].numpy(), abs=1e-5)
        head = found.features @ found.weight.T + found.bias
        assert found.logits == pytest.approx(head, abs=1e-4)
        is_known = "/" not in name
        assert (np.asarray(found.labels) >= 0).all() == is_known
    before = (out / "train/logits.npy").stat().st_mtime_ns
    script.main()  # what is complete is not run again
    assert (out / "train/logits.npy").stat().st_mtime_ns == before
    settings = Settings(out=tmp_path / "made", outputs=tmp_path / "outputs")
    table = postmax.table1(settings).tables[-1]
    rows = {row[0]: row for row in table.rows}
    assert list(rows) == ["21K-P Easy (20)", "NINCO (10)"]
    place = table.columns.index("PostMax, paper")
    assert rows["NINCO (10)"][place].value == 0.74
