"""Time and memory at the size of the PostMax paper: 1.28 million x 1000 logits."""

import os
import platform
import shutil
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openset import detectors, thresholds
from openset._types import UNKNOWN
from openset.detectors import Detector
from openset.outputs import Outputs
from openset.reproduce._item import Content, Settings
from openset.reproduce._operational import joined
from openset.reproduce._table import Entry, Table

SIZES = {"train": 1_281_167, "validation": 10_000, "test": 50_000, "surrogate": 9_800}
"""Samples of the parts: ILSVRC2012, ImageNetV2 and 20 % of ImageNet-21K-P Hard."""

_CHUNK = 1 << 14
_METHODS: dict[str, Detector] = {
    "PostMax": detectors.PostMax(),
    "MSP": detectors.MSP(),
    "MaxLogit": detectors.MaxLogit(),
    "SCALE": detectors.SCALE(),
    "NNGuide, 1 % of the training samples": detectors.NNGuide(bank=0.01),
}


def scale(
    settings: Settings,
    *,
    share: float = 1.0,
    n_classes: int = 1000,
    n_features: int = 1280,
) -> Content:
    """Fit, choose a threshold and decide on synthetic outputs of the paper's size.

    `share` of all samples is used. The outputs are written to disk, mapped, and removed
    at the end.
    """
    folder = settings.out / "outputs"
    sizes = {part: max(int(n * share), 100) for part, n in SIZES.items()}
    started = time.perf_counter()
    for part, n in sizes.items():
        if not (folder / part / "meta.json").exists():
            _write(folder / part, n, n_classes, n_features, part)
    seconds = time.perf_counter() - started
    parts = {part: Outputs.load(folder / part) for part in sizes}
    rows = tuple(_row(title, method, parts) for title, method in _METHODS.items())
    n_bytes = sum(path.stat().st_size for path in folder.rglob("*.npy"))
    del parts  # Windows keeps files that are mapped
    shutil.rmtree(folder)
    return Content(
        tables=(
            Table(
                title=f"{sizes['train']:,} training samples, {n_classes:,} classes, "
                f"{n_features:,} features, float32",
                columns=(
                    "method",
                    "fit, s",
                    "memory, MB",
                    "threshold, s",
                    "memory for it, MB",
                    "decisions, s",
                    "memory for them, MB",
                ),
                rows=rows,
                digits=1,
            ),
        ),
        notes=(
            f"Threshold: {sizes['validation']:,} known and {sizes['surrogate']:,} "
            f"unknown samples scored; decisions: {sizes['test']:,} samples scored and "
            "compared with it.",
            f"Outputs of {n_bytes / 1e9:.1f} GB in memory-mapped files, made in "
            f"{seconds:.0f} s; memory is the peak that Python and NumPy allocated "
            "(tracemalloc), without the mapped files.",
            f"{os.cpu_count()} cores ({platform.machine()}); other work may have "
            "shared them.",
        ),
    )


def _write(folder: Path, n: int, n_classes: int, n_features: int, part: str) -> None:
    """Write random outputs in pieces: logits with one larger, features above zero."""
    rng = np.random.default_rng(len(part))
    folder.mkdir(parents=True, exist_ok=True)
    labels = rng.integers(0, n_classes, n)
    shapes = {"logits": n_classes, "features": n_features}
    files = {
        name: np.lib.format.open_memmap(
            folder / f"{name}.npy", "w+", np.float32, (n, width)
        )
        for name, width in shapes.items()
    }
    gap = 3.0 if part == "surrogate" else 8.0
    for first in range(0, n, _CHUNK):
        rows = slice(first, min(first + _CHUNK, n))
        size = rows.stop - rows.start
        logits = rng.standard_normal((size, n_classes), dtype=np.float32)
        logits[np.arange(size), labels[rows]] += gap
        files["logits"][rows] = logits
        features = rng.standard_normal((size, n_features), dtype=np.float32)
        files["features"][rows] = np.abs(features)
    for array in files.values():
        array.flush()
    labels = np.full(n, UNKNOWN) if part == "surrogate" else labels
    np.save(folder / "labels.npy", labels)
    np.save(folder / "weight.npy", np.zeros((n_classes, n_features), np.float32))
    np.save(folder / "bias.npy", np.zeros(n_classes, np.float32))
    text = '{"kind": "openset.Outputs", "schema": 1, "classes": []}'
    (folder / "meta.json").write_text(text, encoding="utf-8")


def _row(title: str, method: Detector, parts: dict[str, Outputs]) -> tuple[Entry, ...]:
    fitted, *fitting = _measured(lambda: method.fit(parts["train"]))

    def choose() -> Any:
        known, other = (fitted.score(parts[p]) for p in ("validation", "surrogate"))
        return thresholds.osa(joined(known, other))

    chosen, *choosing = _measured(choose)
    accepted, *deciding = _measured(
        lambda: fitted.score(parts["test"]).known >= chosen.value
    )
    if accepted.size != len(parts["test"]):  # pragma: no cover  # cannot happen
        msg = "reproduce: every sample must be decided on"
        raise RuntimeError(msg)
    return (title, *fitting, *choosing, *deciding)


def _measured(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, the seconds it took, and the peak of memory in MB."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        found = function()
        seconds = time.perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return found, seconds, peak / 1e6
