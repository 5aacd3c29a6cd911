"""A detector that kills the process it is fitted in: a lost worker, at a chosen point.

Studies name it as ``tests.bench.fatal:Fatal``.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from openset.detectors import MSP


@dataclass(frozen=True, kw_only=True)
class Fatal(MSP):
    """MSP; the process that fits it first dies, or every one does.

    Parameters
    ----------
    mark
        A file. Who creates it dies; who finds it there lives. Without it all die.
    node
        Whether the Ray node it runs on dies, too.
    """

    name = "fatal"

    mark: str = ""
    node: bool = False

    def fit_state(self, train):  # noqa: D102
        try:
            if self.mark:
                Path(self.mark).open("x", encoding="utf-8").close()
        except FileExistsError:
            return {}
        if self.node:
            parent = os.getppid()
            assert "raylet" in Path(f"/proc/{parent}/cmdline").read_text(
                encoding="utf-8"
            )
            os.kill(parent, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError  # nobody comes here


@dataclass(frozen=True, kw_only=True)
class Held(MSP):
    """MSP; the process that fits it first writes its number to `mark`, and waits.

    It waits until it is killed. Who finds the file there goes on.
    """

    name = "held"

    mark: str = ""

    def fit_state(self, train):  # noqa: D102
        path = Path(self.mark)
        if not path.exists():
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_text(str(os.getpid()))
            partial.rename(path)
            signal.pause()
        return {}
