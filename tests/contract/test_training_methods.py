"""What every training method in the registry keeps to."""

import inspect
import re
from pathlib import Path

import pytest
import torch

from openset.train.methods import REGISTRY, Method, find, make
from tests.unit.train.tiny import (
    N_CLASSES,
    SmallGenerator,
    classifier_parameters,
    image_network,
    rows_network,
    small_discriminator,
    train,
)

# The public names, in the order of the papers they come from.
NAMES = [
    "softmax",
    "ceplus",
    "gcpl",
    "rpl",
    "arpl",
    "arpl_cs",
    "openauc",
    "acc_auc",
    "tsoftmax",
    "noise",
    "overlay",
    "objectosphere",
    "proser",
]
PLACED = [name for name in NAMES if "place" in find(name).options()]
DOCUMENT = Path(__file__).parents[2] / "docs" / "methods.md"


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Give torch one thread: on tiny tensors more only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def example(name, n=12, seed=0):
    """Return a network, the method, and a batch where each class has its own level."""
    torch.manual_seed(seed)
    n_outputs = N_CLASSES + find(name).n_extra
    labels = torch.arange(n) % N_CLASSES
    if name == "arpl_cs":
        network = image_network(n_outputs)
        inputs = torch.rand(n, 3, 32, 32) / 4 + labels[:, None, None, None] / 4
    else:
        network = rows_network(n_outputs, width=16, n_features=16)
        inputs = torch.randn(n, 4) / 2
        inputs[torch.arange(n), labels] += 3
    method = make(name, n_classes=N_CLASSES, network=network)
    if name == "arpl_cs":
        method.generator = SmallGenerator()
        method.discriminator = small_discriminator()
    return network, method, inputs, labels


def phases(method):
    return [phase for each in method.passes for phase in each]


def test_the_registry_holds_the_public_names_in_order():
    assert REGISTRY.built_in() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_method_says_what_it_is(name):
    method = REGISTRY[name]
    assert method.title
    assert method.paper
    assert method.score in ("maxlogit", "msp", "custom")
    assert "References" in inspect.getdoc(method)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_and_option_is_documented(name):
    text = DOCUMENT.read_text(encoding="utf-8")
    section = re.search(rf"^## .*`{name}`.*?(?=^## |\Z)", text, re.M | re.S)
    assert section is not None
    for option in set(find(name).options()) - {"smoothing"}:
        assert f"`{option}`" in section.group()


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_finite_numbers_and_logits_have_one_column_per_class(name):
    network, method, inputs, labels = example(name)
    for phase in phases(method):
        loss, logits = method.loss(network, inputs, labels, phase.name)
        assert loss.shape == ()
        assert torch.isfinite(loss)
        assert logits.shape == (len(labels), N_CLASSES)


@pytest.mark.parametrize("name", NAMES)
def test_every_trainable_parameter_gets_a_gradient(name):
    network, method, inputs, labels = example(name)
    reached = dict.fromkeys(classifier_parameters(network, method), False)
    for phase in phases(method):
        network.zero_grad()
        method.zero_grad()
        method.loss(network, inputs, labels, phase.name)[0].backward()
        if phase.part == "classifier":
            for key, parameter in classifier_parameters(network, method).items():
                grad = parameter.grad
                reached[key] |= grad is not None and bool((grad != 0).any())
        else:
            for parameter in getattr(method, phase.part).parameters():
                assert bool((parameter.grad != 0).any())
    # In a softmax over unit-norm logits or distances a shift may cancel; nothing else.
    assert all(reached.values()), [key for key, got in reached.items() if not got]


@pytest.mark.parametrize("name", NAMES)
def test_the_response_has_one_logit_per_class_and_one_score_per_sample(name):
    network, method, inputs, _ = example(name)
    network.eval()
    with torch.no_grad():
        logits, known = method.respond(network, network.backbone(inputs))
    assert logits.shape == (len(inputs), N_CLASSES)
    assert known.shape == (len(inputs),)
    assert torch.isfinite(known).all()
    if method.score == "msp":
        torch.testing.assert_close(known, logits.softmax(dim=1).amax(dim=1))
    if method.score == "maxlogit":
        torch.testing.assert_close(known, logits.amax(dim=1))


@pytest.mark.parametrize("name", NAMES)
def test_where_the_head_is_linear_its_rows_give_the_logits(name):
    network, method, inputs, _ = example(name)
    network.eval()
    features = network.backbone(inputs)
    linear = network.head(features)[:, :N_CLASSES]
    is_same = torch.allclose(method.respond(network, features).logits, linear)
    assert is_same == method.has_linear_head


@pytest.mark.parametrize("name", NAMES)
def test_the_head_is_frozen_where_points_take_its_place(name):
    network, method, _, _ = example(name)
    assert network.head.weight.requires_grad != hasattr(method, "points")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["one class", "one class less", "odd"])
def test_unlucky_batches_give_finite_losses(name, case):
    network, method, inputs, labels = example(name, n=7)
    if case == "one class":
        labels = torch.zeros_like(labels)
    elif case == "one class less":
        labels = labels.clamp(max=1)
    for phase in phases(method):
        assert torch.isfinite(method.loss(network, inputs, labels, phase.name)[0])


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_gives_float32_losses_near_the_full_ones(name):
    network, method, inputs, labels = example(name)
    for phase in phases(method):
        torch.manual_seed(1)
        full = method.loss(network, inputs, labels, phase.name)[0]
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = method.loss(network, inputs, labels, phase.name)[0]
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, full, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_compiles_into_one_graph(name):
    network, method, inputs, labels = example(name, n=4)
    for phase in phases(method):
        torch._dynamo.reset()  # its public name is this one

        def loss(inputs, labels, phase=phase.name):
            return method.loss(network, inputs, labels, phase)[0]

        torch.manual_seed(1)
        expected = loss(inputs, labels)
        torch.manual_seed(1)
        compiled = torch.compile(loss, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(inputs, labels), expected)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named_beside_the_known_ones(name):
    network = rows_network(N_CLASSES)
    with pytest.raises(ValueError, match=rf"method {name}: option .*'smoothing'.*'wei"):
        make(name, n_classes=N_CLASSES, network=network, weigth_=1)


@pytest.mark.parametrize("name", NAMES)
def test_one_known_class_is_refused(name):
    with pytest.raises(ValueError, match=r"known classes must be at least 2, got 1"):
        make(name, n_classes=1, network=rows_network(2))


@pytest.mark.parametrize("name", NAMES)
def test_full_smoothing_is_refused(name):
    with pytest.raises(ValueError, match=r"smoothing must be a number in \[0, 1\)"):
        make(name, n_classes=3, network=rows_network(3), smoothing=1.0)


@pytest.mark.parametrize("name", PLACED)
def test_a_place_the_network_does_not_have_is_refused(name):
    with pytest.raises(ValueError, match="place must be one of 'input', 'first'"):
        make(name, n_classes=3, network=rows_network(3), place="conv3")


def test_an_unknown_method_is_refused():
    with pytest.raises(
        ValueError, match=r"method must be one of 'softmax', .*'sotfmax"
    ):
        find("sotfmax")


def test_a_part_without_its_own_optimiser_is_refused():
    _, method, _, _ = example("softmax")
    with pytest.raises(KeyError, match="no part 'generator'"):
        method.optimiser("generator")


def test_the_base_class_has_no_loss():
    network, _, inputs, labels = example("softmax")

    class Bare(Method, register=False):
        """No loss."""

    bare = Bare(n_classes=3, network=network)
    with pytest.raises(NotImplementedError):
        bare.loss(network, inputs, labels, "classify")


@pytest.mark.parametrize("name", NAMES)
def test_every_method_learns_a_small_problem(name):
    network, method, inputs, labels = example(name, n=32)
    train(network, method, [(inputs, labels)] * 60)
    _, _, inputs, labels = example(name, n=30, seed=1)
    with torch.no_grad():
        logits, known = method.respond(network, network.backbone(inputs))
    assert (logits.argmax(dim=1) == labels).float().mean() > 0.9
    assert torch.isfinite(known).all()
