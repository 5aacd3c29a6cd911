"""Taking the outputs of a network."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from openset import Outputs
from openset.extract import extract

N, BATCH = 23, 5


def network(*, bias=True, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4, bias=bias)
    )


def dataset(seed=1):
    torch.manual_seed(seed)
    return TensorDataset(torch.randn(N, 6), torch.arange(N) % 5 - 1)


def loader(**options):
    return DataLoader(dataset(), batch_size=BATCH, **options)


def by_hand(model):
    """Return logits and features of all samples at once: the slow, obvious way."""
    inputs, labels = dataset().tensors
    model.eval()
    with torch.no_grad():
        features = model[:-1](inputs)
        return model[-1](features).numpy(), features.numpy(), labels.numpy()


def check(outputs, model):
    logits, features, labels = by_hand(model)
    assert_allclose(outputs.logits, logits, atol=1e-6)
    assert_allclose(outputs.features, features, atol=1e-6)
    assert_array_equal(outputs.labels, labels)
    assert_array_equal(outputs.weight, model[-1].weight.detach())
    again = outputs.features @ outputs.weight.T + outputs.bias
    assert_allclose(again, outputs.logits, atol=1e-5)


def test_a_folder_holds_the_same_and_is_mapped(tmp_path):
    model = network()
    outputs = extract(model, loader(), out=tmp_path / "test", classes=list("abcd"))
    assert isinstance(outputs.logits, np.memmap)
    check(outputs, model)
    assert outputs.classes == ("a", "b", "c", "d")
    assert_array_equal(Outputs.load(tmp_path / "test").logits, outputs.logits)
    assert [path.name for path in tmp_path.iterdir()] == ["test"]


def test_modes_and_gradients_are_as_before():
    model = network().train()
    model[1].eval()  # one frozen layer among training ones
    extract(model, loader())
    assert [module.training for module in model] == [True, False, True, True]
    assert torch.is_grad_enabled()
    assert not model[-1]._forward_hooks


SHAPES = [
    lambda x, y: {"input": x, "labels": y},
    lambda x, y: [x, y],
    lambda x, y: (x, y.tolist()),
]


def test_batches_come_in_several_shapes():
    class Named(nn.Sequential):
        def forward(self, input):  # noqa: A002  # the loader's name for it
            return {"logits": super().forward(input)}

    model = Named(*network())
    for batch in SHAPES:
        outputs = extract(model, (batch(x, y) for x, y in loader()))
        check(outputs, nn.Sequential(*model))


def test_a_compiled_network_is_not_compiled_for_every_batch():
    torch._dynamo.reset()
    compiled = CompileCounter()
    outputs = extract(torch.compile(network(), backend=compiled), loader())
    check(outputs, network())
    assert compiled.frame_count <= 3  # to find the head; for batches; for the last


class Twice(nn.Module):
    """A network that uses its last layer twice, or on tokens."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        """Run it."""
        return self.fc(self.fc(x))


X = torch.ones(2, 6)
ZEROS = torch.zeros(2, dtype=torch.int64)
AGAIN = RandomSampler(dataset(), replacement=True)
DEEP = nn.Sequential(*(nn.Linear(6, 6) for _ in range(30)), nn.Softmax(dim=1))


@pytest.mark.parametrize(
    ("model", "batches", "options", "said"),
    [
        (network(), [], {}, "loader must be non-empty"),
        (network(), [(X, X, X, X)], {}, "too many values"),
        (network(), [(X, ZEROS, X)], {}, "ids must be strings"),
        (network(), [(X, ZEROS[:1])], {}, "inputs and labels must have the same len"),
        (network(), [(X, X[:, 0])], {}, "labels must be integers, got dtype float32"),
        (network(), [(X, [0, 4])], {"out": "a"}, "labels must be below 4"),
        (network(), [X], {"invalid": "drop"}, "invalid must be one of"),
        (network(), [X], {"layers": ["x"]}, "names in model.named_modules"),
        (network(), [X], {"head": "0.x"}, r"model, got 0 of 0: .*, 3: Li"),
        (network(), [X], {"ids": ["a"]}, "same length"),
        (network(), [X], {"groups": ["a"], "out": "a"}, "same length"),
        (network(), [X, X.double()], {}, "double|Double"),
        (nn.Linear(6, 1), [(X, [0, 1])], {}, r"got 1\. .*stack\(\[-z, z\], axis=1\)"),
        (nn.Flatten(), [X], {}, r"0 of no nn\.Linear\. Name it.*Outputs\("),
        (lambda x: x, [X], {}, r"model must be an nn.Module, got func"),
        (DEEP, [X], {}, r"0 of 24: .*, 29: .*Name"),
        (Twice(), [X], {}, "head 'fc' must be called once per pass"),
        (Twice(), [X], {"head": "fc", "layers": ["fc"]}, "head 'fc' must be call"),
        (nn.Linear(6, 2), [X[:, None]], {}, "on rows"),
        (network(), loader(drop_last=True), {}, "every sample once.*drop_last=True"),
        (network(), loader(sampler=AGAIN), {}, "every sample once"),
        (network(), loader(shuffle=True), {"groups": ["a"] * N}, "a RandomSampler"),
        (network(), loader(shuffle=True), {"ids": ["a"] * N}, "a RandomSampler"),
    ],
)  # fmt: skip
def test_what_cannot_be_extracted_is_named(
    tmp_path, monkeypatch, *, model, batches, options, said
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, RuntimeError), match=said):
        extract(model, batches, **options)
    assert list(tmp_path.iterdir()) == []
    if isinstance(model, nn.Module):
        assert not any(one._forward_hooks for one in model.modules())


def test_layers_side_by_side_are_means_of_their_channels():
    """A convolution's over pixels; a block's tokens count as places."""

    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)
            self.block = nn.Identity()

        def forward(self, x):
            tokens = self.conv(x).flatten(2).transpose(1, 2)
            tokens = self.block((tokens, None))[0]
            return self.fc(tokens.mean(dim=1))

    torch.manual_seed(0)
    model, images = Blocks().eval(), torch.randn(5, 3, 6, 6)
    found = extract(model, [images[:3], images[3:]], layers=["conv", "block"])
    with torch.no_grad():
        expected = model.conv(images).mean(dim=(2, 3))
    assert_allclose(found.features, torch.cat([expected, expected], 1), atol=1e-6)
    assert found.weight is None


@pytest.mark.parametrize("folder", [None, "out"])
def test_nan_of_the_network_is_kept_if_wanted(tmp_path, folder):
    inputs = torch.randn(5, 6)
    inputs[3] = float("nan")
    out = None if folder is None else tmp_path / folder
    found = extract(network(), [inputs[:2], inputs[2:]], out=out, invalid="keep")
    assert found.is_invalid.tolist() == [False, False, False, True, False]
    with pytest.raises(ValueError, match="NaN"):
        extract(network(), [inputs])


@pytest.mark.parametrize("folder", [False, True])
def test_groups_and_ids_are_kept(tmp_path, folder):
    paths = [f"images/{row:03}.png" for row in range(N)]
    samples = [(*pair, path) for pair, path in zip(dataset(), paths, strict=True)]
    out = tmp_path / "outputs" if folder else None
    with_paths = DataLoader(samples, batch_size=BATCH)
    named = extract(network(), with_paths, out=out, groups="street")
    assert named.ids.tolist() == paths
    assert set(named.groups) == {"street"}
    groups, ids = [str(i % 3) for i in range(N)], [f"id {i}" for i in range(N)]
    out = tmp_path / "others" if folder else None
    for given in ((groups, ids), (np.array(groups), np.array(ids))):
        about = dict(zip(("groups", "ids"), given, strict=True))
        found = extract(network(), loader(), out=out, **about)
        assert found.groups.tolist() == groups
        assert found.ids.tolist() == ids


def test_unknown_samples_are_labelled_so_whatever_their_labels():
    inputs = dataset().tensors[0]
    wild = DataLoader(TensorDataset(inputs, torch.full((N,), 321)), batch_size=BATCH)
    for batches in (loader(), wild, DataLoader(inputs, batch_size=BATCH)):
        found = extract(network(), batches, unknown=True)
        assert_array_equal(found.labels, np.full(N, -1))
