"""`openset extract`, and what goes on from it, as it is typed."""

import io
import re
import tarfile
from unicodedata import normalize

import numpy as np
import pytest
from starlette.testclient import TestClient
from torch import nn
from typer.testing import CliRunner

from openset import (
    Outputs,
    Rejector,
    Scores,
    datasets,
    detectors,
    metrics,
    protocols,
    serve,
)
from openset._types import ArtefactError
from openset.cli import _extract_samples, app
from openset.train import Trained
from tests.train.tiny import fit_tiny, image_data


def run(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extract")
    digits = datasets.load("digits")
    classes = digits.classes
    protocols.Protocol(
        known=classes[3:9], unknown=(*classes[:3], classes[9]), source="digits"
    ).save(folder / "protocol.json")
    run(
        "train", "-m", "softmax", "--data", "digits", "--recipe", "arpl", "--epochs", 2,
        "--lr", 0.02, "--protocol", folder / "protocol.json", "--out", folder / "run",
    )  # fmt: skip
    return folder


def test_labels_follow_the_names_of_the_classes(trained, tmp_path):
    text = run("extract", trained / "run", "digits", "--out", tmp_path / "all.npz")
    outputs, digits = Outputs.load(tmp_path / "all.npz"), datasets.load("digits")
    inside = (digits.labels >= 3) & (digits.labels < 9)
    np.testing.assert_array_equal(
        outputs.labels, np.where(inside, digits.labels - 3, -1)
    )
    np.testing.assert_array_equal(
        outputs.groups, np.array(digits.classes)[digits.labels]
    )
    right = outputs.logits.argmax(axis=1) == outputs.labels
    assert f"accuracy {right[inside].mean():.4f}" in text
    assert f"{len(digits.labels)} samples → " in text
    assert f"{inside.sum()} samples of known classes" in text
    # What is not a class of the network is named: it may be misspelt.
    others = ", ".join([*digits.classes[:3], "…"])
    assert f"{(~inside).sum()} samples labelled -1 (unknown), of {others}\n" in text


def test_a_part_is_all_it_takes(trained, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "strange.npz"
    rows = rng.normal(size=(8, 64))
    np.savez(path, test_x=rows, test_y=np.zeros(8, int), train_x=rows[:3],
             train_y=np.zeros(3, int), class_names=np.array(["noise"]))  # fmt: skip
    out = tmp_path / "noise.npz"
    text = run("extract", trained / "run", path, "--part", "test", "--out", out)
    outputs = Outputs.load(out)
    assert len(outputs) == 8
    assert (outputs.labels == -1).all()
    assert "8 samples → " in text
    assert "accuracy" not in text


def test_a_bare_array_has_no_labels(trained, tmp_path):
    rows = np.random.default_rng(0).normal(size=(6, 64))
    np.save(tmp_path / "new.npy", rows)
    out = tmp_path / "new.npz"
    run("extract", trained / "run", tmp_path / "new.npy", "--out", out)
    outputs = Outputs.load(out)
    assert outputs.labels is None
    expected = Trained.load(trained / "run").apply(rows)
    np.testing.assert_array_equal(outputs.logits, expected.logits)


def test_images_of_one_folder_are_one_group_and_keep_their_names(tmp_path):
    pictures = pytest.importorskip("PIL.Image")
    data = image_data(side=20)
    fit_tiny(data, network="osrci", side=16, epochs=1, out=tmp_path / "run")
    folder = tmp_path / "new"
    folder.mkdir()
    for i in (2, 0, 1):
        pictures.fromarray(data.inputs[i]).save(folder / f"image{i}.png")
    out = tmp_path / "new.npz"
    run("extract", tmp_path / "run", folder, "--out", out)
    outputs = Outputs.load(out)
    assert outputs.labels is None
    assert outputs.groups.tolist() == ["new"] * 3
    assert outputs.ids.tolist() == ["image0.png", "image1.png", "image2.png"]
    # As in training: the same size first, the network's afterwards.
    trained = Trained.load(tmp_path / "run")
    expected = trained.apply(data.inputs[:3])
    np.testing.assert_array_equal(outputs.logits, expected.logits)
    known = trained.outputs["validation"]
    fitted = detectors.make("msp").fit(known)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=0.9)
    rejector.save(tmp_path / "rejector")
    header, *lines = run("predict", tmp_path / "rejector", out, "--csv").splitlines()
    assert header.endswith(",margin,group,id")
    assert [line.rpartition(",")[2] for line in lines] == outputs.ids.tolist()
    assert "image2.png" in run("predict", tmp_path / "rejector", out)
    decided = tmp_path / "decided.npz"
    run("predict", tmp_path / "rejector", out, "--out", decided)
    with np.load(decided) as arrays:
        assert arrays["id"].tolist() == outputs.ids.tolist()


def test_images_in_folders_have_these_for_groups(tmp_path):
    pictures = pytest.importorskip("PIL.Image")
    data = image_data(side=20)
    fit_tiny(data, network="osrci", side=16, epochs=1, out=tmp_path / "run")
    for i, name in enumerate(("class 1", "else", "else")):
        (tmp_path / "new" / name).mkdir(parents=True, exist_ok=True)
        pictures.fromarray(data.inputs[i]).save(tmp_path / "new" / name / f"{i}.png")
    out = tmp_path / "new.npz"
    text = run("extract", tmp_path / "run", tmp_path / "new", "--out", out)
    assert "2 samples labelled -1 (unknown), of else. Classes without samples: " in text
    outputs = Outputs.load(out)
    assert outputs.groups.tolist() == ["class 1", "else", "else"]
    assert outputs.ids.tolist() == ["class 1/0.png", "else/1.png", "else/2.png"]
    assert outputs.labels.tolist() == [1, -1, -1]


def test_names_of_folders_are_compared_as_they_are_read():
    on_a_mac = normalize("NFD", "Käfer")
    data = datasets.from_arrays(np.zeros((2, 3)), [0, 1], classes=[on_a_mac, "Frosh"])
    labels, groups = _extract_samples._labelled(data, ("Frosch", "Käfer"))
    assert labels.tolist() == [1, -1]
    assert groups.tolist() == [on_a_mac, "Frosh"]


def test_images_beside_folders_are_not_left_out_unsaid(trained, tmp_path):
    (tmp_path / "new" / "class").mkdir(parents=True)
    (tmp_path / "new" / ".hidden").mkdir()
    (tmp_path / "new" / "one.png").touch()
    with pytest.raises(ValueError, match=r"DATA must be .*both \(one.png, class/\)"):
        run("extract", trained / "run", tmp_path / "new", "--out", tmp_path / "o.npz")
    (tmp_path / "new" / "class").rmdir()
    with pytest.raises(TypeError, match=r"could not convert|rows of numbers"):
        run("extract", trained / "run", tmp_path / "new", "--out", tmp_path / "o.npz")


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ("photos/trian", "$"),
        ("new.npy", "$"),
        ("mails.csv", "$"),
        ("C:\\data\\x", "$"),
        ("C:/data/x", "$"),
        ("phtos", r"\. openset datasets lists the names of data sets"),
        ("cifr10", r"\. Did you mean 'cifar10'\?"),
    ],
)
def test_a_path_that_leads_nowhere_is_named_before_the_network_is_opened(data, hint):
    said = (
        f"DATA must be .*{re.escape(data)}, and there is no such file or folder{hint}"
    )
    with pytest.raises(FileNotFoundError, match=said):
        run("extract", "no-such-network", data)


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_holds_no_array_is_named(trained, tmp_path, content):
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=r"bad.npy must be an array of numbers"):
        run("extract", trained / "run", path, "--out", tmp_path / "o.npz")


def test_an_unknown_part_is_named(trained, tmp_path):
    with pytest.raises(ValueError, match=r"--part must be one of .*got 'tset'"):
        run("extract", trained / "run", "digits", "--part", "tset", "--out", tmp_path)


def test_a_trained_network_is_exported_and_runs(trained, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    parts = trained / "run" / "outputs"
    run("extract", trained / "run", "digits", "--out", tmp_path / "all.npz")
    every = Outputs.load(tmp_path / "all.npz")
    every.take(every.labels == -1).save(tmp_path / "surrogate.npz")
    run(
        "calibrate", "-d", "msp", "--train", parts / "train.npz",
        "--known", parts / "validation.npz", "--surrogate", tmp_path / "surrogate.npz",
        "--out", tmp_path / "rejector", "--accept-risk",
    )  # fmt: skip
    path = tmp_path / "open.onnx"
    run("export", tmp_path / "rejector", "--model", trained / "run", "--out", path)
    session = onnxruntime.InferenceSession(str(path))
    rows = datasets.load("digits").inputs[:20].astype(np.float32)
    (given,) = session.get_inputs()
    (classes,) = session.run(["class"], {given.name: rows})
    text = run("predict", tmp_path / "rejector", tmp_path / "all.npz", "--csv")
    decided = [int(line.split(",")[1]) for line in text.splitlines()[1:21]]
    assert classes.tolist() == decided


def test_a_part_of_data_without_parts_is_refused(trained, tmp_path):
    np.save(tmp_path / "new.npy", np.zeros((2, 64)))
    with pytest.raises(ValueError, match="--part must be left out for data without"):
        run("extract", trained / "run", tmp_path / "new.npy", "--part", "test")


def test_options_a_training_folder_does_not_need_are_refused(tmp_path):
    words = ["extract", str(tmp_path / "run"), "images/", "--side", "32"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    said = " ".join(refused.output.replace("│", " ").split())
    assert "--side cannot be used with a folder of openset train" in said


def put(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def test_shards_of_images_give_the_outputs_of_their_files(tmp_path):
    pictures = pytest.importorskip("PIL.Image")
    data = image_data(side=16)
    images = data.inputs[:6]
    fit_tiny(data, network="osrci", epochs=1, out=tmp_path / "run")
    (tmp_path / "tars").mkdir()
    for number in range(2):
        with tarfile.open(tmp_path / "tars" / f"{number}.tar", "w") as tar:
            for i in range(3 * number, 3 * number + 3):
                png = io.BytesIO()
                pictures.fromarray(images[i]).save(png, "png")
                put(tar, f"set/{i}.png", png.getvalue())
                put(tar, f"set/{i}.cls", str(i).encode())
    words = ("extract", tmp_path / "run", tmp_path / "tars", "--out", tmp_path / "out")
    text = run(*words, "--backend", "sequential")
    assert "2 of 2 shards" in text
    found = [Outputs.load(tmp_path / "out" / f"{i}.npz") for i in range(2)]
    trained = Trained.load(tmp_path / "run")
    both = Outputs.concat(found)
    assert both.ids.tolist() == [f"set/{i}.png" for i in range(6)]
    n = len(trained.classes)
    assert both.labels.tolist() == [i if i < n else -1 for i in range(6)]
    np.testing.assert_allclose(both.logits, trained.apply(images).logits, rtol=1e-4)
    assert "0 run now" in run(*words, "--backend", "sequential")


def test_a_shard_without_images_is_named(trained, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        put(tar, "a.cls", b"0")
    words = ["extract", trained / "run", tmp_path, "--out", tmp_path / "out"]
    done = CliRunner().invoke(app, [*map(str, words), "--backend", "sequential"])
    assert done.exit_code == 1
    assert "must be a .tar file with images, got none" in " ".join(done.output.split())


@pytest.mark.parametrize("name", ["layered", "gram"])
def test_a_rejector_over_layers_from_the_shell(trained, tmp_path, name):
    """Extract, score, calibrate, predict and serve equal what Python computes."""
    more = ["--gram"] if name == "gram" else []
    text = run(
        "extract", trained / "run", "digits", "--layers", "full1, full2", *more,
        "--out", tmp_path / "all.npz",
    )  # fmt: skip
    assert f"--detector {name}" in text
    found, mark = Outputs.load(tmp_path / "all.npz"), "gram:" if more else ""
    assert [one for one, _ in found.layers] == [f"{mark}full1", f"{mark}full2"]
    rows = np.arange(len(found))
    known = found.labels != -1
    for part, mask in {
        "train": (rows % 3 == 0) & known, "known": rows % 3 == 1, "test": rows % 3 == 2,
    }.items():  # fmt: skip
        found.take(mask).save(tmp_path / f"{part}.npz")
    train, test = (Outputs.load(tmp_path / f"{one}.npz") for one in ("train", "test"))
    run(
        "score", "-d", name, "--train", tmp_path / "train.npz", tmp_path / "test.npz",
        "--out", tmp_path / "scores.npz",
    )  # fmt: skip
    scores = Scores.load(tmp_path / "scores.npz")
    if name == "layered":
        expected = sum(
            detectors.Mahalanobis().fit(train.by_layer()[one]).known(rows_of)
            for one, rows_of in test.by_layer().items()
        )
        np.testing.assert_allclose(scores.known, expected, rtol=1e-5)
    assert metrics.auroc(scores) > 0.6
    run(
        "calibrate", "-d", name, "--train", tmp_path / "train.npz", "--known",
        tmp_path / "known.npz", "--out", tmp_path / "rejector",
    )  # fmt: skip
    run(
        "predict", tmp_path / "rejector", tmp_path / "test.npz", "--out",
        tmp_path / "decided.npz",
    )  # fmt: skip
    rejector = Rejector.load(tmp_path / "rejector")
    accepted = scores.known >= rejector.threshold.value
    expected = np.where(accepted, scores.predicted, -1)
    with np.load(tmp_path / "decided.npz") as arrays:
        np.testing.assert_array_equal(arrays["decision"], expected)
    client = TestClient(serve.app(rejector, model=trained / "run"))
    samples = datasets.load("digits").inputs[2::3][:9]
    answer = client.post("/predict", json={"inputs": samples.tolist()}).json()
    assert answer["decisions"] == expected[:9].tolist()


def test_layers_are_listed_and_wrong_ones_named(trained, tmp_path):
    listed = run("extract", trained / "run", "digits", "--layers", "list").splitlines()
    assert "full1.0  Linear" in listed
    out = ["--out", tmp_path / "o.npz"]
    for words, message in (
        (["--layers", "full3"], r"--layers must be .*full1, .*full2.*, got 'full3'"),
        (["--layers", "full1,"], "--layers must be names of"),
        (["--gram"], "--layers must be given, for --gram"),
    ):
        with pytest.raises(ValueError, match=message):
            run("extract", trained / "run", "digits", *words, *out)
    plain = tmp_path / "plain.npz"
    run("extract", trained / "run", "digits", "--out", plain)
    for name in ("layered", "gram"):
        with pytest.raises(ValueError, match="openset extract --layers NAME,NAME"):
            run("score", "-d", name, "--train", plain, plain, *out)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "outputs.txt"], "--out must be a .npz file, or a folder, got"),
        (["--side", "0"], "--side must be an integer >= 1, got 0"),
        (["--batch-size", "0"], "--batch-size must be an integer >= 1, got 0"),
        (["--std", "0,0,0"], "--std must be three positive numbers"),
        (["--odin", "epsilon=-1"], "epsilon of --odin must be a number in"),
        (["--device", "abacus"], "--device must be a device of torch, such as 'cpu'"),
        (["--weights", "w.pth"], "--weights must be left out, except for timm:NAME"),
        (["--head", "head.txt"], "--head must be a .safetensors or .pth file"),
    ],
)
def test_wrong_options_are_named(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    np.save("images.npy", np.zeros((3, 4, 4, 3), np.uint8))
    (tmp_path / "head.txt").write_text("no weights")
    network = "tests.unit.cli.test_extract:linear"
    result = CliRunner().invoke(app, ["extract", network, "images.npy", *options])
    assert f"openset extract: {said}" in str(result.exception)
    assert not list(tmp_path.glob("outputs*"))


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
