"""The command `openset` in processes that have imported everything already."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import openset
from openset.cli import main
from tests.killing import forking
from tests.waiting import PATIENCE

SOURCES = str(Path(openset.__file__).parents[1])


def command(words):
    """Run `openset` with these words."""
    sys.argv = ["openset", *map(str, words)]
    main()


def run(words, *, cwd, path, check=True, **environment):
    """Run it in another process and folder, with one more to import from.

    Not for a study with `--jobs`: a forked process waits until joblib's idle workers
    end by themselves, which takes minutes. Returns what `subprocess.run` does.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        options = (words, cwd, path, files, environment)
        process = forking().Process(target=_work, args=options)
        process.start()
        process.join(PATIENCE)
        said = [file.read_text("utf-8") for file in files]
    done = subprocess.CompletedProcess(words, process.exitcode, *said)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def _work(words, cwd, path, files, environment):
    os.environ.update(environment, PYTHONPATH=os.pathsep.join([SOURCES, str(path)]))
    os.chdir(cwd)
    for number, file in enumerate(files, start=1):
        with file.open("wb") as stream:
            os.dup2(stream.fileno(), number)
    sys.path.insert(0, str(path))
    command(words)
