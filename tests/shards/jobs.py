"""A job whose first worker dies; in a module that workers import quickly."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openset import shards


@dataclass(frozen=True)
class Fatal(shards.Predict):
    """Decisions; who creates the file `mark` dies before a shard is written."""

    mark: str = ""

    def do(self, loaded, shard, results):
        """Write the decisions, or die."""
        with suppress(FileExistsError):
            Path(self.mark).open("x", encoding="utf-8").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().do(loaded, shard, results)
