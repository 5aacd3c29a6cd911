"""Images in, decisions out: what a vision engineer sends."""

import io
import zlib
from functools import partial

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import Outputs, Rejector, detectors, serve
from openset.train import Trained
from tests.train.tiny import fit_tiny, image_data
from tests.serve.conftest import split
from tests.serve.live import serving
from tests.vision import declare_operators, save_small_vit

Image = pytest.importorskip("PIL.Image", reason="the extra vision")
torch = pytest.importorskip("torch", reason="the extra torch")

from openset import extract  # noqa: E402  # needs torch

PNG, JPEG = {"Content-Type": "image/png"}, {"Content-Type": "image/jpeg"}


def picture(seed, side=24):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (side, side + 8, 3), dtype=np.uint8)


def png(pixels, kind="PNG"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def as_calibrated(model, classes=()):
    """Calibrate max probability on outputs of some pictures."""
    found = model.apply([picture(seed) for seed in range(40)], progress=False)
    labels = np.argmax(found.logits, axis=1)
    arrays = {"logits": found.logits, "features": found.features, "labels": labels}
    known = Outputs(**arrays, classes=classes)
    return Rejector.calibrate(
        detectors.MSP().fit(known), known=known, objective="at_tpr", tpr=0.5
    )


def test_images_of_any_size_get_what_extract_and_predict_say(by_pixels):
    model, rejector = by_pixels
    client = TestClient(serve.app(rejector, model=model))
    pictures = [picture(seed, side) for seed, side in enumerate((8, 24, 50))]
    expected = rejector.predict(model.apply(pictures, progress=False)).tolist()
    single = [
        client.post("/predict", content=png(one), headers=PNG) for one in pictures
    ]
    assert [one.json()["decisions"][0] for one in single] == expected
    files = [("file", (f"{i}.png", png(p))) for i, p in enumerate(pictures)]
    form = client.post("/predict", files=files)
    assert form.json()["decisions"] == expected
    # The same numbers as arrays, channels first.
    stack = np.stack([picture(seed) for seed in range(3)])
    stream = io.BytesIO()
    np.save(stream, stack.transpose(0, 3, 1, 2))
    octets = {"Content-Type": "application/x-npy"}
    answer = client.post("/predict", content=stream.getvalue(), headers=octets)
    found = rejector.predict(model.apply(list(stack), progress=False))
    assert answer.json()["decisions"] == found.tolist()


def test_jpeg_and_grey_images_are_decoded(by_pixels):
    model, rejector = by_pixels
    client = TestClient(serve.app(rejector, model=model))
    content = png(picture(0), "JPEG")
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    expected = rejector.predict(model.apply([pixels], progress=False)).tolist()
    answer = client.post("/predict", content=content, headers=JPEG)
    assert answer.json()["decisions"] == expected
    grey = png(picture(0)[..., 0])
    assert client.post("/predict", content=grey, headers=PNG).status_code == 200


def claims(width, height):
    """Forge a PNG that says it is larger than it is."""
    content = bytearray(png(picture(0)))
    content[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


def test_what_is_no_image_or_too_large_is_refused(by_pixels):
    model, rejector = by_pixels
    client = TestClient(serve.app(rejector, model=model))
    whole = png(picture(0))
    for body, status, words in (
        (b"", 400, "the image must be a PNG or JPEG image"),
        (b"no image", 400, "the image must be a PNG or JPEG image"),
        (whole[:60], 400, "the image must be a PNG or JPEG image"),
        (png(picture(0), "GIF"), 400, "the image must be a PNG or JPEG image"),
        (claims(9000, 9000), 413, "at most 50000000 pixels"),
        (claims(2**31 - 1, 2**31 - 1), 400, "the image must be"),
    ):
        answer = client.post("/predict", content=body, headers=PNG)
        assert answer.status_code == status, answer.text
        assert words in answer.json()["detail"]
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    for body, headers, words in (
        (b"nonsense", form, "a form"),
        (b"--x--\r\n", form, "no file"),
        (b"", {"Content-Type": "multipart/form-data"}, "one with a boundary"),
    ):
        answer = client.post("/predict", content=body, headers=headers)
        assert answer.status_code in {400, 422}, answer.text
        assert words in answer.json()["detail"]
    answer = client.post("/predict", data={"a": "b"}, files={"f": whole})
    assert "files alone, got a field 'a'" in answer.json()["detail"]
    mixed = [("f", ("good.png", whole)), ("f", ("bad.png", b"x"))]
    assert "bad.png" in client.post("/predict", files=mixed).json()["detail"]


def test_without_a_network_for_images_they_are_refused(by_logits):
    answer = TestClient(serve.app(by_logits)).post(
        "/predict", content=png(picture(0)), headers=PNG
    )
    assert answer.status_code == 415


def test_a_training_run_takes_images_as_extract_does(tmp_path):
    fit_tiny(image_data(48, side=20), epochs=1, out=tmp_path / "run", network="osrci")
    trained = Trained.load(tmp_path / "run")
    rejector = Rejector.calibrate(
        detectors.make("energy").fit(trained.outputs["train"]),
        known=trained.outputs["validation"],
        objective="at_tpr",
        accept_risk=True,
    )
    client = TestClient(serve.app(rejector, model=tmp_path / "run"))
    pictures = [picture(seed, 40) for seed in range(3)]
    expected = rejector.predict(trained.apply(pictures, progress=False)).tolist()
    files = [("file", png(one)) for one in pictures]
    assert client.post("/predict", files=files).json()["decisions"] == expected
    about = client.get("/rejector").json()["preprocessing"]
    assert about.startswith("resized to 20 x 20")


def test_an_onnx_file_normalises_as_it_is_told(tmp_path):
    """The plain formula beside it: (pixel / 255 - mean) / std."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    pytest.importorskip("onnxruntime", reason="the extra onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.random.default_rng(0).normal(size=(48, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["y"]),
        ],
        "network",
        [helper.make_tensor_value_info("x", real, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", real, ["n", 3])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opset, ir_version=9),
        tmp_path / "model.onnx",
    )
    rejector = Rejector.calibrate(
        detectors.MSP().fit(split(1, 60, unknown=0)), known=split(2, 60, unknown=0.3)
    )
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    application = serve.app(rejector, model=tmp_path / "model.onnx", mean=mean, std=std)
    client = TestClient(application)
    pixels = picture(1)[:4, :4]
    answer = client.post("/predict", content=png(pixels), headers=PNG)
    x = ((pixels / 255 - mean) / std).transpose(2, 0, 1).reshape(1, -1)
    expected = rejector.known(Outputs(logits=(x @ weight).astype(np.float32)))
    assert np.allclose(answer.json()["known"], expected, rtol=1e-4)
    about = client.get("/rejector").json()["preprocessing"]
    assert about == (
        "resized to 4 x 4, RGB, scaled to [0, 1], mean 0.5, 0.4, 0.3, std 0.2, 0.3, 0.4"
    )


def test_a_named_network_brings_its_preprocessing(tmp_path):
    declare_operators()  # timm imports torchvision
    timm = pytest.importorskip("timm", reason="a foreign library")
    safetensors = pytest.importorskip("safetensors.torch", reason="the extra torch")
    weights = tmp_path / "weights.safetensors"
    torch.manual_seed(0)
    made = timm.create_model("test_resnet", num_classes=3)
    safetensors.save_file(made.state_dict(), weights)
    network = extract.load("timm:test_resnet", weights=weights)
    rejector = as_calibrated(network)
    application = serve.app(rejector, model="timm:test_resnet", weights=weights)
    client = TestClient(application)
    pictures = [picture(seed, 60) for seed in range(2)]
    expected = rejector.predict(network.apply(pictures, progress=False)).tolist()
    files = [("file", png(one)) for one in pictures]
    assert client.post("/predict", files=files).json()["decisions"] == expected
    about = client.get("/rejector").json()["preprocessing"]
    assert "interpolation" in about
    assert "mean (0.5, 0.5, 0.5)" in about


def save_torchvision(folder):
    """Save weights of a small network of torchvision; return its name and options."""
    models = pytest.importorskip("torchvision.models", reason="a foreign library")
    safetensors = pytest.importorskip("safetensors.torch", reason="the extra torch")
    torch.manual_seed(0)
    made = models.shufflenet_v2_x0_5(num_classes=3)
    weights = folder / "weights.safetensors"
    safetensors.save_file(made.state_dict(), weights)
    return "torchvision:shufflenet_v2_x0_5", ["--weights", weights]


def save_hugging_face(folder):
    """Save a small network of Hugging Face; return its name and options."""
    save_small_vit(folder / "vit")
    return f"hf:{folder / 'vit'}", []


@pytest.mark.parametrize("save", [save_hugging_face, save_torchvision])
def test_a_server_runs_networks_of_others(save, tmp_path):
    """An image over HTTP gets what extract and predict say."""
    declare_operators()  # transformers imports torchvision, too
    name, options = save(tmp_path)
    network = extract.load(name, **({"weights": options[1]} if options else {}))
    apply = partial(network.apply, device="cpu", progress=False)
    pictures = [picture(seed, 40) for seed in range(24)]
    found = apply(pictures, labels=np.arange(24) % 3)
    fitted = detectors.make("mahalanobis").fit(found)
    rejector = Rejector.calibrate(fitted, known=found, objective="at_tpr", tpr=0.5)
    cure = "from tests.vision import declare_operators; declare_operators()"
    folder = rejector.save(tmp_path / "rejector")
    with serving(folder, "--model", name, *options, before=cure) as server:
        files = [("file", png(one)) for one in pictures[:4]]
        answer = server.post(files=files).json()
    expected = rejector.decide(apply(pictures[:4]))
    assert answer["decisions"] == expected.labels.tolist()
    np.testing.assert_allclose(answer["known"], expected.known, rtol=1e-4)


def test_any_function_is_a_model(by_logits):
    weight = np.random.default_rng(0).normal(size=(4, 3))
    x = np.random.default_rng(1).normal(size=(5, 4))
    expected = by_logits.predict(Outputs(logits=x @ weight)).tolist()
    for function in (
        lambda batch: batch @ weight,
        lambda batch: (batch @ weight, np.zeros((len(batch), 5))),
        lambda batch: {"logits": batch @ weight},
        lambda batch: Outputs(logits=batch @ weight),
    ):
        for example in (None, x[:1]):
            application = serve.app(by_logits, model=function, example=example)
            answer = TestClient(application).post(
                "/predict", json={"inputs": x.tolist()}
            )
            assert answer.json()["decisions"] == expected, answer.text
    client = TestClient(serve.app(by_logits, model=lambda batch: batch @ weight))
    assert client.post("/predict", json={"inputs": [[1.0]]}).status_code == 422
    with pytest.raises(ValueError, match="model must be able to run a batch"):
        serve.app(by_logits, model=lambda batch: batch @ weight, example=[[1.0]])
    with pytest.raises(ValueError, match="n_classes of model must be 3, as in the rej"):
        serve.app(by_logits, model=lambda batch: batch, example=x)
