"""Shared by all tests."""

import os
import uuid
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def xp(request):
    """One after the other, the array libraries detectors promise to run on."""
    return pytest.importorskip(request.param, reason="an optional array library")


@pytest.fixture(scope="session")
def import_torchvision():
    """Let torchvision be imported, by us or by others: see :mod:`tests.vision`."""
    pytest.importorskip("torch", reason="torchvision is for it")
    from tests.vision import declare_operators  # noqa: PLC0415  # imports torch

    declare_operators()


@pytest.fixture(scope="session")
def pytorch_ood(import_torchvision):
    """Detectors of pytorch-ood, a foreign oracle. Its scores are *lower* for knowns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its own imports
        return pytest.importorskip(
            "pytorch_ood.detector", reason="a foreign oracle", exc_type=ImportError
        )


@pytest.fixture
def rng():
    """Give every test its own, repeatable random numbers."""
    return np.random.default_rng(20240527)


@pytest.fixture
def memory():
    """Return the URL of a new place in memory."""
    fsspec = pytest.importorskip("fsspec", reason="object stores are optional")
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    found, path = fsspec.url_to_fs(url)
    if found.exists(path):
        found.rm(path, recursive=True)


@pytest.fixture
def s3(monkeypatch):
    """Return the URL of a bucket, on this machine."""
    fsspec = pytest.importorskip("fsspec", reason="object stores are optional")
    pytest.importorskip("s3fs", reason="no driver for S3")
    moto = pytest.importorskip("moto.server", reason="no server of S3")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    found, name = fsspec.url_to_fs(f"s3://bucket-{uuid.uuid4().hex}")
    found.mkdir(name)
    yield f"s3://{name}/data"
    type(found).clear_instance_cache()
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def bucket(request):
    """Return the URLs of the stores that can be written to, one after the other."""
    return request.getfixturevalue(request.param)
