"""Files are written by `_io`, under a temporary name; exceptions have a reason."""

import re
from pathlib import Path

import pytest

import openset

SRC = Path(openset.__file__).parent
MODE = r"""open\([^)]*["'](r\+|[wax])"""
WRITES = re.compile(
    rf"write_(text|bytes|table)\(|\.(touch|savefig|to_csv)\(|np\.save|{MODE}"
)
PLACES = {
    "_io.py": "the temporary file itself",
    "_npz.py": "by _io.write, or into memory",
    "bench/networks.py": "into a temporary folder",
    "extract/loop.py": "into a temporary folder",
    "outputs/files.py": "into a temporary folder",
    "report/display.py": "by _io.write, or into memory",
    "scores/files.py": "under the name that _io.replacing gives",
    "train/run.py": "a line more of a log",
}


@pytest.mark.parametrize(
    "name", [path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py")]
)
def test_no_file_is_written_in_place(name):
    examples = re.compile(r"^ *(>>>|\.\.\.).*$", re.MULTILINE)
    text = examples.sub("", (SRC / name).read_text("utf-8"))
    assert name in PLACES or not WRITES.search(text)
