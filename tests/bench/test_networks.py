"""Networks of a study: trained once, on the right samples."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.neural_network import MLPClassifier

from openset import Outputs, Scores, bench, datasets, metrics, protocols, runs
from openset.bench import parse
from openset.datasets import Dataset
from tests.bench.studies import contents, small

train = pytest.importorskip("openset.train", reason="trains networks")

SETTINGS = {"recipe": "arpl", "epochs": 2, "lr": 0.02, "accelerator": "cpu"}


def study(params="", methods="softmax", protocol="", scores="published", more=""):
    listed = ", ".join(f"{key}: {value}" for key, value in SETTINGS.items())
    entry = protocol or "{kind: holdout, data: digits, known: 4, unknown: 3}"
    return parse(f"""
protocols: [{entry}]
models: [{{kind: network, params: {{{listed}{params}}}}}]
methods: [{methods}]
detectors: [{scores}]
{more}
""")


def run(made, out, **options):
    return bench.run(made, out, **{"backend": "sequential"} | options)


def cell_of(out, **key):
    (found,) = [c for c in runs.read_cells(out) if key.items() <= c.key.items()]
    return found


def value(cell, metric):
    return cell.results().where(metric=metric).column("value")[0]


def test_networks_are_trained_by_the_training_package(tmp_path):
    more = "calibrate: {objective: 'conformal:error_rate=0.1', surrogate: none}"
    entry = "{kind: holdout, data: digits, known: 6, unknown: 4, validation: 0.1}"
    methods = "softmax, {name: openauc, weight: 0.2}"
    made = study(", curves: true", methods, entry, "msp, published", more)
    assert run(made, tmp_path).n_run == 4
    own = cell_of(tmp_path, method="openauc(weight=0.2)", detector="msp")
    assert [line["epoch"] for line in own.curve] == [1, 2]
    assert own.curve[-1]["openauc_msp"] == pytest.approx(
        value(own, "openauc"), abs=1e-6
    )
    # Softmax was published with the largest probability.
    one, other = (
        cell_of(tmp_path, method="softmax", detector=name)
        for name in ("published", "msp")
    )
    for metric in ("openauc", "auroc", "oosa"):
        assert value(one, metric) == pytest.approx(value(other, metric), abs=1e-3)


def inverted(path, n):
    digits = datasets.load("digits")
    made = Dataset(
        inputs=16 - digits.inputs[:n],
        labels=np.zeros(n, int),
        classes=["inverted"],
        kind="table",
        name="inverted",
    )
    made.save(path)
    return made


def test_workers_train_with_a_file_of_negatives_as_fit_does(tmp_path):
    others = inverted(tmp_path / "others.npz", 50)
    entry = "{kind: holdout, data: digits, known: 4, unknown: 3, validation: 0.1}"
    made = study(", negatives: others.npz", "softmax, entropic", entry)
    made = made.model_copy(update={"base": tmp_path})
    done = run(made, tmp_path / "run", backend="loky", jobs=2)
    assert (done.n_run, done.failed) == (2, ())
    (drawn,) = protocols.holdout(datasets.load("digits"), 4, 3, 1, rng=0)
    for task in bench.plan(made):
        network = task.network
        # Softmax has no use for negatives: it is trained as ever.
        more = {"negatives": others} if network.method.name == "entropic" else {}
        expected = train.fit(
            method=network.method.name, data=datasets.load("digits"),
            protocol=replace(drawn, validation=0.1), progress=False, **SETTINGS, **more,
        )  # fmt: skip
        folder = tmp_path / "run" / "networks" / network.id / "outputs"
        assert set(Outputs.load(folder / "negative.npz").groups) == {"inverted"}
        for part, wanted in expected.outputs.items():
            found = Outputs.load(folder / f"{part}.npz")
            assert_array_equal(found.groups, wanted.groups)
            close = {"rtol": 1e-4, "atol": 1e-5}  # one thread, or several
            np.testing.assert_allclose(found.logits, wanted.logits, **close)
    inverted(tmp_path / "others.npz", 40)
    assert "others.npz" in run(made, tmp_path / "run").again


def test_training_that_was_stopped_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    def stop(*_):
        msg = "stopped"
        raise RuntimeError(msg)

    with monkeypatch.context() as patch:
        patch.setattr(train.Trained, "made", stop)
        assert len(run(study(), tmp_path).failed) == 1
    assert len(list(tmp_path.glob("networks/*/checkpoint.pt"))) == 1
    updates = []
    monkeypatch.setattr("openset.train.run.Run._update", lambda *a: updates.append(a))
    assert run(study(), tmp_path).n_run == 1
    assert updates == []  # all had been made
    assert not list(tmp_path.glob("networks/*/checkpoint.pt"))


def test_networks_that_ask_for_a_gpu_are_not_trained_without_one(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the extra torch")
    made = study()
    model = made.models[0].model_copy(update={"gpus": 1})
    made = made.model_copy(update={"models": [model]})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="finds no GPU, got 1"):
        run(made, tmp_path)
    assert not (tmp_path / "networks").exists()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert run(made, tmp_path).n_run == 1


RULE = b"""
protocols: [{kind: holdout, data: digits, known: 4, unknown: 3, folds: 2}]
models: [{kind: network, together: TOGETHER,
          params: {recipe: torchosr, epochs: 2, lr: 0.05, curves: 2, validation: 0}}]
methods: [tsoftmax, NOISE]
detectors: [published, {name: openmax, tail: 5}]
calibrate: {objective: published, epsilon: {4: 0.4}}
headline: overall_score
metrics: [openauc, outer_score, halfpoint_score]
"""


def ruled(together, noise=b"noise"):
    return parse(RULE.replace(b"TOGETHER", together).replace(b"NOISE", noise))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    assert run(ruled(b"1"), folder).failed == ()
    return folder


def test_a_cell_is_decided_by_the_rule_and_ranked_by_the_score(alone):
    cell = cell_of(alone, method="tsoftmax", detector="published", repeat=0)
    scores = Scores.load(alone / "scores" / f"{cell.id}.npz")
    at = np.nextafter(train.methods.published_threshold(4), 1)
    for name in ("outer_score", "halfpoint_score", "overall_score"):
        assert value(cell, name) == pytest.approx(getattr(metrics, name)(scores, at))
        if name != "halfpoint_score":
            assert cell.curve[-1][name] == pytest.approx(value(cell, name), abs=1e-6)
    assert value(cell, "openauc") == pytest.approx(metrics.openauc(scores))
    assert cell.threshold is None


def test_networks_trained_together_are_those_trained_alone(alone, tmp_path):
    assert run(ruled(b"3"), tmp_path).failed == ()
    assert contents(tmp_path) == contents(alone)


def test_a_failing_network_fails_alone(tmp_path):
    done = run(ruled(b"4", b"{name: noise, smoothing: 7}"), tmp_path)
    assert {one["key"]["method"] for one in done.failed} == {"noise(smoothing=7)"}
    assert done.n_run == 4


def test_folds_test_every_known_sample_once(alone):
    cells = [
        cell_of(alone, method="noise", detector="published", repeat=i) for i in (0, 1)
    ]
    scores = [Scores.load(alone / "scores" / f"{c.id}.npz") for c in cells]
    (drawn,) = protocols.load(alone / "protocols.json")  # of one draw: one problem
    digits = datasets.load("digits")
    known = [digits.number(c) for c in drawn.known]
    n = np.isin(digits.labels, known).sum()
    assert sum(one.n_known for one in scores) == n


def test_an_interrupted_network_is_not_kept_as_if_it_were_trained(
    tmp_path, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(MLPClassifier, "_backprop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(small(), tmp_path)
    assert not list(tmp_path.glob("networks/*"))


def test_a_folder_of_images_is_divided_as_in_training(tmp_path):
    """Pixels are divided by 255: not standardised, as some are nearly constant."""
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(["cat", "dog", "fox"]):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(10):
            pixels = np.full((6, 6, 3), 60 * number + i, np.uint8)
            image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    entry = "{kind: holdout, data: photos, known: 2, unknown: 1}"
    text = f"protocols: [{entry}]\nmodels: [{{kind: logistic}}]\ndetectors: [msp]"
    run(parse(text, tmp_path), tmp_path / "run")
    (folder,) = (tmp_path / "run" / "networks").iterdir()
    test = Outputs.load(folder / "test")
    assert np.bincount(test.labels + 1).tolist() == [3, 3, 3]  # 30 % of each class
    pixels = np.asarray(test.features)[:, 0] * 255
    assert set(pixels.round(3).tolist()) <= {
        60 * n + i for n in range(3) for i in range(10)
    }
