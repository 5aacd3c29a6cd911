"""What this installation has: packages, devices, folders."""

import os
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from openset import _backends, _extras, _io, _xp, datasets
from openset._version import __version__
from openset.datasets import default_root

BASE = (
    "numpy",
    "scipy",
    "scikit-learn",
    "array-api-compat",
    "typer",
    "rich",
    "filelock",
    "pooch",
)

NETWORKS = ("torchvision", "timm", "transformers")
"""Packages whose networks ``openset extract`` can use (the first two: ``train``)."""

# Imported late by the package: it may not import although the package does.
_PARTS = {"transformers": "transformers.image_utils"}


@dataclass(frozen=True)
class Extra:
    """An optional group of packages, and what it is used for."""

    name: str
    packages: tuple[str, ...]
    gives: str
    imports: str = ""  # a package that it imports where it is there, whole or broken

    @property
    def versions(self) -> dict[str, str | None]:
        """Versions by package; None where it is missing."""
        return {name: version_of(name) for name in self.packages}


EXTRAS = (
    Extra("tables", ("pandas", "pyarrow"), "scores and results as tables, .parquet"),
    Extra(
        "torch",
        ("torch", "lightning-fabric", "safetensors"),
        "detectors on GPUs, extraction, training",
    ),
    Extra("tensorboard", ("tensorboard",), "--log-to tensorboard"),
    Extra("mlflow", ("mlflow-skinny",), "--log-to mlflow, rejectors as MLflow models"),
    Extra("wandb", ("wandb",), "--log-to wandb"),
    Extra("faiss", ("faiss-cpu",), "approximate neighbours"),
    Extra("report", ("jinja2", "matplotlib"), "figures and the report page"),
    Extra("bench", ("pydantic", "pyyaml"), "studies from YAML files"),
    Extra("cluster", ("ray",), "studies on many machines"),
    Extra("cloud", ("fsspec",), "shards and rejectors in object stores (s3://...)"),
    Extra(
        "serve",
        ("fastapi", "uvicorn", "prometheus-client", "python-multipart"),
        "openset serve",
    ),
    Extra("vision", ("pillow",), "image data sets"),
    Extra("onnx", ("onnx", "onnxscript", "onnxruntime"), "openset export"),
    Extra(
        "torchmetrics",
        ("torchmetrics",),
        "metrics inside training loops",
        imports="torchvision",
    ),
    Extra(
        "transformers",
        ("transformers", "accelerate"),
        "a callback for the Trainer of Hugging Face",
        imports="torchvision",
    ),
    Extra(
        "hub",
        ("datasets", "huggingface-hub"),
        "data sets and rejectors of the Hugging Face hub",
    ),
    Extra(
        "docs",
        (
            "latex2mathml",
            "myst-parser",
            "numpydoc",
            "pydata-sphinx-theme",
            "sphinx",
            "sphinx-design",
            "sphinx-gallery",
        ),
        "the documentation as a site",
    ),
)


def version_of(package: str) -> str | None:
    """Return the installed version, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine() -> dict[str, Any]:
    """Collect all information; missing packages are not errors."""
    networks = {name: _imported(name) for name in NETWORKS}
    return {
        "openset": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version_of(name) for name in BASE},
        "extras": {extra.name: extra.versions for extra in EXTRAS},
        "broken": _broken(networks),
        "networks": networks,
        "cores": _backends.cores(),
        "memory_bytes": _xp.machine_memory(),
        "blas": _blas(),
        "cuda": _cuda(),
        "data": _data(),
        "temporary": _folder(Path(tempfile.gettempdir())),
    }


def _imported(package: str) -> dict[str, str | None]:
    """Return the version, and the reason if the package cannot be imported.

    An installed package may still fail to import, if it was compiled for another torch.
    """
    version = version_of(package)
    if version is None:
        return {"version": None, "why": "not installed"}
    try:
        import_module(_PARTS.get(package, package))
    except _extras.BROKEN_IMPORT as error:
        return {"version": version, "why": _extras.first_line(error)}
    return {"version": version, "why": None}


def _broken(networks: dict[str, dict[str, str | None]]) -> dict[str, str]:
    """Return the installed extras that do not import, with the package to blame."""
    return {
        extra.name: extra.imports
        for extra in EXTRAS
        if extra.imports
        and None not in extra.versions.values()
        and networks[extra.imports]["version"] is not None
        and networks[extra.imports]["why"] is not None
    }


def _blas() -> list[dict[str, Any]]:
    # scikit-learn depends on it; it finds only libraries that are loaded.
    pools = import_module("threadpoolctl")
    import_module("scipy.linalg")
    return [
        {
            "library": pool["internal_api"],
            "version": pool["version"],
            "threads": pool["num_threads"],
        }
        for pool in pools.threadpool_info()
    ]


def _cuda() -> dict[str, Any]:
    if version_of("torch") is None:
        return {"why": "torch is not installed", "devices": []}
    try:
        torch = import_module("torch")
    except (ImportError, OSError) as error:  # report the rest even if torch is broken
        return {"why": f"torch does not import: {error}", "devices": []}
    if torch.version.cuda is None:
        return {"why": "torch is built for the CPU", "devices": []}
    devices = list(_devices(torch)) if torch.cuda.is_available() else []
    why = None if devices else "torch finds no device"
    return {"why": why, "devices": devices}


def _devices(torch: Any) -> Iterator[dict[str, Any]]:
    for i in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(i)
        yield {"name": found.name, "memory_bytes": found.total_memory}


def _data() -> dict[str, Any]:
    root = default_root()
    here = datasets.available(root)
    return {**_folder(root), "here": here, "known": len(datasets.names())}


def _folder(path: Path) -> dict[str, Any]:
    existing = next(p for p in (path, *path.parents) if _io.is_there(p))
    return {
        "path": str(path),
        "exists": _io.is_there(path),
        "writable": os.access(existing, os.W_OK),
    }
