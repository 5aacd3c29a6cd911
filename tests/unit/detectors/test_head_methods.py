"""ViM, FDBD and NCI against loops over samples and pytorch-ood."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from openset import Outputs, _xp
from openset.detectors import FDBD, NCI, ReAct, Residual, ViM
from openset.detectors._residual import principal_dim
from openset.outputs import replaced
from openset.testing import example_outputs as split
from openset.testing import in_library
from tests.extras import torch


@pytest.fixture
def train():
    return split(120, seed=1)


@pytest.fixture
def test():
    return split(30, seed=2, unknown=0.4)


def tensor(array):
    return torch.tensor(np.array(array)).float()


def linear(outputs):
    head = torch.nn.Linear(outputs.weight.shape[1], outputs.weight.shape[0])
    head.weight.data, head.bias.data = tensor(outputs.weight), tensor(outputs.bias)
    return head


@pytest.mark.parametrize("dim", [1, 5, 20, 31])
def test_vim_equals_a_singular_value_decomposition(train, test, dim):
    origin = -np.linalg.pinv(train.weight) @ train.bias
    _, _, directions = np.linalg.svd(train.features - origin)
    residual = directions[dim:].T
    lengths = np.linalg.norm((train.features - origin) @ residual, axis=1)
    alpha = train.logits.max(axis=1).mean() / lengths.mean()
    expected = logsumexp(test.logits, axis=1) - alpha * np.linalg.norm(
        (test.features - origin) @ residual, axis=1
    )
    assert_allclose(ViM(dim=dim).fit(train).score(test).known, expected)


def test_vim_agrees_with_pytorch_ood(train, test, pytorch_ood):
    other = pytorch_ood.ViM(None, 16, tensor(train.weight), tensor(train.bias))
    other.fit_features(tensor(train.features), torch.tensor(np.array(train.labels)))
    theirs = -other.predict_features(tensor(test.features))
    assert_allclose(ViM(dim=16).fit(train).score(test).known, theirs, rtol=1e-3)


def test_vim_chooses_its_dimension_by_the_number_of_features():
    widths = (2048, 2047, 768, 513, 512, 32, 1)
    expected = [1000, 512, 512, 512, 256, 16, 0]
    assert [principal_dim("ViM", None, width) for width in widths] == expected


@pytest.mark.parametrize(
    ("dim", "change", "message"),
    [
        (32, {}, "ViM.fit: dim must be below 32, the number of features, got 32"),
        (4, {"logits": 0.0}, "largest logits must be positive on average"),
        (4, {"features": 0.0}, "features must be spread over more than 4 dimensions"),
    ],
)
def test_vim_refuses_what_leaves_alpha_without_meaning(train, dim, change, message):
    arrays = {
        name: getattr(train, name) * change.get(name, 1.0)
        for name in ("logits", "features", "weight", "bias")
    }
    if "features" in change:
        arrays["bias"] = arrays["bias"] * 0
    with pytest.raises(ValueError) as error:  # noqa: PT011  # compared literally below
        ViM(dim=dim).fit(Outputs(**arrays, labels=train.labels))
    assert message in str(error.value)


def test_vim_works_with_small_logits(train, test):
    def small(outputs):
        return replaced(outputs, logits=1e-4 * outputs.logits)

    assert 0 < small(train).logits.max(axis=1).sum() < 1
    energy = logsumexp(small(test).logits, axis=1)
    expected = 1e-4 * (ViM().fit(train).known(test) - logsumexp(test.logits, axis=1))
    assert_allclose(ViM().fit(small(train)).known(small(test)) - energy, expected)


@pytest.mark.parametrize(("residual", "is_refused"), [(8e-4, True), (1.2e-3, False)])
@pytest.mark.parametrize("kind", [ViM, Residual])
def test_a_residual_of_a_millionth_of_the_features_is_none(kind, residual, is_refused):
    signs = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])
    train = Outputs(
        features=signs * [1000, residual],
        logits=np.tile([2.0, 1.0], (4, 1)),
        weight=np.eye(2),
        bias=np.zeros(2),
    )
    if is_refused:
        with pytest.raises(ValueError, match="spread over more than 1 dimensions"):
            kind(dim=1).fit(train)
        return
    factor, energy = (2 / residual, np.logaddexp(2, 1)) if kind is ViM else (1, 0)
    assert_allclose(kind(dim=1).fit(train).known(train), energy - factor * residual)


@pytest.mark.parametrize("origin", ["mean", "zero"])
def test_fdbd_equals_a_loop_over_classes(train, test, origin):
    centre = train.features.mean(axis=0) if origin == "mean" else 0.0
    expected = []
    for f, z in zip(test.features, test.logits, strict=True):
        top = z.argmax()
        distances = [
            abs(z[top] - z[c]) / np.linalg.norm(train.weight[top] - train.weight[c])
            for c in range(4)
            if c != top
        ]
        expected.append(np.mean(distances) / np.linalg.norm(f - centre))
    assert_allclose(FDBD(origin=origin).fit(train).score(test).known, expected)


def test_fdbd_agrees_with_pytorch_ood(train, test, pytorch_ood):
    other = pytorch_ood.fDBD(None, linear(train)).fit_features(tensor(train.features))
    theirs = -other.predict_features(tensor(test.features))
    assert_allclose(FDBD().fit(train).score(test).known, theirs, rtol=1e-4)


def test_fdbd_at_the_mean_is_zero(train):
    fitted = FDBD().fit(train)
    at_mean = Outputs(features=fitted.state["mean"][None, :], logits=[[3.0, 1, 0, 0]])
    assert_array_equal(fitted.known(at_mean), [0.0])


def test_fdbd_names_two_classes_without_a_boundary(train):
    weight = np.array(train.weight)
    weight[3] = weight[1]
    twins = Outputs(features=train.features, weight=weight, bias=train.bias)
    with pytest.raises(ValueError, match="the same for classes 1 and 3"):
        FDBD().fit(twins)


def test_two_classes_without_weights_have_no_boundary(train):
    weight = np.array(train.weight)
    weight[[1, 3]] = 0
    with pytest.raises(ValueError, match="the same for classes 1 and 3"):
        FDBD().fit(Outputs(features=train.features, weight=weight, bias=train.bias))


def test_small_weights_and_features_are_no_special_case(train, test):
    def small(outputs, name, factor):
        return replaced(outputs, **{name: factor * getattr(outputs, name)})

    expected = FDBD().fit(train).known(test)
    found = FDBD().fit(small(train, "weight", 1e-6)).known(test)
    assert_allclose(found, 1e6 * expected)
    expected = NCI(alpha=0).fit(train).known(test)
    found = NCI(alpha=0).fit(small(train, "features", 1e-6))
    assert_allclose(found.known(small(test, "features", 1e-6)), expected)


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_nci_equals_a_loop_over_samples(train, test, alpha):
    mean = train.features.mean(axis=0)
    expected = [
        train.weight[z.argmax()] @ (f - mean) / np.linalg.norm(f - mean)
        + alpha * np.abs(f).sum()
        for f, z in zip(test.features, test.logits, strict=True)
    ]
    assert_allclose(NCI(alpha=alpha).fit(train).score(test).known, expected)


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_nci_agrees_with_pytorch_ood(train, test, alpha, pytorch_ood):
    other = pytorch_ood.NCI(None, linear(train), alpha=alpha)
    other.fit_features(tensor(train.features))
    theirs = -other.predict_features(tensor(test.features))
    actual = NCI(alpha=alpha).fit(train).score(test).known
    assert_allclose(actual, theirs, rtol=1e-4)


def test_nci_at_the_mean_is_its_length_alone(train):
    fitted = NCI(alpha=0.5).fit(train)
    mean = fitted.state["mean"]
    at_mean = Outputs(features=mean[None, :], logits=[[3.0, 1, 0, 0]])
    assert_allclose(fitted.known(at_mean), 0.5 * mean.sum())


def test_bad_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match="FDBD: origin must be one of 'mean', 'zero'"):
        FDBD(origin="median")
    with pytest.raises(ValueError, match="NCI: alpha must be a number in"):
        NCI(alpha=-1)
    with pytest.raises(ValueError, match="ViM: dim must be an integer >= 1, got 0"):
        ViM(dim=0)


def test_fdbd_of_features_whose_squares_overflow_is_that_of_small_ones(train, test):
    def scaled(outputs):
        return Outputs(
            logits=outputs.logits * 1e300,
            features=outputs.features * 1e300,
            labels=outputs.labels,
            weight=outputs.weight,
            bias=outputs.bias,
        )

    expected = FDBD().fit(train).known(test)
    assert_allclose(FDBD().fit(scaled(train)).known(scaled(test)), expected, rtol=1e-9)


def test_fdbd_names_classes_whose_weights_are_one_vector_up_to_rounding(train):
    weight = np.array(train.weight)
    weight[2] = weight[0] * (1 + 1e-9)
    spoilt = Outputs(features=train.features, weight=weight, bias=train.bias)
    with pytest.raises(ValueError, match="the same for classes 0 and 2"):
        FDBD().fit(spoilt)
    weight[2] = weight[0] * (1 + 1e-6)
    FDBD().fit(Outputs(features=train.features, weight=weight, bias=train.bias))


def test_fdbd_has_no_distance_from_a_class_to_itself(train):
    inverse = FDBD().fit(train).state["inverse"]
    assert_array_equal(np.diagonal(inverse), 0)
    assert_array_equal(inverse, inverse.T)


@pytest.fixture
def calls(monkeypatch):
    """Count calls of torch, and those that fetch a number, as if from a GPU."""
    pytest.importorskip("torch", reason="the extra torch")
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    class Calls(TorchDispatchMode):
        n = n_fetched = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.n += 1
            self.n_fetched += "_local_scalar_dense" in str(function)
            return function(*args, **(kwargs or {}))

    monkeypatch.setattr(_xp, "is_on_cpu", lambda _: False)
    return Calls()


@pytest.mark.parametrize(
    ("detector", "most", "fetched"), [(NCI(), 10, 1), (FDBD(), 30, 2), (ReAct(), 18, 1)]
)
def test_a_fit_on_a_device_waits_for_it_once_or_twice(
    detector, most, fetched, train, calls
):
    """On a GPU each call takes some microseconds, and waiting for it more."""
    tensors = in_library(train, torch)
    with calls:
        detector.fit(tensors)
    assert calls.n <= most
    assert calls.n_fetched == fetched


@pytest.mark.parametrize("detector", [ViM(dim=4), ReAct(), NCI()])
def test_a_last_layer_that_does_not_fit_the_logits_is_warned_of(detector):
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(size=(90, 12)))
    weight, bias = rng.normal(size=(3, 12)), rng.normal(size=3)
    logits = features @ weight.T + bias
    arrays = {"features": features, "labels": np.arange(90) % 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        halves = logits.astype(np.float16)
        # One scale, one shift for each sample, and rounding are fine.
        for same in (logits, 3 * logits, logits - features[:, :1], halves):
            detector.fit(Outputs(logits=same, **arrays, weight=weight, bias=bias))
    for wrong in (
        {"weight": -weight, "bias": -bias},
        {"weight": weight[[1, 0, 2]], "bias": bias[[1, 0, 2]]},
        {"weight": weight, "bias": 0 * bias},
        {
            "weight": weight / np.linalg.norm(weight, axis=1, keepdims=True),
            "bias": bias,
        },
    ):
        with pytest.warns(UserWarning, match=r"fit: features, weight and bias do not"):
            detector.fit(Outputs(logits=logits, **arrays, **wrong))


def test_a_cosine_classifier_is_warned_of_until_its_features_have_length_1():
    rng = np.random.default_rng(0)
    features, weight = np.abs(rng.normal(size=(90, 12))), rng.normal(size=(3, 12))
    units, rows = (
        array / np.linalg.norm(array, axis=1, keepdims=True)
        for array in (features, weight)
    )
    given = {"logits": 16 * units @ rows.T, "labels": np.arange(90) % 3}
    with pytest.warns(UserWarning, match=r"cosine classifier, features and weights of"):
        ReAct().fit(
            Outputs(**given, features=features, weight=weight, bias=np.zeros(3))
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReAct().fit(Outputs(**given, features=units, weight=rows, bias=np.zeros(3)))


def test_mapped_files_are_compared_with_the_last_layer_too(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "logits": rng.normal(size=(90, 3)),
        "features": rng.normal(size=(90, 12)),
        "labels": np.arange(90) % 3,
        "weight": rng.normal(size=(3, 12)),
        "bias": np.zeros(3),
    }
    mapped = Outputs.load(Outputs(**arrays).save(tmp_path / "train"))
    assert isinstance(mapped.features, np.memmap)
    with pytest.warns(UserWarning, match=r"weight and bias do not fit the logits"):
        ReAct().fit(mapped)
