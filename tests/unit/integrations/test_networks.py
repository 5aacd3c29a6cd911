"""Real networks of other libraries, built offline, give the outputs they compute."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from safetensors.torch import save_file
from starlette.testclient import TestClient
from torch import nn
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors, serve
from openset._types import ArtefactError
from openset.cli import app
from openset.integrations import networks
from tests.vision import declare_operators, save_small_vit

declare_operators()  # timm and transformers import torchvision

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 40, 48, 3), dtype=np.uint8)


def head_gives_logits(found, atol=1e-4):
    again = found.features @ found.weight.T + found.bias
    assert_allclose(again, found.logits, atol=atol)


def photos(folder):
    folder.mkdir(parents=True)
    for row, pixels in enumerate(IMAGES):
        Image.fromarray(pixels).save(folder / f"{row}.png")
    return folder


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def test_timm_with_a_file_of_weights(tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=5).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    torch.save({"state_dict": model.state_dict()}, tmp_path / "weights.pth")
    config = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**config, is_training=False)
    with torch.no_grad():
        batch = torch.stack([transform(Image.fromarray(one)) for one in IMAGES])
        expected = model(batch).numpy()
    for file in ("weights.safetensors", "weights.pth"):
        network = networks.load("timm:resnet18", weights=tmp_path / file)
        found = network.apply(IMAGES, batch_size=3, device="cpu", progress=False)
        assert_allclose(found.logits, expected, atol=1e-4)
        head_gives_logits(found)
        assert found.features.shape == (7, 512)
    names = tmp_path / "names.txt"
    names.write_text("ant\nbee\ncat\ndog\neel\n", encoding="utf-8")
    done = run(
        "extract", "timm:resnet18", photos(tmp_path / "photos"), "--weights",
        tmp_path / "weights.pth", "--classes", names, "--out", tmp_path / "o.npz",
        "--unknown", "--device", "cpu",
    )  # fmt: skip
    assert done.exit_code == 0
    found = Outputs.load(tmp_path / "o.npz")
    assert_allclose(found.logits, expected, atol=1e-4)
    assert_array_equal(found.labels, np.full(7, -1))
    assert found.ids.tolist() == [f"{row}.png" for row in range(7)]
    assert found.classes == ("ant", "bee", "cat", "dog", "eel")


def test_weights_in_any_order_have_the_classes_of_their_last_layer(tmp_path):
    timm = pytest.importorskip("timm")
    state = timm.create_model("vit_tiny_patch16_224", num_classes=5).state_dict()
    torch.save(dict(reversed(state.items())), tmp_path / "reversed.pth")
    network = networks.load(
        "timm:vit_tiny_patch16_224", weights=tmp_path / "reversed.pth"
    )
    assert network.model.head.out_features == 5
    assert torch.equal(network.model.head.weight, state["head.weight"])


def test_torchvision_with_random_weights_says_so(tmp_path):
    pytest.importorskip("torchvision")
    network = networks.load("torchvision:resnet18", weights="random")
    assert "random" in network.note
    found = network.apply(IMAGES[:2], device="cpu", progress=False)
    assert found.logits.shape == (2, 1000)
    head_gives_logits(found)
    done = run(
        "extract", "torchvision:resnet18", photos(tmp_path / "photos"), "--weights",
        "random", "--out", tmp_path / "o.npz", "--device", "cpu",
    )  # fmt: skip
    assert "its weights are random" in " ".join(done.output.split())


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    return folder, save_small_vit(folder)


def test_an_image_classifier_of_hugging_face(vit):
    folder, model = vit
    network = networks.load(f"hf:{folder}")
    assert (network.kind, network.classes) == ("image", ("ant", "bee", "cat"))
    found = network.apply(
        IMAGES, labels=[0, 1, 2, -1, 0, 1, 2], batch_size=4, device="cpu",
        progress=False,
    )  # fmt: skip
    batch = network.prepare([Image.fromarray(one) for one in IMAGES])
    with torch.no_grad():
        assert_allclose(found.logits, model(**batch).logits, atol=1e-5)
    head_gives_logits(found)
    assert_array_equal(found.labels, [0, 1, 2, -1, 0, 1, 2])


def test_layers_of_a_network_of_others(vit):
    folder, model = vit
    network = networks.load(f"hf:{folder}")
    names = [name for name, _ in model.named_modules()]
    inner = next(name for name in names if name.endswith("layernorm"))
    found = network.apply(
        IMAGES, layers=[inner, "classifier"], batch_size=4, device="cpu", progress=False
    )
    batch = network.prepare([Image.fromarray(one) for one in IMAGES])
    kept = []
    hook = model.get_submodule(inner).register_forward_hook(
        lambda _module, _inputs, made: kept.append(made)
    )
    with torch.no_grad():
        logits = model(**batch).logits
    hook.remove()
    assert found.layers == ((inner, 16), ("classifier", 3))
    parts = found.by_layer()
    assert_allclose(parts[inner].features, kept[0].mean(dim=1), atol=1e-5)
    assert_allclose(parts["classifier"].features, logits, atol=1e-5)
    with pytest.raises(ValueError, match=r"names of layers of the network .*'layer9'"):
        network.apply(IMAGES[:1], layers=["layer9"], device="cpu", progress=False)


def test_odins_step_is_in_pixels_by_what_the_network_brings(vit, tmp_path):
    """Of pixels in [0, 1]: their normalised values move by epsilon over std."""
    folder, model = vit
    network = networks.load(f"hf:{folder}")
    assert network.std == (0.5, 0.5, 0.5)
    batch = network.prepare([Image.fromarray(one) for one in IMAGES])["pixel_values"]
    batch.requires_grad_()
    logits = model(batch).logits / 100
    logits.log_softmax(dim=1).max(dim=1).values.sum().backward()
    with torch.no_grad():
        expected = model(batch + 0.01 / 0.5 * batch.grad.sign()).logits
    out = tmp_path / "o.npz"
    done = run(
        "extract", f"hf:{folder}", photos(tmp_path / "photos"), "--device", "cpu",
        "--odin", "temperature=100,epsilon=0.01", "--out", out,
    )  # fmt: skip
    assert "--detector msp:temperature=100" in done.output
    assert_allclose(Outputs.load(out).logits, expected, atol=1e-5)
    with pytest.raises(ValueError, match="--odin must be NAME=VALUE with a number"):
        run("extract", f"hf:{folder}", tmp_path / "photos", "--odin", "epsilon=much")


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_the_deviation_of_pixels_is_that_of_the_library(library):
    pytest.importorskip(library)
    network = networks.load(f"{library}:resnet18", weights="random")
    assert_allclose(network.std, (0.229, 0.224, 0.225))


def test_a_text_classifier_of_hugging_face(tmp_path):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "book", "a", "table", "now"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    folder = tmp_path / "bert"
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, num_labels=4,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    texts = ["book a table", "now", "book now", "a table now book a table"]
    network = networks.load(f"hf:{folder}")
    assert network.kind == "text"
    found = network.apply(texts, batch_size=3, device="cpu", progress=False)
    for text, row in zip(texts, found.logits, strict=True):
        with torch.no_grad():
            alone = model(**network.prepare([text])).logits
        assert_allclose(row, alone[0], atol=1e-5)
    head_gives_logits(found)
    lines = [*texts[:-1], "book a table now " * 30]
    (tmp_path / "mails.txt").write_text("\n".join(lines), encoding="utf-8")
    done = run(
        "extract", f"hf:{folder}", tmp_path / "mails.txt", "--out",
        tmp_path / "o.npz", "--device", "cpu",
    )  # fmt: skip
    assert done.exit_code == 0
    saved = Outputs.load(tmp_path / "o.npz")
    assert_allclose(saved.logits[:-1], found.logits[:-1], atol=1e-5)
    assert set(saved.groups) == {"mails"}
    *short, long = saved.ids.tolist()  # what openset predict shows
    assert short == texts[:-1]
    assert long.startswith("book a table now book")
    assert long.endswith(" …")
    assert len(long) <= 80
    assert "Loading weights" not in done.output + done.stderr
    # Fine-tuned without the names of its classes: they are LABEL_0 and so on.
    table = tmp_path / "mails.csv"
    table.write_text("text,label\nbook now,booking\na table,menu\n", encoding="utf-8")
    words = ["extract", f"hf:{folder}", table, "--out", tmp_path / "o.npz"]
    said = " ".join(run(*words, "--device", "cpu").output.split())
    assert "class of the network (LABEL_0, LABEL_1, LABEL_2, …), so all samples" in said
    assert "--classes" not in run(*words, "--device", "cpu", "--unknown").output
    assert set(Outputs.load(tmp_path / "o.npz").labels) == {-1}
    names = tmp_path / "names.txt"
    names.write_text("menu\nbooking\nother\npay\n", encoding="utf-8")
    run(*words, "--device", "cpu", "--classes", names)
    assert Outputs.load(tmp_path / "o.npz").labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="--odin must be left out for texts: the num"):
        run(*words, "--odin", "epsilon=0.1")


def small():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(16, 5),
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
    torch_one = networks.load(model, side=32, **options)
    onnx_one = networks.load(file, **options)  # it knows its size
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
    pixels = np.stack(
        [np.asarray(Image.fromarray(one).resize((32, 32))) for one in IMAGES]
    )
    by_hand = (pixels / 255 - options["mean"]) / options["std"]
    with torch.no_grad():
        expected = model(torch.from_numpy(by_hand.transpose(0, 3, 1, 2)).float())
    assert_allclose(b.logits, expected, atol=1e-4)


def linear_file(path, *, nodes):
    """Write a file whose last layer is made of these nodes."""
    onnx = pytest.importorskip("onnx", reason="an extra")
    rng = np.random.default_rng(0)
    shapes = {"W": (12, 5), "T": (5, 12), "b": (5,), "row": (1, 5)}
    tensor = onnx.helper.make_tensor_value_info
    float32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Flatten", ["x"], ["f"])]
        + [onnx.helper.make_node(kind, *at, **more) for kind, at, more in nodes],
        "linear",
        [tensor("x", float32, ["n", 3, 2, 2])],
        [tensor("y", float32, ["n", 5])],
        [
            onnx.numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n)
            for n, s in shapes.items()
        ],
    )
    opset = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


@pytest.mark.parametrize(
    "nodes",
    [
        [("Gemm", (["f", "T", "b"], ["y"]), {"transB": 1})],
        [("Gemm", (["f", "W", "b"], ["y"]), {"alpha": 0.5, "beta": 2.0})],
        [("Gemm", (["f", "W"], ["y"]), {})],
        [("MatMul", (["f", "W"], ["y"]), {})],
        [("MatMul", (["f", "W"], ["z"]), {}), ("Add", (["b", "z"], ["y"]), {})],
        [("MatMul", (["f", "W"], ["z"]), {}), ("Add", (["z", "row"], ["y"]), {})],
        [("Gemm", (["f", "W", "b"], ["z"]), {}), ("Flatten", (["z"], ["y"]), {})],
    ],
)
def test_the_last_layer_of_an_onnx_file_is_found(tmp_path, nodes):
    network = networks.load(linear_file(tmp_path / "model.onnx", nodes=nodes))
    head_gives_logits(network.apply(IMAGES, progress=False))


def test_what_is_no_network_is_not_offered():
    with pytest.raises(ValueError, match=r"or an ONNX file, got 'runs'.*train.Trained"):
        networks.load("runs")


def coloured(folder, n=12):
    """Write images of two classes, and of one more, in a folder for each."""
    for name, shade in (("red", 0), ("green", 1), ("blue", 2)):
        (folder / name).mkdir(parents=True)
        for row in range(n):
            pixels = RNG.integers(0, 60, (32, 32, 3), dtype=np.uint8)
            pixels[:, :, shade] += 150
            Image.fromarray(pixels).save(folder / name / f"{row}.png")
    return folder


NAME = f"{__name__}:small"


def test_a_network_gets_another_last_layer(tmp_path, monkeypatch):
    """Fitted on its features, used in its place: extracted, served and exported."""
    pytest.importorskip("onnx", reason="an extra")
    photos_of = coloured(tmp_path / "photos")
    train, head = tmp_path / "train.npz", tmp_path / "head.npz"
    (photos_of / "blue").rename(tmp_path / "blue")
    options = ["--side", 32, "--device", "cpu"]
    done = run("extract", NAME, photos_of, "--fit-head", head, "--out", train, *options)
    assert "last layer for 2 classes" in " ".join(done.output.split())
    fitted = Outputs.load(train)
    assert fitted.classes == ("green", "red")
    assert (fitted.logits.argmax(axis=1) == fitted.labels).all()
    plain = networks.load(small(), side=32).apply(
        [np.asarray(Image.open(photos_of / name)) for name in fitted.ids],
        progress=False,
    )
    assert_allclose(fitted.features, plain.features, atol=1e-5)
    head_gives_logits(fitted)

    out = tmp_path / "all.npz"
    (tmp_path / "blue").rename(photos_of / "blue")
    run("extract", NAME, photos_of, "--head", head, "--out", out, *options)
    found = Outputs.load(out)
    assert set(found.groups[found.labels == -1]) == {"blue"}
    known = found.take(found.labels != -1)
    assert_allclose(known.logits, fitted.logits, atol=1e-4)

    rejector = Rejector.calibrate(
        detectors.ViM(dim=2).fit(fitted), known=known, objective="at_tpr"
    )
    rejector.save(tmp_path / "rejector")
    expected = rejector.predict(found)
    served = serve.app(rejector, model=NAME, head=head, side=32)
    files = [("file", (photos_of / name).read_bytes()) for name in found.ids]
    answer = TestClient(served).post("/predict", files=files).json()
    assert answer["decisions"] == expected.tolist()

    given = []  # writing the graph itself is tested elsewhere, and takes seconds
    monkeypatch.setattr(
        "openset.integrations.onnx.export",
        lambda *one, **more: given.append((one, more)),
    )
    done = run(
        "export", tmp_path / "rejector", "--onnx", "--model", NAME, "--head", head,
        "--side", 32, "--out", tmp_path / "open.onnx",
    )  # fmt: skip
    assert "resized to 32 pixels, scaled to [0, 1]" in " ".join(done.output.split())
    ((_, _, module), more), *_ = given
    assert more["example"].shape[1:] == (3, 32, 32)
    pixels = [np.asarray(Image.open(photos_of / name)) for name in found.ids]
    batch = np.stack(pixels).transpose(0, 3, 1, 2).astype(np.float32) / 255
    with torch.no_grad():
        assert_allclose(module(torch.from_numpy(batch)), found.logits, atol=1e-4)


def test_a_last_layer_is_put_where_the_network_has_its_own(vit):
    folder, _ = vit
    head = networks.LinearHead(
        weight=RNG.normal(size=(2, 16)), bias=[0.5, -0.5], classes=("day", "night")
    )
    network = networks.load(f"hf:{folder}", head=head)
    assert network.classes == ("day", "night")
    found = network.apply(IMAGES, device="cpu", progress=False)
    own = networks.load(f"hf:{folder}").apply(IMAGES, device="cpu", progress=False)
    assert_allclose(found.features, own.features, atol=1e-6)
    expected = own.features @ head.weight.T + head.bias
    assert_allclose(found.logits, expected, atol=1e-5)
    module, example = network.traced()  # of keywords, made of one tensor
    with torch.no_grad():
        assert_allclose(module(example), network.model(example).logits)
    given = small()
    networks.load(given, side=32, head=networks.LinearHead.fit(
        networks.load(given, side=32).without_head().apply(
            IMAGES, labels=[0, 1, 0, 1, 0, 1, 0], progress=False
        )
    ))  # fmt: skip
    assert given[-1].out_features == 5  # the caller's own is as it was


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        ("resnet18", {}, ValueError, "network must be timm:NAME"),
        ("timm:resnet18", {"weights": "no.pth"}, FileNotFoundError, "does not exist"),
        ("timm:no_such", {"weights": "random"}, ValueError, "a model of timm"),
        ("hf:/no/such/folder", {}, ValueError, "a model of Hugging Face"),
        ("collections:OrderedDict", {}, TypeError, "must be an nn.Module"),
    ],
)
def test_what_cannot_be_loaded_is_named(source, options, error, words):
    library = {"timm": "timm", "hf": "transformers"}.get(source.partition(":")[0])
    if library:
        pytest.importorskip(library)
    with pytest.raises(error, match=r"^networks\.load: ") as said:
        networks.load(source, **options)
    assert words in str(said.value)


def test_weights_that_do_not_fit_are_named(tmp_path):
    pytest.importorskip("timm")
    file = tmp_path / "w.safetensors"
    save_file({"fc.weight": torch.zeros(3, 9)}, file)
    words = r"weights must be weights of the network, got fc.weight of shape \(3, 9\)"
    with pytest.raises(ArtefactError, match=words):
        networks.load("timm:resnet18", weights=file)
    save_file({"_conv.weight": torch.zeros(3, 9)}, file)
    words = (
        r"names of the network's \(conv1\.weight, .* more\), got _conv\.weight which "
        r"it does not have, and conv1\.weight, .* missing\. Rename them"
    )
    with pytest.raises(ArtefactError, match=words):
        networks.load("timm:resnet18", weights=file)
    (tmp_path / "w.pth").write_bytes(b"nonsense")
    with pytest.raises(ArtefactError, match=r"must be a \.safetensors or \.pth file"):
        networks.load("timm:resnet18", weights=tmp_path / "w.pth")


def test_images_of_several_sizes_ask_for_a_size():
    network = networks.load(small())
    mixed = [IMAGES[0], IMAGES[1][:20]]
    with pytest.raises(ValueError, match="side must be given for images of several"):
        network.apply(mixed, progress=False)
    with pytest.raises(ValueError, match="inputs must be at least one sample"):
        network.apply([], progress=False)
