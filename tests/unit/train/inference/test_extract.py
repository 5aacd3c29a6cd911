"""Taking the outputs of a network."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.utils.data import (
    DataLoader,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from openset import Outputs
from openset.train import extract

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


def test_outputs_are_those_of_the_network_in_order_and_without_padding():
    model = network()
    outputs = extract(model, loader())
    assert len(outputs) == N
    check(outputs, model)


def test_a_folder_holds_the_same_and_is_mapped(tmp_path):
    model = network()
    outputs = extract(model, loader(), out=tmp_path / "test", classes=list("abcd"))
    assert isinstance(outputs.logits, np.memmap)
    check(outputs, model)
    assert outputs.classes == ("a", "b", "c", "d")
    assert_array_equal(Outputs.load(tmp_path / "test").logits, outputs.logits)
    assert [path.name for path in tmp_path.iterdir()] == ["test"]
    assert json.loads((tmp_path / "test" / "meta.json").read_text())["head"] == "3"


def test_modes_and_gradients_are_as_before():
    model = network().train()
    model[1].eval()  # one frozen layer among training ones
    extract(model, loader())
    assert [module.training for module in model] == [True, False, True, True]
    assert torch.is_grad_enabled()
    assert not model[-1]._forward_hooks


def test_a_missing_bias_is_zeros():
    outputs = extract(network(bias=False), loader())
    assert_array_equal(outputs.bias, np.zeros(4))


@pytest.mark.parametrize(
    "batch",
    [
        lambda x, y: {"input": x, "labels": y},
        lambda x, y: [x, y],
        lambda x, y: (x, y.tolist()),
    ],
)
def test_batches_come_in_several_shapes(batch):
    class Named(nn.Sequential):
        def forward(self, input):  # noqa: A002  # the loader's name for it
            return {"logits": super().forward(input)}

    model = Named(*network())
    outputs = extract(model, (batch(x, y) for x, y in loader()))
    check(outputs, nn.Sequential(*model))


def test_unlabelled_batches_give_unlabelled_outputs():
    outputs = extract(network(), [x for x, _ in loader()])
    assert outputs.labels is None
    assert len(outputs) == N


def test_half_precision_is_kept_and_bfloat16_widened():
    assert extract(network().half(), [torch.ones(2, 6).half()]).logits.dtype == "f2"
    outputs = extract(network().bfloat16(), [torch.ones(2, 6).bfloat16()])
    assert outputs.logits.dtype == "f4"


class Failing(nn.Sequential):
    """A network whose machine breaks down on the third batch."""

    calls, breaks = 0, True

    def forward(self, inputs):
        """Fail once."""
        type(self).calls += 1
        if self.breaks and self.calls == 4:  # the first batch runs twice
            msg = "broken"
            raise RuntimeError(msg)
        return super().forward(inputs)


@pytest.fixture
def failing():
    Failing.calls, Failing.breaks = 0, True
    return Failing(*network())


def test_an_interrupted_run_leaves_nothing_behind(failing, tmp_path):
    with pytest.raises(RuntimeError, match="broken"):
        extract(failing, loader(), out=tmp_path / "test")
    assert list(tmp_path.iterdir()) == []


def test_an_old_result_survives_an_interrupted_run(failing, tmp_path):
    extract(network(seed=5), loader(), out=tmp_path / "test")
    with pytest.raises(RuntimeError, match="broken"):
        extract(failing, loader(), out=tmp_path / "test")
    check(Outputs.load(tmp_path / "test"), network(seed=5))


def test_an_interrupted_run_goes_on_where_it_stopped(failing, tmp_path):
    out = tmp_path / "test"
    with pytest.raises(RuntimeError, match="broken"):
        extract(failing, loader(), out=out, resume=True)
    assert not out.exists()
    [partial] = tmp_path.iterdir()
    # A half-written batch, as a killed process leaves it, is cut off.
    with (partial / "logits.npy").open("ab") as stream:
        stream.write(b"\x00" * 7)
    Failing.calls, Failing.breaks = 0, False
    outputs = extract(failing, loader(), out=out, resume=True)
    assert Failing.calls == 1 + 3  # one to find the head, three batches of five left
    assert [path.name for path in tmp_path.iterdir()] == ["test"]
    check(outputs, nn.Sequential(*failing))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model[-1].bias.data.add_(1), "got other weights"),
        (lambda _: None, "got other inputs"),
    ],
)
def test_another_run_is_not_continued(failing, tmp_path, change, message):
    with pytest.raises(RuntimeError, match="broken"):
        extract(failing, loader(), out=tmp_path / "test", resume=True)
    change(failing)
    Failing.breaks = False
    other = DataLoader(dataset(), batch_size=BATCH, sampler=range(N - 1, -1, -1))
    with pytest.raises(ValueError, match=message):
        extract(failing, other, out=tmp_path / "test", resume=True)


def test_other_labels_are_not_continued(failing, tmp_path):
    with pytest.raises(RuntimeError, match="broken"):
        extract(failing, loader(), out=tmp_path / "test", resume=True)
    Failing.breaks = False
    inputs, labels = dataset().tensors
    other = DataLoader(TensorDataset(inputs, labels.flip(0)), batch_size=BATCH)
    with pytest.raises(ValueError, match="got other labels in rows 0 to 4"):
        extract(failing, other, out=tmp_path / "test", resume=True)


def test_rows_without_their_count_are_started_anew(failing, tmp_path):
    out = tmp_path / "test"
    with pytest.raises(RuntimeError, match="broken"):
        extract(failing, loader(), out=out, resume=True)
    (tmp_path / ".test.partial" / "progress.json").unlink()
    Failing.breaks = False
    check(extract(failing, loader(), out=out, resume=True), nn.Sequential(*failing))


def test_loaders_that_lose_or_repeat_samples_are_refused():
    with pytest.raises(ValueError, match=r"keeps the last batch .* got drop_last=True"):
        extract(network(), loader(drop_last=True))
    sampler = DistributedSampler(dataset(), num_replicas=2, rank=0, shuffle=False)
    with pytest.raises(ValueError, match=r"free of padding, got a .* 24 of 23"):
        extract(network(), loader(sampler=sampler))


@pytest.mark.parametrize(
    "sampler",
    [
        WeightedRandomSampler(torch.ones(N), N),
        RandomSampler(dataset(), replacement=True),
    ],
)
def test_loaders_that_draw_with_replacement_are_refused(sampler):
    with pytest.raises(ValueError, match=r"every sample once, got a .*RandomSampler"):
        extract(network(), loader(sampler=sampler))


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": range(N)}])
@pytest.mark.parametrize("name", ["groups", "ids"])
def test_names_need_a_loader_that_keeps_its_order(name, options):
    names = {name: [f"{name}-{row}" for row in range(N)]}
    if "sampler" in options:
        assert getattr(extract(network(), loader(**options), **names), name)[1]
        return
    with pytest.raises(ValueError, match=rf"\(shuffle=False\), as {name} are in that"):
        extract(network(), loader(**options), **names)
    extract(network(), loader(**options), groups="one name for all")


def test_what_cannot_be_extracted_is_named(tmp_path):
    x = torch.ones(2, 6)
    with pytest.raises(ValueError, match="loader must be non-empty"):
        extract(network(), [])
    with pytest.raises(ValueError, match=r"\(inputs, labels\).*got 4 parts"):
        extract(network(), [(x, x, x, x)])
    with pytest.raises(TypeError, match="a Tensor among the ids, which must be str"):
        extract(network(), [(x, torch.zeros(2, dtype=torch.int64), x)])
    with pytest.raises(ValueError, match="inputs and labels must have the same length"):
        extract(network(), [(x, torch.zeros(3, dtype=torch.int64))])
    with pytest.raises(TypeError, match="labels must be integers, got dtype float32"):
        extract(network(), [(x, torch.zeros(2))])
    with pytest.raises(ValueError, match="out must be the name of a folder"):
        extract(network(), [x], out=tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a folder to keep .* \(resume=True\)"):
        extract(network(), [x], resume=True)
    with pytest.raises(ValueError, match=r"labels must be -1 or 0\.\.3"):
        extract(network(), [(x, [0, 4])], out=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "batch", [{"image": 0, "label": 1}, {"input": 0, "y": 1}, {"labels": 1, "x": 0}]
)
def test_keys_the_model_does_not_take_are_named(batch):
    parts = torch.ones(2, 6), torch.zeros(2, dtype=torch.int64)
    batch = {name: parts[i] for name, i in batch.items()}
    strange = [name for name in batch if name not in ("label", "labels")]
    with pytest.raises(
        TypeError,
        match=r"the keys of a batch must be arguments of Sequential.forward \(input\), "
        "to which entries go by keyword, or for the labels one of labels, label, "
        f"targets, target, got {', '.join(map(repr, strange))} .*Rename them",
    ):
        extract(network(), [batch])


@pytest.mark.parametrize(
    "wrap",
    [nn.DataParallel, lambda model: torch.compile(model, backend="eager")],
    ids=["parallel", "compiled"],
)
def test_a_wrapper_hides_no_names(wrap):
    batch = {"image": torch.ones(2, 6)}
    with pytest.raises(TypeError, match=r"arguments of Sequential.forward \(input\)"):
        extract(wrap(network()), [batch])
    check(extract(wrap(network()), loader()), network())


def test_a_compiled_network_is_not_compiled_for_every_batch():
    torch._dynamo.reset()
    compiled = CompileCounter()
    outputs = extract(torch.compile(network(), backend=compiled), loader())
    check(outputs, network())
    assert compiled.frame_count <= 3  # to find the head; for batches; for the last


def test_a_network_without_a_linear_layer_is_named():
    with pytest.raises(ValueError, match=r"got none: no nn\.Linear ran\. It must end"):
        extract(nn.Flatten(), [torch.ones(2, 6)])
    with pytest.raises(TypeError, match=r"model must be an nn.Module, got func"):
        extract(lambda x: x, [torch.ones(2, 6)])


def test_of_many_layers_the_last_are_named():
    deep = nn.Sequential(*(nn.Linear(6, 6) for _ in range(30)), nn.Softmax(dim=1))
    with pytest.raises(ValueError, match=r"none; the last are 24, 25, .*, 29\. Name"):
        extract(deep, [torch.ones(2, 6)])


def test_a_layer_used_twice_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x):
            return self.fc(self.fc(x))

    with pytest.raises(ValueError, match="head 'fc' must be called once per pass"):
        extract(Twice(), [torch.ones(2, 6)])


class _Ending(nn.Module):
    """A network whose linear layer is not its end."""

    def __init__(self, end):
        super().__init__()
        self.fc, self.end = nn.Linear(6, 6), end

    def forward(self, x):
        return self.end(x, self.fc(x))


def test_logits_that_the_model_changes_later_are_warned_of():
    batches = [torch.randn(5, 6), torch.randn(5, 6)]
    for end in (
        lambda x, z: 16 * z,
        lambda x, z: z.relu(),
        lambda x, z: (x, 2 * z),
        lambda x, z: {"scores": z + x},
    ):
        with pytest.warns(UserWarning, match=r"changes the output of 'fc'") as warned:
            extract(_Ending(end), batches, head="fc")
        assert len(warned) == 1  # not for every batch
    for end in (
        lambda x, z: z.softmax(dim=1),
        lambda x, z: z.log_softmax(dim=1),
        lambda x, z: (x, z),
        lambda x, z: {"scores": z},
        lambda x, z: SimpleNamespace(logits=z),
    ):
        extract(_Ending(end), batches, head="fc")  # a warning is an error here


class Named(torch.utils.data.Dataset):
    """Samples with labels and paths, as many loaders of images give them."""

    def __len__(self):
        return N

    def __getitem__(self, row):
        inputs, labels = dataset().tensors
        return inputs[row], labels[row], f"images/{row:03}.png"


@pytest.mark.parametrize("folder", [False, True])
def test_groups_and_ids_are_kept(tmp_path, folder):
    out = tmp_path / "outputs" if folder else None
    named = extract(
        network(), DataLoader(Named(), batch_size=BATCH), out=out, groups="street"
    )
    assert named.ids.tolist() == [f"images/{row:03}.png" for row in range(N)]
    assert set(named.groups) == {"street"}
    groups, ids = [str(i % 3) for i in range(N)], [f"id {i}" for i in range(N)]
    out = tmp_path / "others" if folder else None
    found = extract(network(), loader(), out=out, groups=groups, ids=ids)
    assert found.groups.tolist() == groups
    assert found.ids.tolist() == ids
    arrays = {"groups": np.array(groups), "ids": np.array(ids)}
    assert extract(network(), loader(), **arrays).ids.tolist() == ids


def test_ids_of_the_batches_survive_an_interrupted_run(tmp_path):
    model = network()
    calls = []

    class Failing(Named):
        def __getitem__(self, row):
            if row == 17 and not calls:
                calls.append(row)
                raise KeyboardInterrupt
            return super().__getitem__(row)

    options = {"out": tmp_path / "outputs", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        extract(model, DataLoader(Failing(), batch_size=BATCH), **options)
    found = extract(model, DataLoader(Failing(), batch_size=BATCH), **options)
    assert found.ids.tolist() == [f"images/{row:03}.png" for row in range(N)]
    check(found, model)


def test_unknown_samples_are_labelled_so_whatever_their_labels():
    found = extract(network(), loader(), unknown=True)
    assert_array_equal(found.labels, np.full(N, -1))
    inputs = dataset().tensors[0]
    wild = DataLoader(TensorDataset(inputs, torch.full((N,), 321)), batch_size=BATCH)
    assert_array_equal(extract(network(), wild, unknown=True).labels, np.full(N, -1))
    bare = extract(network(), DataLoader(inputs, batch_size=BATCH), unknown=True)
    assert_array_equal(bare.labels, np.full(N, -1))


@pytest.mark.parametrize("listed", [True, False])
def test_labels_the_network_has_no_output_for_are_refused_before_the_pass(listed):
    inputs = torch.randn(N, 6)
    labels = torch.arange(N) // 5  # 4 is too large, and comes last
    seen = []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, inputs):
            seen.append(len(inputs))
            return self.inner(inputs)

    data = TensorDataset(inputs, labels)
    batches = DataLoader(data if listed else list(data), batch_size=BATCH)
    with pytest.raises(ValueError, match=r"labels must be -1 or 0\.\.3.*got 4") as said:
        extract(Counting(), batches)
    assert "unknown=True" in str(said.value)
    assert sum(seen) <= BATCH if listed else sum(seen) > BATCH


@pytest.mark.parametrize("name", ["groups", "ids"])
def test_names_of_another_length_are_refused_before_the_pass(name):
    model = network()
    model.register_forward_hook(lambda *_: pytest.fail("it ran"))
    with pytest.raises(
        ValueError, match=f"{name} must have the same length, got {N}, {N - 1}"
    ):
        extract(model, loader(), **{name: ["a"] * (N - 1)})


def test_one_output_for_two_classes_is_told_how_to_become_two():
    batches = [(torch.randn(4, 6), torch.tensor([0, 1, 1, 0]))]
    with pytest.raises(
        ValueError, match=r"got 1\. .*numpy\.stack\(\[-z, z\], axis=1\)"
    ):
        extract(nn.Linear(6, 1), batches)
