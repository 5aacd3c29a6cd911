"""A network and its rejector as one module."""

import copy
import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from tests.integrations.rejectors import assert_same_knownness
from torch import nn

from openset import Outputs, Rejector, detectors
from openset.detectors.base import REGISTRY
from openset.integrations.torch import OpenSetModule
from openset.testing import example_outputs as split
from openset.testing.example import N_CLASSES, WIDTH
from openset.train import extract

PARAMS = {"knn": {"k": 5}}  # the default asks for more samples than a test has
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def linear_model(outputs):
    """Return a one-layer network with the head of made-up outputs."""
    model = nn.Sequential(nn.Identity(), nn.Linear(WIDTH, N_CLASSES))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor(outputs.weight))
        model[1].bias.copy_(torch.tensor(outputs.bias))
    return model.eval()


def rejector_of(name, *, objective="osa", **options):
    train = split(160, seed=1, dtype=np.float32)
    known = split(80, seed=2, dtype=np.float32)
    surrogate = split(40, seed=3, unknown=1.0, dtype=np.float32)
    names = ("mahalanobis", "knn") if name == "combined" else (name,)
    parts = [detectors.make(one, **PARAMS.get(one, {})).fit(train) for one in names]
    scores = [one.known(known) for one in parts]
    fitted = parts[0] if len(parts) == 1 else detectors.combine(parts, reference=scores)
    return Rejector.calibrate(
        fitted, known=known, surrogate=surrogate, objective=objective, **options
    )


@pytest.fixture(scope="module")
def test():
    return split(60, seed=4, unknown=0.4, dtype=np.float32)


@pytest.fixture(scope="module")
def inputs(test):
    return torch.tensor(np.array(test.features))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*REGISTRY.built_in(), "combined"])
def test_the_module_decides_as_the_rejector_does(name, device, test, inputs):
    rejector = rejector_of(name)
    module = OpenSetModule(linear_model(test), rejector).to(device)
    result = module(inputs.to(device))
    assert result.known.device.type == device
    outputs = Outputs(
        logits=result.logits.detach().cpu().numpy(), features=np.array(test.features)
    )
    known, classes = result.known.cpu(), result.classes.cpu()
    assert_same_knownness(known, rejector.known(outputs))
    assert_array_equal(classes, rejector.predict(outputs))
    assert {-1, 0} <= set(result.classes.tolist())


# The score is not compiled: one detector of each kind of state will do.
@pytest.mark.parametrize("name", ["msp", "knn", "openmax"])
def test_a_compiled_module_gives_what_the_plain_one_does(name, test, inputs):
    module = OpenSetModule(linear_model(test), rejector_of(name))
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="aot_eager")
    plain = module(inputs)
    for _ in range(2):
        result = compiled(inputs)
        assert_allclose(result.known, plain.known, rtol=1e-5)
        assert_array_equal(result.classes, plain.classes)
    assert not module._recorder.recorded


class HubModel(nn.Module):
    """Like the models of a hub: keyword inputs, an output with ``logits``."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.GELU())
        self.pooler = nn.Linear(8, 8)
        self.classifier = nn.Linear(8, 5)

    def forward(self, pixel_values):
        """Return a mapping, as these models do."""
        hidden = torch.tanh(self.pooler(self.encoder(pixel_values)))
        return {"logits": self.classifier(hidden), "hidden": hidden}


def test_the_last_layer_of_a_network_is_found_and_listened_to(rng):
    model = HubModel()
    images = torch.tensor(rng.normal(size=(24, 3, 32, 32)), dtype=torch.float32)
    labels = torch.arange(24) % 5
    outputs = extract(model, [(images, labels)])
    fitted = detectors.KNN(k=3).fit(outputs.take(slice(0, 12)))
    known = outputs.take(slice(12, 24))
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=0.5)
    module = OpenSetModule(model, rejector).eval()
    assert module.head == "classifier"
    result = module(images)
    assert_allclose(result.known, rejector.known(outputs), atol=1e-3)
    # A random network's knownness is crowded: only clear cases must agree.
    clear = np.abs(rejector.known(outputs) - rejector.threshold.value) > 1e-3
    assert_array_equal(result.classes[clear], rejector.predict(outputs)[clear])
    model(images)  # on its own: nobody listens, nothing is kept
    assert not module._recorder.recorded


def test_a_network_compiled_by_itself_is_listened_to(test, inputs):
    torch._dynamo.reset()
    network = torch.compile(linear_model(test), backend="eager")
    network(inputs)  # before anybody listens
    module = OpenSetModule(network, rejector_of("knn"))
    plain = OpenSetModule(linear_model(test), rejector_of("knn"))
    assert torch.equal(module(inputs).classes, plain(inputs).classes)


def test_a_module_that_is_gone_leaves_no_hook(test, inputs):
    network = linear_model(test)
    hooks = network[1]._forward_hooks
    for _ in range(3):
        OpenSetModule(network, rejector_of("knn"))
    gc.collect()
    assert not hooks
    module = OpenSetModule(network, rejector_of("knn"))
    twin = copy.deepcopy(module)
    del module
    gc.collect()
    assert not hooks
    assert twin(inputs).classes.shape == (len(inputs),)


def test_half_precision_leaves_the_detector_alone(test, inputs):
    module = OpenSetModule(linear_model(test), rejector_of("knn"))
    before = {name: b.clone() for name, b in module.score.named_buffers()}
    assert before
    module.to(torch.bfloat16)
    assert module.model[1].weight.dtype == torch.bfloat16
    for name, buffer in module.score.named_buffers():
        assert torch.equal(buffer, before[name])
    assert module(inputs.to(torch.bfloat16)).known.dtype == torch.float32


def test_the_state_dict_carries_the_rejector(test, inputs):
    module = OpenSetModule(linear_model(test), rejector_of("mahalanobis"))
    other = OpenSetModule(
        linear_model(test), rejector_of("mahalanobis", objective="at_tpr", tpr=0.5)
    )
    assert not torch.equal(other(inputs).classes, module(inputs).classes)
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(inputs).classes, module(inputs).classes)
    twin = copy.deepcopy(module)
    assert torch.equal(twin(inputs).classes, module(inputs).classes)


@pytest.mark.parametrize("name", ["maxlogit", "knn", "vra", "evm", "gen", "scale"])
def test_invalid_samples_are_those_of_the_rejector(name, test):
    """What Rejector.decide answers with unknown, the module does: knownness NaN."""
    rejector = rejector_of(name)
    module = OpenSetModule(linear_model(test), rejector)
    logits = np.array(test.logits[:9], np.float32)
    features = np.array(test.features[:9], np.float32)
    inf = np.inf
    logits[1, 0], features[2, 1] = np.nan, np.nan
    logits[3, :2], logits[4] = inf, -inf
    logits[5, 1], logits[6, 0], features[7] = -inf, 1e30, -1
    both = Outputs(logits=logits, features=features, invalid="keep")
    with np.errstate(all="ignore"):
        expected = rejector.decide(both, invalid="reject")
    assert expected.is_invalid[1:5].all()
    classes, known = module.score(torch.tensor(logits), torch.tensor(features))
    assert_array_equal(torch.isnan(known).numpy(), expected.is_invalid)
    assert_array_equal(classes.numpy(), expected.labels)
    assert_allclose(known.numpy(), expected.known, rtol=1e-4)


def test_threads_do_not_hear_each_other(test, inputs):
    module = OpenSetModule(linear_model(test), rejector_of("energy"))
    expected = [module(inputs[i : i + 3]).known for i in range(0, 60, 3)]
    with ThreadPoolExecutor(20) as pool:
        starts = [*range(0, 60, 3)] * 20
        found = pool.map(lambda i: module(inputs[i : i + 3]).known, starts)
    for one, other in zip(found, expected * 20, strict=True):
        assert torch.equal(one, other)


def layers(*sizes):
    return nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))


REFUSED = {
    "model must be an nn.Module, got func": (lambda x: x, {}),
    "0 of 0: Linear": (layers(WIDTH, 7), {}),
    "features 32, got 2 of 0": (layers(WIDTH, N_CLASSES, WIDTH, N_CLASSES), {}),
    "n_classes of head '0' must be 4": (layers(WIDTH, 7), {"head": "0"}),
    "head must be a linear layer of": (layers(WIDTH, 7), {"head": "fc"}),
    "head must be a linear layer of the": (layers(WIDTH, 7), {"head": layers(2, 2)}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_such_head_is_refused(words):
    model, options = REFUSED[words]
    with pytest.raises((ValueError, TypeError), match=words):
        OpenSetModule(model, rejector_of("msp"), **options)


def test_of_two_layers_of_one_size_one_is_named(test, inputs):
    model = layers(WIDTH, N_CLASSES, WIDTH, N_CLASSES)
    result = OpenSetModule(model, rejector_of("msp"), head="2")(inputs)
    assert torch.equal(result.logits, model(inputs))


def test_tokens_are_refused_and_no_samples_get_no_answers(test, inputs):
    module = OpenSetModule(linear_model(test), rejector_of("knn"))
    with pytest.raises(ValueError, match=r"on rows .*, got calls on \(2, 3, 32\)"):
        module(torch.zeros(2, 3, WIDTH))
    result = module(inputs[:0])
    assert result.classes.shape == result.known.shape == (0,)
    assert result.classes.dtype == torch.int64
    with pytest.raises(TypeError, match="rejector must be a Rejector, got Outputs"):
        OpenSetModule(linear_model(test), test)
