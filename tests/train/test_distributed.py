"""Two processes on one CPU give what one gives."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import load_file

from openset.train import Trained
from tests.train.tiny import fit_tiny
from tests.train.two_processes import cases
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
NAMES, WEIGHTS = list(cases()), "weights.safetensors"
TIMES = ("seconds", "samples_per_second")

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or sys.platform == "win32",
    reason="needs gloo",
)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Return the folder where two processes under torchrun have trained all cases."""
    folder = tmp_path_factory.mktemp("together")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    program = ["--nproc-per-node=2", "-m", "tests.train.two_processes"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    done = subprocess.run(  # noqa: S603  # our own program
        [*launcher, *program, str(folder)], cwd=ROOT, env=os.environ | own,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Warning" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the folder where this process has trained them."""
    folder = tmp_path_factory.mktemp("alone")
    for name, case in cases().items():
        fit_tiny(out=folder / name, **case)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_get_the_weights_the_outputs_and_the_log_of_one(
    together, alone, name
):
    near = {"rtol": 1e-3, "atol": 1e-5}
    one, two = (load_file(at / name / WEIGHTS) for at in (alone, together))
    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-6)
    one, two = Trained.load(alone / name), Trained.load(together / name)
    assert one.outputs.keys() == two.outputs.keys()
    for part, outputs in one.outputs.items():  # complete, in order, no duplicates
        found = two.outputs[part]
        assert_array_equal(found.labels, outputs.labels)
        assert_array_equal(found.groups, outputs.groups)
        assert np.unique(found.features, axis=0).shape == found.features.shape
        assert_allclose(found.features, outputs.features, **near)
        assert_allclose(found.logits, outputs.logits, **near)
    for rule, scores in one.scores.items():
        assert_allclose(two.scores[rule].known, scores.known, **near)
    for line, other in zip(one.log, two.log, strict=True):  # each sample counts once
        assert line.keys() == other.keys()
        for key in line.keys() - set(TIMES):
            assert other[key] == pytest.approx(line[key], rel=1e-3, abs=1e-5), key


def test_two_processes_go_on_from_one_checkpoint(together):
    whole, resumed = (load_file(together / n / WEIGHTS) for n in ("even", "resumed"))
    torch.testing.assert_close(resumed, whole, rtol=0, atol=0)
    assert len(Trained.load(together / "resumed").log) == 4


def test_updates_that_leave_parameters_alone_do_not_stop_two_processes(together):
    trained = Trained.load(together / "confusing")
    assert np.isfinite(trained.log[0]["loss"])
    assert len(trained.outputs["train"]) == 9
