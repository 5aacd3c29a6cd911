"""Triton's kernels, run in its interpreter: no GPU is needed."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
HAS_TRITON = find_spec("triton") is not None


def run_in_interpreter(code):
    """Run code in a process of its own, whose kernels are interpreted."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(  # noqa: S603
        command, check=False, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
