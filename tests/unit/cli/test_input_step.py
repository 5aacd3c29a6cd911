"""Inputs moved along a gradient, from the shell: ODIN, and detectors over layers."""

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from starlette.testclient import TestClient
from torch import nn
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors, serve
from openset.cli import app
from openset.integrations import networks
from openset.integrations.onnx import export
from openset.integrations.torch import OpenSetModule
from openset.train import Odin
from tests.train.tiny import fit_tiny, rows_data

NETWORK = f"{__name__}:network"
SIDE, STD, CLASSES = 6, (0.5, 0.25, 0.2), ("ant", "bee", "cat")
PIXELS = ["--side", SIDE, "--std", ",".join(map(str, STD)), "--device", "cpu"]
LAYERS, EPSILON, TEMPERATURE = ("0", "2"), 0.05, 10
LAYERED = f"layered:epsilon={EPSILON}"
ODIN = f"temperature={TEMPERATURE},epsilon={EPSILON}"


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.Tanh(), nn.Conv2d(5, 4, 3), nn.Flatten(),
        nn.Linear(16, 3),
    ).eval()  # fmt: skip


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def put_images(folder, n, shift=0):
    rng = np.random.default_rng(n + shift)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for row in range(n):
            noise = rng.integers(0, 90, (SIDE, SIDE, 3))
            pixels = (noise + 50 * number + shift).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{row}.png")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write images, and the outputs of those to train with; return the folder."""
    folder = tmp_path_factory.mktemp("step")
    for part, n, shift in (("train", 20, 0), ("val", 11, 0), ("other", 7, 60)):
        put_images(folder / part, n, shift)
    (folder / "names.txt").write_text("\n".join(CLASSES), encoding="utf-8")
    extract(folder, "train", "--layers", ",".join(LAYERS))
    return folder


def extract(folder, part, *words, out=None):
    file = folder / f"{out or part}.npz"
    text = run(
        "extract", NETWORK, folder / part, *PIXELS, "--classes", folder / "names.txt",
        *words, "--out", file,
    )  # fmt: skip
    return Outputs.load(file), text


def pixels_of(folder, part):
    """Return the images as the network takes them, in the order of the outputs."""
    files = sorted((folder / part).rglob("*.png"), key=str)
    images = np.stack([np.asarray(Image.open(file)) for file in files])
    scaled = torch.as_tensor(images).double().permute(0, 3, 1, 2) / 255
    return scaled / torch.tensor(STD).double().reshape(3, 1, 1)


def features_of(model, image, layer):
    return model[: int(layer) + 1](image[None]).mean(dim=(2, 3))[0]


def distance(row, means, precision):
    """Return the squared Mahalanobis distance to the nearest mean."""
    away = [row - mean for mean in means]
    return torch.stack([one @ precision @ one for one in away]).min()


def moved(image, objective, epsilon=EPSILON):
    """Return the image after the step of its pixels in [0, 1], by its definition."""
    start = image.clone().requires_grad_()
    objective(start).backward()
    std = torch.tensor(STD).double().reshape(3, 1, 1)
    return image + epsilon * start.grad.sign() / std


def layered_slowly(folder, part):
    """Return features of the moved inputs of each layer, and the sum of distances."""
    model, train = network().double(), pixels_of(folder, "train")
    labels = torch.arange(3).repeat_interleave(len(train) // 3)
    features, total = [], 0.0
    for layer in LAYERS:
        rows = torch.stack([features_of(model, one, layer) for one in train]).detach()
        means = torch.stack([rows[labels == c].mean(dim=0) for c in range(3)])
        away = rows - means[labels]
        precision = torch.linalg.inv(away.T @ away / len(rows))

        def known(image, layer=layer, means=means, precision=precision):
            return -distance(features_of(model, image, layer), means, precision)

        steps = [moved(one, known) for one in pixels_of(folder, part)]
        made = torch.stack([features_of(model, one, layer) for one in steps])
        features.append(made.detach().numpy())
        total = total + np.array([known(one).item() for one in steps])
    return np.concatenate(features, axis=1), total


def odin_slowly(folder, part):
    model = network().double()

    def confidence(image):
        shares = torch.exp(model(image[None])[0] / TEMPERATURE)
        return torch.log(shares.max() / shares.sum())

    steps = [moved(one, confidence) for one in pixels_of(folder, part)]
    return torch.stack([model(one[None])[0] for one in steps]).detach().numpy()


def calibrated(folder, name, *words):
    run(
        "calibrate", *words, "--known", folder / "val.npz", "--surrogate",
        folder / "other.npz", "--out", folder / name, "--accept-risk",
    )  # fmt: skip
    return Rejector.load(folder / name)


def test_the_step_of_a_detector_over_layers(place):
    """Each layer has its own step, along the gradient of its own distance."""
    step = ["-d", LAYERED, "--train", place / "train.npz"]
    val, text = extract(place, "val", *step)
    assert f"To calibrate: --detector {LAYERED} --train " in text
    assert "inputs perturbed by layered:detector=mahalanobis,epsilon=0.05,std=" in text
    assert val.layers == (("step:0", 5), ("step:2", 4))
    features, known = layered_slowly(place, "val")
    assert_allclose(val.features, features, atol=1e-5)
    assert val.labels.tolist() == [0] * 11 + [1] * 11 + [2] * 11
    extract(place, "other", *step, "--unknown")
    rejector = calibrated(place, "rejector", *step)
    assert_allclose(rejector.known(val), known, rtol=1e-3, atol=1e-3)

    # The rejector says how new data are to be extracted.
    new, _ = extract(place, "val", "--rejector", place / "rejector", out="new")
    assert_array_equal(new.features, val.features)
    run("predict", place / "rejector", place / "new.npz", "--out", place / "a.csv")
    plain, _ = extract(place, "val", "--layers", ",".join(LAYERS), out="plain")
    with pytest.raises(ValueError, match=r"inputs as they are.* --rejector"):
        run("predict", place / "rejector", place / "plain.npz")
    assert np.abs(plain.features - val.features).max() > 1e-3

    # So does a server that runs the network.
    found = networks.load(network(), side=SIDE, std=STD)
    client = TestClient(serve.app(rejector, model=found))
    images = [
        np.asarray(Image.open(one)) for one in sorted((place / "val/ant").iterdir())
    ]
    inputs = np.stack(images).transpose(0, 3, 1, 2).tolist()
    answer = client.post("/predict", json={"inputs": inputs}).json()
    assert_allclose(answer["known"], rejector.known(val)[: len(inputs)], rtol=1e-4)


def test_the_step_of_odin(place, tmp_path):
    val, _ = extract(place, "val", "--odin", ODIN)
    assert_allclose(val.logits, odin_slowly(place, "val"), atol=1e-5)
    extract(place, "other", "--odin", ODIN, "--unknown")
    rejector = calibrated(place, "odin", "-d", f"msp:temperature={TEMPERATURE}")
    new, _ = extract(place, "val", "--rejector", place / "odin", out="new")
    assert_array_equal(new.logits, val.logits)
    plain, _ = extract(place, "val", out="plain")
    with pytest.raises(
        ValueError, match=r"perturbed by odin:temperature=10.0,epsilon=0.05"
    ):
        rejector.predict(plain)

    model = networks.load(network(), side=SIDE, std=STD)
    client = TestClient(serve.app(rejector, model=model))
    image = np.asarray(Image.open(place / "val/bee/3.png")).transpose(2, 0, 1)
    answer = client.post("/predict", json={"inputs": [image.tolist()]}).json()
    row = val.ids == "bee/3.png"
    assert_allclose(answer["known"], rejector.known(val)[row], rtol=1e-5)
    # Clients without a network send what they have; the command says what is needed.
    client = TestClient(serve.app(rejector))
    answer = client.post("/predict", json={"logits": val.logits[:2].tolist()}).json()
    assert answer["decisions"] == rejector.predict(val)[:2].tolist()

    graph = export(rejector, tmp_path / "alone.onnx")
    facts = {one.key: one.value for one in onnx.load(graph).metadata_props}
    assert facts["openset.input_step"] == rejector.input_step
    batch = torch.zeros(2, 3, SIDE, SIDE)
    with pytest.raises(ValueError, match=r"model must be left out .*along a gradient"):
        export(rejector, tmp_path / "both.onnx", network(), example=batch)
    with pytest.raises(ValueError, match="must be one for inputs as they are"):
        OpenSetModule(network(), rejector)
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match="model must be a network in PyTorch, to move"):
        serve.app(rejector, model=tmp_path / "net.onnx")


def test_export_alone_says_that_the_inputs_are_moved(place, tmp_path):
    extract(place, "val", "--odin", ODIN)
    extract(place, "other", "--odin", ODIN, "--unknown")
    calibrated(place, "odin", "-d", f"msp:temperature={TEMPERATURE}")
    words = ["export", place / "odin", "--out", tmp_path / "alone.onnx"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert "Its inputs were perturbed along a gradient" in done.stderr


def test_a_shard_is_moved_like_a_folder(place, tmp_path):
    step = ["-d", LAYERED, "--train", place / "train.npz"]
    expected, _ = extract(place, "val", *step)
    files = sorted((place / "val").rglob("*.png"), key=str)
    images = np.stack([np.asarray(Image.open(file)) for file in files])
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", images)
    run(
        "extract", NETWORK, tmp_path / "in", *PIXELS, *step, "--backend", "sequential",
        "--out", tmp_path / "out",
    )  # fmt: skip
    found = Outputs.load(tmp_path / "out" / "a.npz")
    assert_allclose(found.features, expected.features, atol=1e-6)
    assert found.input_step == expected.input_step


def test_a_folder_of_openset_train(tmp_path):
    """Rows of numbers are moved in their own units."""
    data = rows_data()
    trained = fit_tiny(data, network="mlp", out=tmp_path / "run")
    np.save(tmp_path / "rows.npy", data.inputs)
    names = [name for name, _ in trained.model().backbone.named_modules() if name]
    words = ["extract", tmp_path / "run", tmp_path / "rows.npy"]
    run(*words, "--layers", names[-1], "--out", tmp_path / "plain.npz")
    plain = Outputs.load(tmp_path / "plain.npz")
    labels = np.arange(len(plain)) % 2
    train = Outputs(
        features=plain.features, logits=plain.logits, labels=labels, layers=plain.layers
    )
    train.save(tmp_path / "train.npz")
    run(*words, "-d", LAYERED, "--train", tmp_path / "train.npz", "--out",
        tmp_path / "moved.npz")  # fmt: skip
    found = Outputs.load(tmp_path / "moved.npz")

    model, kept = trained.model(), []
    layer = model.backbone.get_submodule(names[-1])
    layer.register_forward_hook(lambda *three: kept.append(three[-1]))
    fitted = detectors.Mahalanobis().fit(train.by_layer()[names[-1]])
    start = torch.tensor(data.inputs, dtype=torch.float32).requires_grad_()
    model(start)
    means, precision = _mahalanobis(train.features, labels)
    rows = kept.pop().double()
    away = rows[:, None] - means
    far = torch.einsum("ncd,de,nce->nc", away, precision, away).amin(dim=1)
    assert_allclose(-fitted.known(plain), far.detach(), rtol=1e-2, atol=1e-3)
    (-far).sum().backward()
    expected = model(start.detach() + EPSILON * start.grad.sign())
    assert_allclose(found.features, kept.pop().detach(), atol=1e-4)
    assert_allclose(found.logits, expected, atol=1e-4)
    assert found.input_step == f"layered:detector=mahalanobis,epsilon={EPSILON}"
    assert np.abs(found.features - plain.features).max() > 1e-3


def _mahalanobis(features, labels):
    rows = torch.tensor(features).double()
    means = torch.stack([rows[labels == c].mean(dim=0) for c in (0, 1)])
    away = rows - means[torch.as_tensor(labels)]
    return means, torch.linalg.pinv(away.T @ away / len(rows), hermitian=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-d", LAYERED], "--train must be given with --detector, got none"),
        (["--train", "train.npz"], "--detector must be given with --train, got none"),
        (
            ["-d", "layered", "--train", "train.npz"],
            "--detector must be a detector that perturbs inputs, such as layered:eps",
        ),
        (
            ["--rejector", "r", "--odin", ODIN],
            "--odin must be left out with --rejector",
        ),
        (
            ["-d", LAYERED, "--train", "train.npz", "--layers", "0"],
            "--layers must be left out with --detector",
        ),
        (
            ["--rejector", "r", "-d", LAYERED, "--train", "train.npz"],
            "--detector must be left out with --rejector",
        ),
        (["--odin", ODIN, "--fit-head", "h.npz"], "--odin must be left out with --fit"),
    ],
)
def test_options_that_do_not_go_together(place, words, message):
    with pytest.raises(ValueError, match=message):
        run("extract", NETWORK, place / "val", *PIXELS, *words)


def test_training_outputs_without_layers_are_refused(place):
    extract(place, "train", out="last")
    with pytest.raises(ValueError, match="must be the features of several layers"):
        extract(place, "val", "-d", LAYERED, "--train", place / "last.npz")


def test_texts_onnx_files_and_embeddings_have_no_step():
    model = nn.Linear(2, 2)
    for network_, why in (
        (
            networks.Classifier("mails", "text", model, list),
            "texts: the numbers of the",
        ),
        (
            networks.Classifier("net.onnx", "image", print, list),
            "ONNX file, which has no",
        ),
        (
            networks.Classifier("x", "image", model, list, embeds=True),
            "without a last l",
        ),
    ):
        with pytest.raises(ValueError, match=f"step must be left out for .*{why}"):
            network_.apply(["a"], step=Odin())
