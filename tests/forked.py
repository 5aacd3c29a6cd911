"""The command `openset` in processes that have imported everything already."""

import os
import sys
from pathlib import Path

from openset.cli import main
from tests.killing import forking
from tests.waiting import PATIENCE


def write_to(path):
    """Let all that this process says go to a file."""
    with Path(path).open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)


def command(words):
    """Run `openset` with these words."""
    sys.argv = ["openset", *map(str, words)]
    main()


def run(words, *, cwd, path):
    """Run it in another process and folder, with one more to import from."""
    process = forking().Process(target=_work, args=(words, cwd, path))
    process.start()
    process.join(PATIENCE)
    said = (cwd / "said.txt").read_text("utf-8")
    assert process.exitcode == 0, said
    return said


def _work(words, cwd, path):
    os.chdir(cwd)
    write_to("said.txt")
    sys.path.insert(0, str(path))
    command(words)
