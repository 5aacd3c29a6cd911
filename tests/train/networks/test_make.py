"""Networks: the published sizes and starts, models of others, and of one's own."""

import math

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from openset.train import Trained, networks
from openset.train.networks import MLP, OSRCI, Classifier32, Network, TwoNorms, make
from openset.train.networks.classifier32 import use_norms
from tests.train.tiny import fit_tiny, image_data, rows_network

IMAGES = torch.zeros(2, 3, 32, 32)
ROWS = torch.eye(4)


def size(module):
    return sum(p.numel() for p in module.parameters())


# Classifier32.


def test_classifier32_has_the_published_layers_less_a_batch_norm_nobody_uses():
    for n_classes, published in ((4, 999_872), (6, 1_000_128), (20, 1_001_920)):
        assert size(Classifier32(n_classes)) == published - 256
    convolutions = [m for m in Classifier32(6).modules() if isinstance(m, nn.Conv2d)]
    found = [(c.in_channels, c.out_channels, c.stride[0]) for c in convolutions]
    first = [(3, 64, 1), (64, 64, 1), (64, 128, 2)]
    assert found == first + [(128, 128, 1), (128, 128, 1), (128, 128, 2)] * 2
    for c in convolutions:
        assert (c.kernel_size, c.padding, c.bias) == ((3, 3), (1, 1), None)


def test_classifier32_starts_as_published():
    torch.manual_seed(0)
    network = Classifier32(6)
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    weights = torch.cat([c.weight.flatten() for c in convolutions])
    assert weights.mean().abs() < 5e-4
    assert weights.std().item() == pytest.approx(0.05, rel=0.01)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    scales = torch.cat([n.weight for n in norms])
    assert scales.mean().item() == pytest.approx(1, abs=0.003)
    assert scales.std().item() == pytest.approx(0.02, rel=0.1)
    assert not any(n.bias.any() for n in norms)
    assert network.head.bias is None
    bound = 1 / math.sqrt(128)
    assert network.head.weight.abs().max() <= bound
    assert network.head.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_classifier32_can_be_mixed_in_after_each_convolution():
    network = Classifier32(6).eval()
    layers = tuple(f"conv{i}" for i in range(1, 10))
    assert network.places == ("input", *layers, "penultimate")
    images = torch.rand(2, 3, 32, 32)
    expected = network.backbone(images)
    for place in network.places:
        found = network.after(network.before(images, place), place)
        torch.testing.assert_close(found, expected)


def test_two_norms_are_independent_and_the_first_is_the_usual_one():
    network = Classifier32(6, two_norms=True)
    pairs = [m for m in network.modules() if isinstance(m, TwoNorms)]
    assert len(pairs) == 9
    assert size(network) == size(Classifier32(6)) + 2 * (2 * 64 + 7 * 128)
    first, second = pairs[0].norms
    images = torch.rand(8, 3, 32, 32) + 1
    use_norms(network, 1)
    network(images)
    assert not first.running_mean.any()
    assert second.running_mean.any()
    use_norms(network, 0)
    network(images)
    assert first.running_mean.any()


# Our other ones.


def test_the_osrci_network_has_the_published_layers():
    for side, left in ((32, 5), (28, 4), (16, 1)):
        network = OSRCI(6, side=side)
        full = network.backbone.full[1]
        assert (full.in_features, full.out_features) == (20 * left**2, 64)
        assert network(torch.zeros(2, 3, side, side)).shape == (2, 6)


def test_the_mlp_standardises_columns_and_scales_all_pixels_alike():
    rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    standard = MLP(2, example=rows).backbone.standard
    assert standard(rows).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert standard(torch.tensor([[2.0, 9.0]])).tolist() == [[0.0, 0.0]]
    # In the examples the last pixel is black but for one; elsewhere it is not.
    images = torch.zeros(512, 1, 2, 2)
    images[:, 0, 0] = torch.rand(512, 2, generator=torch.Generator().manual_seed(0))
    images[0, 0, 1, 1] = 0.01
    standard = MLP(2, example=images).backbone.standard
    assert standard.scale.unique().numel() == 1
    assert standard(images).std() == pytest.approx(1, abs=0.01)
    assert standard(torch.ones(1, 1, 2, 2)).abs().max() < 4


def test_names_make_what_they_say():
    kinds = {"classifier32": Classifier32, "mlp": MLP, "osrci": OSRCI}
    assert networks.names() == tuple(kinds)
    for name, kind in kinds.items():
        assert isinstance(make(name, 6, IMAGES), kind)
    assert make("mlp", 6, ROWS).head.out_features == 6


def test_names_nobody_has_are_refused():
    for network in ("vgg32", 7):
        said = f"network must be one of classifier32, .*got '?{network}"
        with pytest.raises(ValueError, match=said):
            make(network, 6, IMAGES)
    with pytest.raises(ValueError, match=r"'mlp' or .* rows of numbers, got 'osrci"):
        make("osrci", 6, ROWS)


# Models of timm.


@pytest.fixture
def timm(import_torchvision):
    return pytest.importorskip("timm", exc_type=ImportError)


def same_but_for_the_head(network, state, own):
    """Whether a network has these weights, and a last layer that is its own."""
    found = network.backbone.state_dict()
    kept = {name for name in state if not name.startswith(own)}
    assert found.keys() == kept
    return all(torch.equal(found[name], state[name]) for name in kept)


@pytest.mark.filterwarnings("ignore::UserWarning:timm")  # says which imports moved
@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_a_network_starts_from_a_file_of_weights(timm, ending, tmp_path):
    state = timm.create_model("resnet10t", num_classes=7).state_dict()
    path = tmp_path / f"weights.{ending}"
    if ending == "pth":
        torch.save({"state_dict": state}, path)
    else:
        save_file(state, path)
    made = make("timm:resnet10t", 3, IMAGES, pretrained=path)
    assert same_but_for_the_head(made, state, "fc.")
    assert made.head.weight.shape == (3, 512)
    assert not same_but_for_the_head(make("timm:resnet10t", 3, IMAGES), state, "fc.")
    other = timm.create_model("resnet14t").state_dict()
    save_file(other, tmp_path / "other.safetensors")
    with pytest.raises(RuntimeError, match="loading state_dict"):
        make("timm:resnet10t", 3, IMAGES, pretrained=tmp_path / "other.safetensors")


@pytest.mark.filterwarnings("ignore::UserWarning:timm")
def test_a_run_from_weights_records_them_and_does_not_need_them_again(timm, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(timm.create_model("resnet10t").state_dict(), path)
    data = image_data(n=8, side=32)
    settings = {
        "network": "timm:resnet10t", "epochs": 1, "batch": 6, "lr": 0.01,
        "validation": 0, "out": tmp_path / "run", "pretrained": path,
    }  # fmt: skip
    trained = fit_tiny(data, **settings)
    assert trained.outputs["train"].features.shape == (6, 512)
    assert trained.learner.network.places == ("input", "penultimate")
    assert trained.spec["pretrained"] == str(path)
    pipeline = trained.spec["recipe"]["pipeline"]
    config = timm.get_pretrained_cfg("resnet10t")
    assert [pipeline["mean"], pipeline["std"]] == [[*config.mean], [*config.std]]
    with pytest.raises(ValueError, match=r"differs in .*pretrained"):
        fit_tiny(data, **settings | {"pretrained": False})
    path.unlink()
    again = Trained.load(tmp_path / "run").model()
    ours, theirs = again.state_dict(), trained.model().state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


# Models of one's own.


class Odd(nn.Module):
    """Its last layer is neither last in order, nor the only one of its size."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"out": nn.Linear(8, 3)})
        self.unused = nn.Linear(8, 3)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, rows):
        """Make logits."""
        return self.parts["out"](torch.tanh(self.body(rows)))


def test_the_last_layer_is_found_wherever_it_is():
    model = Odd()
    network = make(model, 3, ROWS)
    torch.testing.assert_close(network(ROWS), model(ROWS))
    assert network.head.weight.equal(model.parts["out"].weight)
    assert network.backbone(ROWS).shape == (4, 8)
    assert isinstance(model.parts["out"], nn.Linear)  # it has been copied


class Wrapped(nn.Module):
    """Returns what a function makes of the features and the last layer."""

    def __init__(self, function, n_in=4):
        super().__init__()
        self.head, self.function = nn.Linear(n_in, 3), function

    def forward(self, rows):
        """Make logits."""
        return self.function(rows, self.head)


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda x, h: h(x).softmax(1), ValueError, "output is the model's, got 0 of h"),
        (lambda x, h: x[:, :3] * 2, ValueError, "got 0 of no nn.Linear"),
        (lambda x, h: (h(x), x), TypeError, "returns logits .*in place of the feat"),
        (lambda x, h: {"logits": h(x)}, TypeError, "returns logits .*got dict"),
        (lambda x, h: h(x[:, None]), TypeError, r"got Tensor \(2, 1, 4\) in place"),
        (lambda x, h: "no", TypeError, "what the model returns must be a tensor"),
    ],
)
def test_models_whose_last_layer_does_not_make_the_logits_are_refused(
    function, kind, message
):
    with pytest.raises(kind, match=message):
        make(Wrapped(function), 3, ROWS)


def test_a_model_with_other_outputs_is_refused():
    for model in (Odd(), rows_network(3)):
        with pytest.raises(ValueError, match=r"with 4 outputs, got 3\. One output"):
            make(model, 4, ROWS)


def test_a_network_of_ones_own_keeps_its_places():
    network = rows_network(3)
    made = make(network, 3, ROWS)
    assert isinstance(made, Network)
    assert made is not network
    assert made.places == ("input", "first", "penultimate")
