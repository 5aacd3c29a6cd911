"""ODIN's step of the inputs."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from openset.extract import Odin, extract

N = 11


def network():
    torch.manual_seed(0)
    parts = (nn.Tanh(), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten())
    return nn.Sequential(nn.Conv2d(3, 4, 3), *parts, nn.Linear(64, 5))


def images():
    torch.manual_seed(1)
    return torch.rand(N, 3, 6, 6)


def loader():
    data = TensorDataset(images(), torch.arange(N) % 5)
    return DataLoader(data, batch_size=4)


def confidence(model, image, temperature):
    """Return the logarithm of the largest probability, by its definition."""
    logits = model(image[None])[0] / temperature
    return torch.log(torch.exp(logits).max() / torch.exp(logits).sum())


def slowly(model, temperature, epsilon, std):
    """Return the logits after the step, sample by sample in float64."""
    model = model.double().eval()
    rows = []
    for image in images().double():
        start = image.clone().requires_grad_()
        confidence(model, start, temperature).backward()
        sign = start.grad.sign() / torch.tensor(std).double()[:, None, None]
        rows.append(model((image + epsilon * sign)[None])[0].detach().numpy())
    return np.stack(rows)


@pytest.mark.parametrize("std", [None, (0.5, 1.0, 2.0)])
def test_the_step_is_that_of_a_slow_oracle(std):
    step = Odin(temperature=10, epsilon=0.03, std=std)
    found = extract(network(), loader(), step=step)
    expected = slowly(network(), 10, 0.03, std or (1.0, 1.0, 1.0))
    assert_allclose(found.logits, expected, atol=1e-5)
    assert np.abs(found.logits - extract(network(), loader()).logits).max() > 0.01


TOKENS = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 2))


NO_STEPS = {
    r"Odin: inputs must be one tensor of real": lambda: extract(
        TOKENS, [torch.zeros(3, 2).long()], step=Odin()
    ),
    "temperature must be a number": lambda: Odin(temperature=0),
    "epsilon must be a number": lambda: Odin(epsilon=-1),
    "length 1; 2 is required": lambda: Odin.of("odin:epsilon"),
    "unexpected keyword argument 'length'": lambda: Odin.of("odin:length=1"),
    "step must be that of ODIN": lambda: Odin.of("layered:epsilon=1"),
}


@pytest.mark.parametrize("said", NO_STEPS)
def test_what_is_no_step_is_named(said):
    with pytest.raises((ValueError, TypeError), match=said):
        NO_STEPS[said]()


def test_words_make_the_step_again():
    assert Odin.of("odin") == Odin()
    for step in (Odin(epsilon=1), Odin(temperature=3, std=(0.1, 0.25, 1))):
        assert Odin.of(step.words) == step
        assert extract(network(), loader(), step=step).input_step == step.words
