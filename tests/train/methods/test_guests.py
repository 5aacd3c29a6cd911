"""Training methods from outside the package: found, trained, saved and loaded."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp

from openset._types import ArtefactError
from openset.datasets import cut
from openset.train import Job, Trained, methods
from openset.train.methods import REGISTRY
from tests.train.tiny import fit_tiny, last_unknown, rows_data

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


def forget():
    """Be as in a process that has not heard of the method."""
    sys.modules.pop("guestloss", None)
    REGISTRY._values.pop("scaled", None)


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """Put the module where it can be imported; forget it and its method afterwards."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "guestloss.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield
    forget()


def test_the_run_of_a_guest_is_read_but_its_code_not_imported_unless_named(tmp_path):
    how = {"method": "guestloss:Scaled", "options": {"start": 3}, "epochs": 1}
    trained = fit_tiny(out=tmp_path / "run", **how)
    assert (trained.spec["method"], trained.spec["plugin"]) == ("scaled", how["method"])
    forget()
    loaded = Trained.load(tmp_path / "run")
    with pytest.raises(ArtefactError, match=r"'scaled', saved as guestloss:Scaled"):
        loaded.model()
    assert "guestloss" not in sys.modules
    named = Trained.load(tmp_path / "run", plugins=[how["method"]])
    test = cut(rows_data(), last_unknown(rows_data())).test
    found = named.apply(test.inputs, progress=False)
    np.testing.assert_array_equal(found.logits, trained.outputs["test"].logits)


def test_a_guest_is_found_by_its_name_once_it_is_imported():
    with pytest.raises(ValueError, match=r"method must be one of .*'package.module:N"):
        fit_tiny(method="scaled")
    import guestloss  # noqa: PLC0415  # it is there for this test only

    for method in ("scaled", guestloss.Scaled, "guestloss:Scaled"):
        trained = fit_tiny(method=method, epochs=1, options={"start": 1.5})
        assert trained.spec["method"] == "scaled"
        score = logsumexp(trained.outputs["test"].logits, axis=1)
        known = trained.scores["published"].known
        np.testing.assert_allclose(known, score, rtol=1e-4, atol=1e-5)
    assert "scaled" in methods.names()
    assert "scaled" not in REGISTRY.built_in()


def test_what_could_not_be_loaded_again_is_refused_before_training(tmp_path):
    class Local(methods.softmax.Softmax, register=False):
        """Defined inside a function."""

    with pytest.raises(ValueError, match=r"could not be loaded again: it is defined i"):
        Job(method=Local, data=rows_data(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
