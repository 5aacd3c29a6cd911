"""What every training method in the registry keeps to."""

import inspect

import pytest
import torch

from openset.train.methods import REGISTRY, Method, find, make
from tests.contract.method_checks import checks
from tests.train.tiny import N_CLASSES, NARROW, rows_network

# The public names, in the order of the papers they come from.
NAMES = [
    "softmax",
    "ceplus",
    "logitnorm",
    "gcpl",
    "rpl",
    "arpl",
    "arpl_cs",
    "openauc",
    "acc_auc",
    "tsoftmax",
    "noise",
    "overlay",
    "entropic",
    "outlier_exposure",
    "energy_bounded",
    "objectosphere",
    "proser",
]
# For the few large steps of the check: the published bounds are for logits of a trained
# network, and the published temperature makes gradients 25 times larger.
OPTIONS = {
    "energy_bounded": {"m_in": -5.0, "m_out": -2.0},
    "logitnorm": {"temperature": 0.5},
    "arpl_cs": NARROW,
}
PLACED = [name for name in NAMES if "place" in find(name).options()]
CHECKS = list(checks("softmax"))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Give torch one thread: on tiny tensors more only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_registry_holds_the_public_names_in_order():
    assert REGISTRY.built_in() == NAMES


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_method_passes_the_checks(name, check):
    checks(name, OPTIONS.get(name), images=name == "arpl_cs")[check]()


@pytest.mark.parametrize("name", NAMES)
def test_a_method_says_what_it_is(name):
    method = REGISTRY[name]
    assert method.title
    assert method.paper
    assert "References" in inspect.getdoc(method)


@pytest.mark.parametrize("name", NAMES)
def test_the_head_is_frozen_where_points_take_its_place(name):
    network = rows_network(N_CLASSES)
    method = make(name, n_classes=N_CLASSES, network=network)
    assert network.head.weight.requires_grad != hasattr(method, "points")


REFUSED = {
    "option .*'smoothing'.*'wei": {"weigth_": 1},
    "known classes must be at least 2, got 1": {"n_classes": 1},
    r"smoothing must be a number in \[0, 1\)": {"smoothing": 1.0},
    "place must be one of 'input', 'first'": {"place": "conv3"},
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("name", NAMES)
def test_bad_options_are_named(name, message):
    options = {"n_classes": N_CLASSES} | REFUSED[message]
    if "place" not in options or name in PLACED:
        with pytest.raises(ValueError, match=f"method {name}: .*{message}"):
            make(name, network=rows_network(N_CLASSES), **options)


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
