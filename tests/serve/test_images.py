"""Images in, decisions out: what a vision engineer sends."""

import io
import zlib

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import npz

from openset import Outputs, Rejector, detectors, serve

Image = pytest.importorskip("PIL.Image", reason="the extra vision")


def picture(seed, side=24):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (side, side + 8, 3), dtype=np.uint8)


def png(pixels, kind="PNG"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def form(*contents):
    return [("files", (f"{i}.png", one)) for i, one in enumerate(contents)]


def as_calibrated(network, classes=(), shape=slice(None)):
    """Calibrate max probability on outputs of some pictures."""
    pictures = [picture(seed)[shape] for seed in range(40)]
    found = network.apply(pictures, progress=False)
    labels = np.argmax(found.logits, axis=1)
    arrays = {"logits": found.logits, "features": found.features, "labels": labels}
    known = Outputs(**arrays, classes=classes)
    return Rejector.calibrate(
        detectors.MSP().fit(known), known=known, objective="at_tpr", tpr=0.5
    )


def test_images_of_any_size_get_what_extract_and_predict_say(by_pixels):
    network, rejector = by_pixels
    client = TestClient(serve.app(rejector, network=network))
    pictures = [picture(seed, side) for seed, side in enumerate((8, 24, 50))]
    expected = rejector.decide(network.apply(pictures, progress=False))
    answer = client.post("/predict/images", files=form(*map(png, pictures)))
    assert answer.json()["decisions"] == expected.labels.tolist()
    assert answer.json()["known"] == expected.known.tolist()
    # The same numbers as arrays.
    stack = np.stack([picture(seed) for seed in range(3)])
    found = client.post("/predict/npz", content=npz(inputs=stack)).json()
    outputs = network.apply(list(stack), progress=False)
    assert found["decisions"] == rejector.predict(outputs).tolist()
    assert client.get("/rejector").json()["preprocessing"] == network.preprocessing


def test_jpeg_and_grey_images_are_decoded(by_pixels):
    network, rejector = by_pixels
    client = TestClient(serve.app(rejector, network=network))
    content = png(picture(0), "JPEG")
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    expected = rejector.predict(network.apply([pixels], progress=False)).tolist()
    answer = client.post("/predict/images", files=form(content))
    assert answer.json()["decisions"] == expected
    grey = png(picture(0)[..., 0])
    assert client.post("/predict/images", files=form(grey)).status_code == 200


def claims(width, height):
    """Forge a PNG that says it is larger than it is."""
    content = bytearray(png(picture(0)))
    content[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


def test_what_is_no_image_or_too_large_is_refused(by_pixels):
    network, rejector = by_pixels
    client = TestClient(serve.app(rejector, network=network))
    whole = png(picture(0))
    for body, status, words in (
        (b"", 400, "image"),
        (b"no image", 400, "image"),
        (whole[:60], 422, "image"),
        (png(picture(0), "GIF"), 400, "image"),
        (claims(9000, 9000), 413, "at most 50000000 pixels"),
        (claims(2**31 - 1, 2**31 - 1), 400, "image"),
    ):
        answer = client.post("/predict/images", files=form(whole, body))
        assert answer.status_code == status, answer.text
        assert words in answer.json()["detail"]
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (b"nonsense", b"--x--\r\n"):
        answer = client.post("/predict/images", content=body, headers=kind)
        assert answer.status_code in {400, 422}, answer.text
    many = client.post("/predict/images", files=form(*[b""] * 1001))
    assert many.status_code == 400


def test_a_damaged_image_is_one_invalid_sample_of_a_form(by_pixels):
    network, rejector = by_pixels
    client = TestClient(serve.app(rejector, network=network, invalid="reject"))
    pictures = [picture(0), picture(1)]
    expected = rejector.predict(network.apply(pictures, progress=False)).tolist()
    contents = [png(pictures[0]), b"no image", png(pictures[1])[:90], png(pictures[1])]
    found = client.post("/predict/images", files=form(*contents)).json()
    assert found["invalid"] == [False, True, True, False]
    assert found["decisions"] == [expected[0], -1, -1, expected[1]]


def test_networks_and_images_that_do_not_fit_are_refused(by_logits, by_pixels):
    client = TestClient(serve.app(by_logits))
    answer = client.post("/predict/images", files=form(png(picture(0))))
    assert answer.status_code == 422
    with pytest.raises(ValueError, match="n_classes must be 3"):
        serve.app(by_logits, network=by_pixels[0])
