"""Training methods from outside the package: found, trained, saved and loaded."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import datasets, protocols
from openset._types import ArtefactError
from openset.cli import app
from openset.train import Job, Trained, methods
from openset.train.methods import REGISTRY
from tests import forked
from tests.train.tiny import fit_tiny, rows_data

ROOT = Path(__file__).parents[3]
# A method as a researcher would write it: an option, a parameter, a score of its own.
MODULE = '''
import torch
from torch import nn
from openset.train.methods import Method, Response


class Scaled(Method):
    """Cross-entropy of logits times one learned number."""

    score = "custom"
    has_linear_head = False
    start: float = 2.0

    def build(self, network):
        self.scale = nn.Parameter(torch.tensor(self.start))

    def loss(self, network, inputs, labels):
        logits = self.logits(network, network.backbone(inputs))
        return self.cross_entropy(logits, labels), logits

    def logits(self, network, features):
        return self.scale * network.head(features)

    def respond(self, network, features):
        logits = self.logits(network, features).float()
        return Response(logits, logits.logsumexp(dim=1))
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Put the module where it can be imported; forget it and its method afterwards."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "guestloss.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("guestloss", None)
    REGISTRY._values.pop("scaled", None)


def test_a_guest_is_trained_by_the_command_line_and_loaded_in_another_process(
    module, tmp_path
):
    digits = datasets.load("digits")
    protocols.holdout(digits, 6, 4, rng=0).save(tmp_path / "p.json")
    words = (
        "train", "--method", "guestloss:Scaled:start=3", "--data", "digits",
        "--protocol", "p.json", "--recipe", "arpl", "--epochs", 1, "--set",
        "accelerator=cpu", "--out", "run",
    )  # fmt: skip
    done = forked.run(words, cwd=tmp_path, path=module)
    assert "Scaled, test part" in done.stdout
    spec = json.loads((tmp_path / "run" / "trained.json").read_text())["spec"]
    assert (spec["method"], spec["plugin"]) == ("scaled", "guestloss:Scaled")
    assert spec["options"] == {"start": 3}
    # Here, where nobody has named it, the run is read but its code is not imported.
    loaded = Trained.load(tmp_path / "run")
    assert "guestloss" not in sys.modules
    with pytest.raises(ArtefactError, match=r"'scaled', saved as guestloss:Scaled"):
        loaded.model()
    assert "guestloss" not in sys.modules
    new = tmp_path / "new.npz"
    words = ["extract", tmp_path / "run", "digits", "--out", new]
    done = CliRunner().invoke(app, [*map(str, words), "--plugin", "guestloss:Scaled"])
    assert "of known classes, accuracy" in done.output, done.output
    named = Trained.load(tmp_path / "run", plugins=["guestloss:Scaled"])
    found = named.apply(datasets.load("digits").inputs, progress=False)
    extracted = np.load(new)["logits"]
    np.testing.assert_allclose(found.logits, extracted, rtol=1e-5, atol=1e-5)


def test_a_guest_is_found_by_its_name_once_it_is_imported(module):
    with pytest.raises(ValueError, match=r"method must be one of .*'package.module:N"):
        fit_tiny(method="scaled")
    import guestloss  # noqa: PLC0415  # it is there for this test only

    for method in ("scaled", guestloss.Scaled, "guestloss:Scaled"):
        trained = fit_tiny(method=method, epochs=1, options={"start": 1.5})
        assert trained.spec["method"] == "scaled"
        logits = trained.outputs["test"].logits.astype(np.float64)
        score = np.log(np.exp(logits).sum(axis=1))
        np.testing.assert_allclose(
            trained.scores["published"].known, score, rtol=1e-4, atol=1e-5
        )
    assert "scaled" in methods.names()
    assert "scaled" not in REGISTRY.built_in()


def test_what_could_not_be_loaded_again_is_refused_before_training(tmp_path):
    class Local(methods.softmax.Softmax, register=False):
        """Defined inside a function."""

    with pytest.raises(ValueError, match=r"could not be loaded again: it is defined i"):
        Job(method=Local, data=rows_data(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
