"""Timing and peak memory of one call in a fresh process, and where results go."""

import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def timed(function: Callable[[], object], repeats: int) -> dict[str, float]:
    """Median, least and largest wall time, and the memory on top of the start."""
    function()  # warm up: imports, page cache, thread pools
    before = _status("VmRSS")
    _forget_peak()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
        del result
    return {
        "median": statistics.median(times),
        "least": min(times),
        "largest": max(times),
        "extra": max(_status("VmHWM") - before, 0),
    }


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def in_fresh_process(script: str, *arguments: str) -> dict[str, float]:
    """Run ``script --one ...`` and read the JSON it prints last."""
    command = [sys.executable, script, "--one", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine() -> str:
    """Describe the machine in a line."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def save_claim(name: str, claim: str, rows: list[dict[str, Any]], **about: Any) -> None:
    """Write results/NAME.json: what was measured, how, on what, and the rows.

    `about` has ``data``, ``n``, ``seeds``; and ``machine`` where it is not this one.
    """
    packages = ("numpy", "scipy", "scikit-learn", "torch")
    found = {
        "claim": claim,
        "command": " ".join(
            ["python", "benchmarks/" + Path(sys.argv[0]).name, *sys.argv[1:]]
        ),
        "commit": _commit(),
        "machine": machine(),
        "packages": {one: version(one) for one in packages},
    }
    # A row on a line: a changed number is a changed line.
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    head = json.dumps(found | about, indent=1).removesuffix("\n}")
    text = f'{head},\n "rows": [\n  {lines}\n ]\n}}\n'
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    print(f"results/{name}.json: {len(rows)} rows")


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout.strip()


def need_gpu(remedy: str = "") -> None:
    """End the program where there is no GPU, before anything is read or written."""
    import torch

    if not torch.cuda.is_available():
        sys.exit(f"this needs a GPU, and torch finds none{remedy}")


def seconds(value: float) -> str:
    """Write a duration for people."""
    return f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value:.2f} s"


def need_device(device: str, *, trial: str) -> str:
    """Return the device; end with one line where there is none of its kind.

    `trial` is the command that runs the same steps, small, on a processor.
    """
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(
            f"--device {device} needs a GPU, and a torch built for CUDA: this is torch "
            f"{torch.__version__}, which finds none. Try the same steps on the CPU: "
            f"python benchmarks/{trial}"
        )
    return device


@cache
def let_torchvision_import() -> object:
    """Declare two operators that torchvision misses beside a CPU build of torch."""
    import torch

    found = importlib.util.find_spec("torchvision")
    if found is None:
        return None
    try:
        torch.ops.load_library(Path(found.submodule_search_locations[0]) / "_C.so")
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor d, Tensor s, float t) -> Tensor")
        return library
    return None
