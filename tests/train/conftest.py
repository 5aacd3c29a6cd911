"""Shared by the tests of training."""

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Give torch one thread: on tiny tensors more only wait for each other."""
    torch = pytest.importorskip("torch", reason="the extra torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
