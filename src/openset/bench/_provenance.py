"""Provenance of a result: code version, machine and time."""

import platform
import subprocess
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from openset._version import __version__


class Provenance:
    """Created when work starts; `record` returns the provenance when it ends."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()

    def record(self, *, seed: int, protocol_hash: str) -> dict[str, Any]:
        """Return the provenance as plain values."""
        return {
            "version": __version__,
            "commit": commit(),
            "seed": seed,
            "protocol_hash": protocol_hash,
            "machine": f"{platform.node()} {platform.machine()}",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "started": self._started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self._clock, 3),
        }


@cache
def commit() -> str:
    """Return the commit of a checkout of openset; empty for an installed package."""
    here = Path(__file__).resolve().parent
    if not any((parent / ".git").exists() for parent in here.parents[:4]):
        return ""
    try:
        done = subprocess.run(  # noqa: S603  # fixed words and our own folder
            ["git", "-C", str(here), "rev-parse", "HEAD"],  # noqa: S607  # user's git
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
