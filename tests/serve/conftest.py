"""Rejectors on disk, and servers that serve them."""

import io
from dataclasses import replace

import numpy as np
import pytest
from tests.serve.live import serving

from openset import Outputs, Rejector, detectors
from openset.rejector import SetRule

CLASSES = ("cat", "dog", "eel")


def split(seed, n, *, unknown):
    """Draw outputs of three classes and of unknowns around the origin."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < unknown, -1, rng.integers(0, 3, n))
    centres = np.vstack([4 * np.eye(3, 5), np.zeros(5)])
    features = rng.normal(size=(n, 5)) + centres[labels]
    return Outputs(
        logits=2 * features[:, :3], features=features, labels=labels, classes=CLASSES
    )


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.fixture(scope="session")
def test_split():
    return split(3, 200, unknown=0.4)


def calibrated(detector):
    fitted = detector.fit(split(1, 300, unknown=0))
    return Rejector.calibrate(fitted, known=split(2, 300, unknown=0.4))


@pytest.fixture(scope="session")
def rejector():
    """PostMax, which needs logits and features."""
    return calibrated(detectors.PostMax())


@pytest.fixture(scope="session")
def by_logits():
    """Max probability, which needs logits alone."""
    return calibrated(detectors.MSP())


@pytest.fixture(scope="session")
def with_sets(by_logits):
    """Max probability with prediction sets, often of several classes."""
    rule = SetRule(coverage=0.9, limit=0.9999, n=300)
    return replace(by_logits, sets=rule)


@pytest.fixture(scope="session")
def folder(rejector, tmp_path_factory):
    return rejector.save(tmp_path_factory.mktemp("serve") / "rejector")


@pytest.fixture(scope="session")
def logits_folder(by_logits, tmp_path_factory):
    return by_logits.save(tmp_path_factory.mktemp("serve") / "by-logits")


@pytest.fixture(scope="session")
def live(folder):
    """One server for many tests: that it lives on is part of what they test."""
    with serving(folder, "--max-megabytes", 1) as server:
        yield server
        assert server.get("/healthz").json()["status"] == "ok"


@pytest.fixture(scope="session")
def by_pixels():
    """Make a tiny network for images, and a rejector of its outputs."""
    torch = pytest.importorskip("torch", reason="the extra torch")
    pytest.importorskip("PIL", reason="the extra vision")
    from tests.serve.test_images import as_calibrated  # noqa: PLC0415

    from openset import extract  # noqa: PLC0415  # needs torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 4))
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    model = extract.load(layers, side=16, mean=mean, std=std)
    return model, as_calibrated(model, classes=("ant", "bee", "cat", "dog"))
