"""What every training method in the registry keeps to."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from openset import metrics
from openset.datasets import Dataset, cut
from openset.protocols import Protocol
from openset.train import Trained, fit
from openset.train.methods import REGISTRY, Method, WithNegatives, find, make
from openset.train.networks import MLP, Network, TwoNorms
from tests.train.tiny import NARROW, rows_network

# The public names, in the order of the papers they come from.
NAMES = [
    *("softmax", "ceplus", "logitnorm", "gcpl", "rpl", "arpl", "arpl_cs"),
    *("openauc", "acc_auc", "tsoftmax", "noise", "overlay"),
    *("entropic", "outlier_exposure", "energy_bounded", "objectosphere", "proser"),
]
# For the few large steps of the check: the published bounds are for logits of a trained
# network, and the published temperature makes gradients 25 times larger.
OPTIONS = {
    "energy_bounded": {"m_in": -5.0, "m_out": -2.0},
    "logitnorm": {"temperature": 0.5},
    "arpl_cs": NARROW,
}
PLACED = [name for name in NAMES if "place" in find(name).options()]
IMAGES = {"arpl_cs"}  # methods that take nothing else
N = 3  # classes


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Give torch one thread: on tiny tensors more only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def samples(name, n=12, *, n_classes=N):
    """Return samples of classes that are easy to separate."""
    generator = torch.Generator().manual_seed(n)
    labels = torch.arange(n) % n_classes
    if name in IMAGES:
        noise = torch.rand(n, 3, 32, 32, generator=generator)
        return noise / 4 + labels[:, None, None, None] / 4, labels
    rows = torch.randn(n, 4, generator=generator) / 2
    rows[torch.arange(n), labels] += 3
    return rows, labels


def network_of(name):
    torch.manual_seed(0)
    n_outputs = N + find(name).n_extra
    if name not in IMAGES:
        return MLP(n_outputs, example=samples(name)[0], width=16)
    norm = TwoNorms if find(name).two_norms else nn.BatchNorm2d
    layers = [
        nn.Sequential(nn.Conv2d(n_in, 8, 3, 2, 1), norm(8), nn.LeakyReLU(0.2))
        for n_in in (3, 8)
    ]
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return Network(nn.Sequential(*layers, pool), nn.Linear(32, n_outputs))


def made(name):
    """Return a network, the method, and its updates: functions of inputs and labels."""
    network = network_of(name)
    method = make(name, n_classes=N, network=network, **OPTIONS.get(name, {}))

    def with_negatives(network, inputs, labels):
        negatives = -inputs[: method.n_negatives(len(inputs))]
        return method.loss(network, inputs, labels, negatives=negatives)

    updates = {one: getattr(method, one) for each in method.passes for one in each}
    if isinstance(method, WithNegatives):
        updates["loss"] = with_negatives
    return network, method, updates.values()


def is_one_number(loss):
    return loss.shape == () and bool(torch.isfinite(loss))


def test_the_registry_holds_the_public_names_in_order():
    assert REGISTRY.built_in() == NAMES


def test_a_method_says_what_it_is(name):
    method = REGISTRY[name]
    assert find(method.name) is method
    assert method.title
    assert method.paper
    assert "References" in inspect.getdoc(method)
    assert method.score in {"maxlogit", "msp", "custom"}
    assert method.score != "custom" or method.respond is not Method.respond
    assert "loss" in {update for updates in method.passes for update in updates}


def test_a_loss_is_one_number_also_of_unusual_batches(name):
    network, _, updates = made(name)
    inputs, labels = samples(name)
    for update in updates:
        loss, logits = update(network, inputs, labels)
        assert is_one_number(loss)
        assert logits.shape[0] == len(labels)
        assert logits.shape[1] >= N
    inputs, labels = samples(name, 7)
    for batch in (labels, torch.zeros_like(labels), labels.clamp(max=1)):
        for update in updates:
            assert is_one_number(update(network, inputs, batch)[0])


def test_every_parameter_gets_a_gradient(name):
    network, method, updates = made(name)
    both = nn.ModuleList([network, method])
    reached = set()
    for update in updates:
        both.zero_grad()
        update(network, *samples(name))[0].backward()
        for key, one in both.named_parameters():
            if one.grad is not None and bool((one.grad != 0).any()):
                reached.add(key)
    assert {key for key, one in both.named_parameters() if one.requires_grad} <= reached


def test_the_response_is_what_the_class_says(name):
    network, method, _ = made(name)
    inputs, _ = samples(name)
    network.eval()
    with torch.no_grad():
        features = network.backbone(inputs)
        logits, known = method.respond(network, features)
        linear = network.head(features)[:, :N]
    assert (logits.shape, known.shape) == ((len(inputs), N), (len(inputs),))
    assert torch.isfinite(known).all()
    rules = {"msp": logits.softmax(dim=1).amax(dim=1), "maxlogit": logits.amax(dim=1)}
    assert torch.allclose(known, rules.get(method.score, known), rtol=1e-4)
    is_linear = torch.allclose(logits, linear, rtol=1e-4, atol=1e-6)
    assert is_linear or not method.has_linear_head


def test_the_loss_in_half_precision_is_float32_and_near(name):
    network, _, updates = made(name)
    for update in updates:
        losses = []
        for enabled in (False, True):
            torch.manual_seed(1)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                losses.append(update(network, *samples(name))[0])
        full, half = losses
        assert half.dtype == torch.float32
        assert torch.allclose(half, full, rtol=0.05, atol=0.05)


def test_a_loss_compiles(name):
    network, _, updates = made(name)
    for update in updates:
        torch._dynamo.reset()  # its public name

        def loss(inputs, labels, update=update):
            return update(network, inputs, labels)[0]

        found = []
        for function in (loss, torch.compile(loss, backend="eager", fullgraph=True)):
            torch.manual_seed(1)
            found.append(function(*samples(name, 4)))
        torch.testing.assert_close(found[1], found[0])


def test_training_learns_and_a_saved_run_gives_the_same_logits(name, tmp_path):
    inputs, labels = samples(name, 96, n_classes=N + 1)
    is_image = name in IMAGES
    if is_image:
        inputs = (255 * inputs).clamp(max=255).to(torch.uint8).permute(0, 2, 3, 1)
    data = Dataset(
        inputs=inputs.numpy(),
        labels=labels.numpy(),
        classes=("a", "b", "c", "d"),
        kind="image" if is_image else "table",
        name="example",
        parts={"train": np.arange(48), "test": np.arange(48, 96)},
    )
    problem = cut(data, Protocol(known=data.classes[:-1], unknown=data.classes[-1:]))
    if issubclass(find(name), WithNegatives):
        # Unlike all classes: rows with the opposite sign, or inverted images.
        others = replace(data, inputs=-data.inputs, name="others", label_set="others")
        protocol = replace(
            problem.protocol, negative=data.classes, negative_source="others"
        )
        problem = cut(data, protocol, negative=others)
    trained = fit(
        method=name,
        options=OPTIONS.get(name, {}),
        data=problem,
        network=network_of(name) if is_image else None,
        recipe="torchosr",
        epochs=12,
        batch=12,
        lr=0.1,
        momentum=0.9,
        accelerator="cpu",
        progress=False,
        out=tmp_path / "run",
    )
    assert metrics.accuracy(trained.scores["published"]) > 0.9
    network = network_of(name) if is_image else None
    loaded = Trained.load(tmp_path / "run")
    again = loaded.apply(problem.test.inputs, network=network, progress=False)
    first, second = (np.asarray(o.logits) for o in (trained.outputs["test"], again))
    assert np.array_equal(first, second)


def test_the_head_is_frozen_where_points_take_its_place(name):
    network = rows_network(N)
    method = make(name, n_classes=N, network=network)
    assert network.head.weight.requires_grad != hasattr(method, "points")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weigth_": 1}, "option .*'smoothing'.*'wei"),
        ({"n_classes": 1}, "known classes must be at least 2, got 1"),
        ({"smoothing": 1.0}, r"smoothing must be a number in \[0, 1\)"),
        ({"place": "conv3"}, "place must be one of 'input', 'first'"),
    ],
)
def test_bad_options_are_named(name, options, message):
    if "place" not in options or name in PLACED:
        with pytest.raises(ValueError, match=f"method {name}: .*{message}"):
            make(name, network=rows_network(N), **{"n_classes": N} | options)


def test_an_unknown_method_is_refused():
    with pytest.raises(
        ValueError, match=r"method must be one of 'softmax', .*'sotfmax"
    ):
        find("sotfmax")


def test_a_part_without_its_own_optimiser_is_refused():
    method = make("softmax", n_classes=3, network=rows_network(3))
    with pytest.raises(KeyError, match="generator"):
        method.optimiser("generator")


def test_the_base_class_has_no_loss():
    class Bare(Method, register=False):
        """No loss."""

    network = rows_network(3)
    bare = Bare(n_classes=3, network=network)
    with pytest.raises(NotImplementedError):
        bare.loss(network, torch.zeros(2, 4), torch.zeros(2))
