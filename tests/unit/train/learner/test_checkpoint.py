"""A checkpoint brings back what was there, memory format included."""

import torch
from torch import nn

from openset.train.learner import _checkpoint


def trained(seed):
    """Return a network in channels-last format and its optimiser, after a step."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2))
    network = network.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    network(torch.randn(5, 3, 4, 4)).square().sum().backward()
    optimiser.step()
    return network, optimiser


def test_buffers_have_the_memory_format_of_their_weights(tmp_path):
    network, optimiser = trained(0)
    path = tmp_path / "checkpoint.safetensors"
    _checkpoint.save(path, network, {"classifier": optimiser}, epoch=3, spec={})
    other, fresh = trained(1)
    assert _checkpoint.load(path, other, {"classifier": fresh}) == 3
    pairs = zip(network.parameters(), other.parameters(), strict=True)
    for before, after in pairs:
        kept = optimiser.state[before]["momentum_buffer"]
        found = fresh.state[after]["momentum_buffer"]
        assert torch.equal(found, kept)
        # The fused optimisers of CUDA want the same strides.
        assert found.stride() == after.stride()
    assert other[0].weight.is_contiguous(memory_format=torch.channels_last)
