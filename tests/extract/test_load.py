"""Real networks of other libraries, built offline, give the outputs they compute."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from openset import extract
from openset.extract import LinearHead
from tests.train.tiny import fit_tiny, image_data, rows_data
from tests.vision import declare_operators, save_small_vit

declare_operators()  # timm and transformers import torchvision

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 40, 48, 3), dtype=np.uint8)


def head_gives_logits(found, atol=1e-4):
    again = found.features @ found.weight.T + found.bias
    assert_allclose(again, found.logits, atol=atol)


def test_timm_with_a_file_of_weights(tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=5).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    torch.save({"state_dict": model.state_dict()}, tmp_path / "weights.pth")
    config = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**config, is_training=False)
    with torch.no_grad():
        batch = torch.stack([transform(Image.fromarray(one)) for one in IMAGES])
        expected = model(batch).numpy()
    for file in ("weights.safetensors", "weights.pth"):
        network = extract.load("timm:resnet10t", weights=tmp_path / file)
        found = network.apply(IMAGES, batch_size=3, device="cpu", progress=False)
        assert_allclose(found.logits, expected, atol=1e-4)
        head_gives_logits(found)
        assert found.features.shape == (7, 512)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    return folder, save_small_vit(folder)


def test_an_image_classifier_of_hugging_face(vit):
    """ODIN's step is in pixels of [0, 1]: normalised values move by epsilon / std."""
    folder, model = vit
    network = extract.load(f"hf:{folder}")
    assert (network.kind, network.classes) == ("image", ("ant", "bee", "cat"))
    assert network.std == (0.5, 0.5, 0.5)
    labels, how = [0, 1, 2, -1, 0, 1, 2], {"device": "cpu", "progress": False}
    found = network.apply(IMAGES, labels=labels, batch_size=4, **how)
    batch = network.prepare([Image.fromarray(one) for one in IMAGES])["pixel_values"]
    logits = model(batch.requires_grad_()).logits
    assert_allclose(found.logits, logits.detach(), atol=1e-5)
    head_gives_logits(found)
    assert_array_equal(found.labels, labels)
    best = (logits / 100).log_softmax(dim=1).amax(dim=1)
    (gradient,) = torch.autograd.grad(best.sum(), batch)
    with torch.no_grad():
        expected = model(batch + 0.01 / 0.5 * gradient.sign()).logits
    step = extract.Odin(temperature=100, epsilon=0.01)
    moved = network.apply(IMAGES, step=step, **how)
    assert_allclose(moved.logits, expected, atol=1e-5)


def small(n_channels=3):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(n_channels, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(16, 5),
    ).eval()  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch, about itself
def test_an_onnx_file_and_the_module_it_was_made_of_agree(tmp_path):
    pytest.importorskip("onnxscript")
    model, file = small(), tmp_path / "model.onnx"
    torch.onnx.export(
        model, (torch.zeros(2, 3, 32, 32),), file, dynamo=True, verbose=False,
        dynamic_shapes=({0: torch.export.Dim("n")},),
    )  # fmt: skip
    options = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
    torch_one = extract.load(model, side=32, **options)
    onnx_one = extract.load(file, **options)  # it knows its size
    labels = [0, 1, 2, 3, 4, -1, 0]
    a, b = (
        one.apply(IMAGES, labels=labels, groups="street", batch_size=3, progress=False)
        for one in (torch_one, onnx_one)
    )
    assert_allclose(a.logits, b.logits, atol=1e-4)
    assert_allclose(a.features, b.features, atol=1e-4)
    assert_array_equal(b.labels, labels)
    assert set(b.groups) == {"street"}
    head_gives_logits(b)
    resized = [Image.fromarray(one).resize((32, 32)) for one in IMAGES]
    pixels = np.stack([np.asarray(one) for one in resized])
    by_hand = (pixels / 255 - options["mean"]) / options["std"]
    with torch.no_grad():
        expected = model(torch.from_numpy(by_hand.transpose(0, 3, 1, 2)).float())
    assert_allclose(b.logits, expected, atol=1e-4)


def linear_file(path, *, nodes):
    """Write a file whose last layer is made of these nodes."""
    onnx = pytest.importorskip("onnx", reason="an extra")
    rng = np.random.default_rng(0)
    shapes = {"W": (12, 5), "T": (5, 12), "b": (5,), "row": (1, 5)}
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 3, 2, 2]), ("y", ["n", 5]))
    )
    listed = [
        onnx.helper.make_node(kind, inputs.split(), [output], **options)
        for kind, inputs, output, options in (("Flatten", "x", "f", {}), *nodes)
    ]
    weights = [onnx.numpy_helper.from_array(one, n) for n, one in arrays.items()]
    graph = onnx.helper.make_graph(listed, "linear", [x], [y], weights)
    opset = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


# Nodes of a last layer: each has an operator, its inputs, its output, and options.
LAST = [
    [("Gemm", "f T b", "y", {"transB": 1})],
    [("Gemm", "f W b", "y", {"alpha": 0.5, "beta": 2.0})],
    [("Gemm", "f W", "y", {})],
    [("MatMul", "f W", "y", {})],
    [("MatMul", "f W", "z", {}), ("Add", "b z", "y", {})],
    [("MatMul", "f W", "z", {}), ("Add", "z row", "y", {})],
    [("Gemm", "f W b", "z", {}), ("Flatten", "z", "y", {})],
]


def test_the_last_layer_of_an_onnx_file_is_found(tmp_path):
    for nodes in LAST:
        network = extract.load(linear_file(tmp_path / "model.onnx", nodes=nodes))
        head_gives_logits(network.apply(IMAGES, progress=False))
    with pytest.raises(ValueError, match="left out for an ONNX file, which has no gra"):
        network.apply(IMAGES, layers=["f"])


def test_grey_images_are_for_networks_of_one_channel(tmp_path):
    """In colour and grey, with a copy of each, of torch and as ONNX files."""
    model, side = small(1), 20
    network = extract.load(model, side=side, mean=[0.5], std=[0.25])
    grey = [Image.fromarray(one).convert("L") for one in IMAGES]
    resized = np.stack([np.asarray(one.resize((side, side))) for one in grey])
    with torch.no_grad():
        rows = torch.from_numpy(resized / 255 - 0.5).float()[:, None] / 0.25
        expected = model(rows)
    for images in (IMAGES, grey, [np.asarray(one) for one in grey]):
        found = network.apply(images, step=None, device="cpu", progress=False)
        assert_allclose(found.logits, expected, atol=1e-5)
    assert network.preprocessing.startswith("grey, resized to 20 pixels")
    flat = extract.load(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), side=2, mean=[0])
    assert flat.apply(grey, progress=False).features.shape == (7, 4)
    assert network.traced()[1].shape == (2, 1, side, side)


@pytest.mark.parametrize("kind", ["image", "table"])
def test_a_folder_of_openset_train(tmp_path, kind):
    data = image_data(side=16) if kind == "image" else rows_data()
    how = {"network": "osrci" if kind == "image" else "mlp", "epochs": 1}
    trained = fit_tiny(data, out=tmp_path, **how)
    network = extract.load(tmp_path)
    assert (network.classes, network.kind) == (trained.classes, kind)
    found = network.apply(data.inputs[:9], out=tmp_path / "out", progress=False)
    expected = trained.apply(data.inputs[:9], progress=False)
    assert_array_equal(found.logits, expected.logits)
    assert_array_equal(found.features, expected.features)
    head_gives_logits(found)
    module, example = network.traced()
    assert module(example).shape == (2, len(trained.classes))
    with pytest.raises(ValueError, match="a network whose last layer is fixed"):
        extract.load(tmp_path, head=LinearHead(weight=np.eye(3), bias=np.zeros(3)))


def test_a_last_layer_is_put_where_the_network_has_its_own(vit):
    folder, _ = vit
    weight = RNG.normal(size=(2, 16))
    head = LinearHead(weight=weight, bias=[0.5, -0.5], classes=("day", "night"))
    network = extract.load(f"hf:{folder}", head=head)
    assert network.classes == ("day", "night")
    found = network.apply(IMAGES, device="cpu", progress=False)
    own = extract.load(f"hf:{folder}").apply(IMAGES, device="cpu", progress=False)
    assert_allclose(found.features, own.features, atol=1e-6)
    expected = own.features @ head.weight.T + head.bias
    assert_allclose(found.logits, expected, atol=1e-5)
    module, example = network.traced()  # of keywords, made of one tensor
    with torch.no_grad():
        assert_allclose(module(example), network.model(example).logits)
    given = small()
    bare = extract.load(given, side=32).without_head()
    rows = bare.apply(IMAGES, labels=[0, 1, 0, 1, 0, 1, 0], progress=False)
    extract.load(given, side=32, head=LinearHead.fit(rows))
    assert given[-1].out_features == 5  # the caller's own is as it was


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("resnet10t", {}, "a torch module, got 'resnet10t', which does not exist"),
        (".", {}, "got '.', a folder without trained.json"),
        ("no.onnx", {}, "No such file"),
        ("timm:resnet10t", {"weights": "no.pth"}, "no.pth"),
        ("timm:no_such", {}, "no_such"),
        ("hf:/no/such/folder", {}, "/no/such/folder"),
        ("collections:OrderedDict", {}, "must be an nn.Module"),
        ("timm:resnet10t", {"side": 32}, "unexpected keyword argument 'side'"),
        (small(4), {}, "for grey or RGB images, of 1 or 3 channels, got one for 4"),
    ],
)
def test_what_cannot_be_loaded_is_named(source, options, words):
    library = {"timm": "timm", "hf": "transformers"}.get(str(source).partition(":")[0])
    if library:
        pytest.importorskip(library)
    with pytest.raises((ValueError, TypeError, OSError, RuntimeError)) as said:
        extract.load(source, **options)
    assert words in f"{said.value!r} {said.value}"


def test_weights_that_do_not_fit_are_named(tmp_path):
    pytest.importorskip("timm")
    file = tmp_path / "w.safetensors"
    said = {"fc": "size mismatch", "_conv": r"Missing key.*[\s\S]*conv1\.0\.weight"}
    for layer, words in said.items():
        save_file({f"{layer}.weight": torch.zeros(3, 9)}, file)
        with pytest.raises(RuntimeError, match=words):
            extract.load("timm:resnet10t", weights=file)
    (tmp_path / "w.pth").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged or no file of tensors"):
        extract.load("timm:resnet10t", weights=tmp_path / "w.pth")
