"""`openset doctor`."""

import os
import platform
import re
from importlib import import_module, metadata
from typing import Any

import openset
from openset.cli.options import Json
from openset.cli.terminal import print_json, say, table

HIDDEN = ("dev", "docs")  # extras of those who work on the package


def command(as_json: Json = False) -> None:
    """Show installed packages, devices, and the folder of data sets.

    Missing packages are not errors: the exit code is 0.

        openset doctor
        openset doctor --json
    """
    packages: dict[str, dict[str, str | None]] = {}
    for text in metadata.requires("openset") or ():
        name, found = re.split(r"[^\w-]", text)[0], re.search(r"extra == '(.+)'", text)
        extra = found[1] if found else ""
        if extra not in HIDDEN:
            packages.setdefault(extra, {})[name] = _version(name)
    root = openset.datasets.default_root()
    about: dict[str, Any] = {
        "openset": openset.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "gpus": _gpus(),
        "data": str(root),
        "data sets here": openset.datasets.available(root),
    }
    if as_json:
        print_json(about | {"packages": packages.pop(""), "extras": packages})
        return
    for key, value in about.items():
        say(f"{key}: {', '.join(value) if isinstance(value, list) else value}")
    rows = []
    for extra, versions in packages.items():
        have = ", ".join(f"{name} {v or 'missing'}" for name, v in versions.items())
        is_there = None not in versions.values()
        row = {"extra": extra or "(always)", "": "yes" if is_there else "no"}
        rows.append(row | {"packages": have})
    table(rows, 'Packages; what is missing: pip install "openset[EXTRA]"')


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str] | str:
    """Return the names of the GPUs; or why there are none."""
    try:
        cuda = import_module("torch").cuda
    except (ImportError, OSError) as error:  # the rest is told even if torch is broken
        return f"none: torch does not import ({error})"
    names = [cuda.get_device_name(i) for i in range(cuda.device_count())]
    return names or "none: torch finds no device, or is built for the CPU"
