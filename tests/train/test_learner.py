"""The rotation head: what it learns from, and what it leaves alone."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from openset.train import Trained, methods
from openset.train.augment import Pipeline
from openset.train.learner import Learner, WithExtraSamples, quarter_turns
from openset.train.methods import make
from openset.train.networks import Classifier32
from tests.train.tiny import (
    fit_tiny,
    image_data,
    needs_negatives,
    rows_data,
    rows_network,
)

ON_ROWS = [name for name in methods.REGISTRY.built_in() if name != "arpl_cs"]
PLACES = [
    (name, place)
    for name in ON_ROWS
    if "place" in methods.find(name).options()
    for place in ("input", "first", "penultimate")
]


def images(n, side=16):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(
        0, 256, (n, 3, side, side), generator=generator, dtype=torch.uint8
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 16, 129])
def test_half_of_the_batch_is_turned_a_third_each_way(n):
    batch = images(n)
    turned, turns = quarter_turns(batch)
    m = len(turned)
    assert m == min(n, max(3, n // 2))
    assert turns[:n].tolist() == [0] * n
    for i, k in enumerate(turns[n:].tolist()):
        expected = np.rot90(batch[i].numpy(), k, axes=(1, 2))
        assert_array_equal(turned[i].numpy(), expected)
    counts = np.bincount(turns[n:], minlength=4)[1:]
    assert counts.max() - counts.min() <= 2
    assert (n < 3) or counts.min() > 0


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in ON_ROWS] + [(n, {"place": p}) for n, p in PLACES],
)
def test_a_method_does_not_notice_the_samples_beside_its_own(name, options):
    torch.manual_seed(0)
    n_extra = methods.find(name).n_extra
    network = rows_network(3 + n_extra)
    method = make(name, n_classes=3, network=network, **options)
    rows, labels = torch.randn(8, 4), torch.arange(8) % 3
    more = torch.randn(5, 4)
    own = {"negatives": torch.randn(4, 4)} if needs_negatives(name) else {}
    torch.manual_seed(1)
    loss, logits = method.loss(network, rows, labels, **own)
    torch.manual_seed(1)
    both = WithExtraSamples(network, more)
    other, others = method.loss(both, rows, labels, **own)
    torch.testing.assert_close(other, loss)
    torch.testing.assert_close(others, logits)
    expected = network.backbone(torch.cat([rows, more]))
    torch.testing.assert_close(both.features(8), expected)
    # They went along once; a second pass is the method's own business.
    torch.testing.assert_close(both(rows), network(rows))


def test_the_loss_is_that_of_the_method_plus_the_cross_entropy_of_the_turns():
    torch.manual_seed(0)
    network = Classifier32(3)
    for module in network.modules():
        if isinstance(module, nn.Dropout2d):
            module.p = 0.0
    method = make("softmax", n_classes=3, network=network)
    learner = Learner(network, method, Pipeline(), (3, 16, 16), rotation=0.25)
    batch, labels = images(9), torch.arange(9) % 3
    slow = copy.deepcopy(learner)
    loss, hits = learner(batch, labels, "loss")
    # By hand: images 0 to 3 are turned once, twice, twice and three times.
    turned = [np.rot90(batch[i], k, axes=(1, 2)) for i, k in enumerate((1, 2, 2, 3))]
    pixels = np.concatenate([batch, turned])
    features = slow.network.backbone(torch.tensor(pixels).float() / 255)
    logits = slow.network.head(features[:9])
    turns = torch.tensor([0] * 9 + [1, 2, 2, 3])
    expected = nn.functional.cross_entropy(logits, labels)
    guesses = slow.rotation(features)
    expected = expected + 0.25 * nn.functional.cross_entropy(guesses, turns)
    torch.testing.assert_close(loss, expected)
    assert int(hits) == int((logits.argmax(dim=1) == labels).sum())


USUAL = {"method": "openauc", "network": "osrci", "epochs": 2, "batch": 8}
USUAL |= {"recipe": "ceplus", "auxiliary": "rotation"}


def test_the_head_learns_and_the_network_starts_from_the_same_weights():
    hardly = USUAL | {"epochs": 1, "lr": 1e-12}
    still = fit_tiny(image_data(), **hardly)
    without = fit_tiny(image_data(), **hardly | {"auxiliary": "none"})
    start, other = still.learner.state_dict(), without.learner.state_dict()
    assert set(start) - set(other) == {"rotation.weight", "rotation.bias"}
    common = {name: start[name] for name in other}
    torch.testing.assert_close(common, dict(other), rtol=0, atol=1e-6)
    moved, name = fit_tiny(image_data(), **USUAL), "rotation.weight"
    found = moved.learner.state_dict()[name]
    assert not torch.allclose(found, start[name], atol=1e-4)


def test_the_saved_network_does_not_carry_the_head(tmp_path):
    trained = fit_tiny(image_data(), out=tmp_path, **USUAL)
    data = image_data()
    for one in (trained, Trained.load(tmp_path)):
        model = one.model()
        assert not [n for n, _ in model.named_parameters() if "rotation" in n]
        found = one.apply(np.asarray(data.inputs)[data.parts["test"]], progress=False)
        assert sorted(found.logits.shape) == [3, 24]
    assert trained.learner.rotation is not None  # of the run itself


@pytest.mark.parametrize("what", ["rows", "wide"])
def test_what_is_no_square_image_cannot_be_turned(what):
    data = rows_data() if what == "rows" else image_data()
    if what == "wide":
        data = replace(data, inputs=data.inputs[:, :, :12])
    with pytest.raises(ValueError, match="'none' unless the samples are square images"):
        fit_tiny(data, auxiliary="rotation")
