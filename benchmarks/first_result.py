"""How long a newcomer waits for the first useful result, for docs/start/install.md.

    python benchmarks/first_result.py

Clones this repository, runs `make demo` there, installs the clone into another new
environment and runs `openset demo`, and then that once more. Once each: most of it is
the installation, which depends on where packages come from.
"""

import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _measure import machine, put_section

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "start" / "install.md"


def taken(*commands: str, folder: Path) -> str:
    """Run commands one after the other; return their times as cells of a table."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # The package under test is the one that is installed there.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for command in commands:
        subprocess.run(  # noqa: S603  # our own commands
            shlex.split(command),
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{cpu:.0f} s | {wall:.0f} s"


def main() -> None:
    """Measure, print and write the table."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        clone = Path(place) / "openset"
        fresh = taken(
            f"git clone -q {ROOT} openset", f"make -C {clone} demo", folder=Path(place)
        )
        installed = taken(
            f"{sys.executable} -m venv own",
            "own/bin/pip install -q ./openset[report]",
            "own/bin/openset demo",
            folder=Path(place),
        )
        again = taken("own/bin/openset demo", folder=Path(place))
    text = f"""| from | CPU time | wall-clock time |
|---|---:|---:|
| a fresh clone: `git clone`, `make demo` | {fresh} |
| an environment of your own: `pip install ".[report]"`, `openset demo` | {installed} |
| an installation: `openset demo` | {again} |

`python benchmarks/first_result.py`, once, on {machine()}, with packages from a nearby
index; load average before: {load:.1f}."""
    print(text)
    put_section("first result", text, PAGE)


if __name__ == "__main__":
    main()
