"""A detector that ends the process it is fitted in: a lost worker, at a chosen point.

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
        A file. Who creates it, and writes its number there, dies; who finds it there
        lives. Without it all die.
    end
        What dies: the "process", the Ray "node" it runs on, too; or, if it is "held",
        nothing, but the process waits until it is killed.
    """

    name = "fatal"

    mark: str = ""
    end: str = "process"

    def fit_state(self, train):  # noqa: D102
        try:
            if self.mark:
                with Path(self.mark).open("x", encoding="utf-8") as stream:
                    stream.write(str(os.getpid()))
        except FileExistsError:
            return {}
        if self.end == "held":
            signal.pause()
        if self.end == "node":
            parent = os.getppid()
            assert "raylet" in Path(f"/proc/{parent}/cmdline").read_text("utf-8")
            os.kill(parent, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError  # nobody comes here
