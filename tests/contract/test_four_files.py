"""A new detector touches four files: its module, one line, its test, the changelog.

The line is the import in ``detectors/__init__.py``. What else names every detector
(lists, tables, the command line, contracts, graphs) must find it by itself: here a toy
is added to a copy of the package, and all tests that loop over detectors are run on it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOY = '''"""Toy: the largest logit less the mean logit."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._base import Detector
from openset.detectors._batch import Batch, State


@dataclass(frozen=True, kw_only=True)
class Toy(Detector):
    """Largest logit less the mean logit."""

    score_cost = "C"
    paper = "nobody"

    def _score(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)
        return batch.top_logit - xp.mean(batch.logits, axis=1)

    def _onnx(self, sample):
        return sample.top_logit - sample.logits.sum() / sample.n_classes
'''
LINE = "from openset.detectors.vim import ViM\n"
# Everything that loops over detectors, or lists them.
TESTS = [
    "tests/contract/test_detectors.py",
    "tests/unit/detectors/test_base.py",
    "tests/unit/integrations/test_onnx.py",
    "tests/unit/integrations/test_torch.py",
    "tests/unit/cli/test_widths.py",
    "tests/unit/bench/test_read.py",
]
CHOSEN = "toy or registry"


def test_a_toy_detector_passes_everything(tmp_path):
    for name in ("src", "tests", "docs", "examples"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "conftest.py", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "openset" / "detectors"
    (package / "toy.py").write_text(TOY)
    front = package / "__init__.py"
    added = "from openset.detectors.toy import Toy as Toy\n"
    front.write_text(front.read_text().replace(LINE, added + LINE))
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *TESTS, "-k", CHOSEN],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    listed = subprocess.run(
        [sys.executable, "-m", "openset", "detectors"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert " toy " in listed.stdout
