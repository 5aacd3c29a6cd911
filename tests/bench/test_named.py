"""Benchmarks by name: definitions, scores against a plain computation."""

import hashlib

import numpy as np
import pytest
from sklearn import metrics as sk

from openset import Outputs, detectors
from openset.bench import named
from tests.bench.made_outputs import made


@pytest.fixture
def small():
    return named.load("mnist-small")


@pytest.mark.parametrize("name", named.names())
def test_definitions_are_complete(name):
    one = named.load(name)
    assert one.name == name
    assert one.reference
    assert one.source.strip()
    assert one.status.strip().startswith(("We have not run it", "Run with"))
    assert one.published_source
    assert any(group.role == "unknown" for group in one.groups.values())
    shown = {row.key for row in one.metrics(shown=True)}
    assert "positive" in one.conventions or "CCR at an FPR" in one.conventions
    columns = {column.name for column in one.columns()}
    for row in one.published:
        for metric, values in row.values.items():
            assert metric in shown
            assert set(values) <= columns
            assert all(1 < value <= 100 for value in values.values())  # percent
    assert set(one.sizes) <= set(one.files())
    for data, listed in one.lists().items():
        assert listed.of
        assert listed.source
        assert len(set(one.images(data))) == listed.n_images
        assert data in one.files() or data.startswith("validation/")
        assert one.sizes.get(data, listed.n_images) == listed.n_images


@pytest.mark.parametrize(
    ("name", "part", "end", "digest"),
    [
        ("openood:cifar10", "near/tin", "\n", "a44fd34e3c925d98"),
        ("openood:cifar10", "validation/tin", "\n", "39e22c5c6c2d95f9"),
        ("openood:cifar100", "near/tin", "\r\n", "8e5b028a18410c27"),
    ],
)
def test_images_are_those_of_the_files_that_openood_publishes(name, part, end, digest):
    """The files were compared with theirs at many places, and by their lengths."""
    paths = named.load(name).images(part)
    text = "".join(f"tin/{path} -1{end}" for path in paths)
    assert hashlib.sha256(text.encode()).hexdigest().startswith(digest)


def test_images_that_are_not_listed_are_refused():
    with pytest.raises(ValueError, match=r"Benchmark.images: data must be .*'far/tin'"):
        named.load("openood:cifar10").images("far/tin")


def test_values_are_those_of_openood(tmp_path):
    """AUROC, FPR95 and AUPR as OpenOOD computes them, with scikit-learn."""
    one = named.load("openood:cifar10")
    made(tmp_path, one)
    found = named.evaluate(one, tmp_path, {"msp": detectors.make("msp")})

    def confidences(name):
        logits = Outputs.load(tmp_path / f"{name}.npz").logits
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)

    wanted = {}
    for name in one.files()[1:]:
        known, unknown = confidences("known"), confidences(name)
        confidence = np.append(known, unknown)
        is_unknown = np.repeat([0, 1], [known.size, unknown.size])
        fpr, tpr, _ = sk.roc_curve(is_unknown, -confidence, drop_intermediate=False)
        of_known = sk.precision_recall_curve(1 - is_unknown, confidence)
        of_unknown = sk.precision_recall_curve(is_unknown, -confidence)
        wanted[name] = {
            "auroc": sk.roc_auc_score(is_unknown, -confidence),
            "fpr_at_tpr_unknown": fpr[np.argmax(tpr >= 0.95)],
            "aupr_in": sk.auc(of_known[1], of_known[0]),
            "aupr_out": sk.auc(of_unknown[1], of_unknown[0]),
        }
    for metric in ("auroc", "fpr_at_tpr_unknown", "aupr_in", "aupr_out"):
        values = found.values(metric)["msp"]
        for name in one.files()[1:]:
            assert values[name.partition("/")[2]] == pytest.approx(wanted[name][metric])
        near = [wanted[f"near/{data}"][metric] for data in ("cifar100", "tin")]
        assert values["near"] == pytest.approx(np.mean(near))


def test_the_full_spectrum_counts_shifted_images_as_known(tmp_path):
    one = named.load("openood:imagenet200")
    made(tmp_path, one)
    found = named.evaluate(one, tmp_path, {"maxlogit": detectors.make("maxlogit")})
    known = [
        Outputs.load(tmp_path / f"{name}.npz").logits.max(axis=1)
        for name in ("known", *one.files("shifted"))
    ]
    unknown = Outputs.load(tmp_path / "near/ninco.npz").logits.max(axis=1)
    everything = np.concatenate(known)
    wins = (everything[:, None] > unknown).mean()
    plain = (known[0][:, None] > unknown).mean()
    row = found.results.where(protocol=f"{one.name}/fs-near/ninco", metric="auroc")
    assert row.column("value") == pytest.approx([wins])
    assert found.values("auroc")["maxlogit"]["ninco"] == pytest.approx(plain)
    assert list(found.values("auroc")["maxlogit"])[:4] == [
        "near",
        "far",
        "fs-near",
        "fs-far",
    ]


def test_missing_files_are_named_at_once_or_left_out(tmp_path, small):
    made(tmp_path, small, leave_out={"near/digits", "far/omniglot"})
    with pytest.raises(FileNotFoundError) as error:
        named.evaluate(small, tmp_path)
    assert "near/digits.npz, far/omniglot.npz" in str(error.value)
    assert "notmnist" not in str(error.value)
    found = named.evaluate(small, tmp_path, partial=True)
    assert [column.name for column in found.columns()] == ["notmnist"]
    assert "Without near/digits, far/omniglot, and means" in found.to_markdown()
    (tmp_path / "known.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"one without known\.npz"):
        named.evaluate(small, tmp_path, partial=True)


def test_outputs_that_do_not_fit_are_named(tmp_path, small):
    made(tmp_path, small, train=False)
    with pytest.raises(FileNotFoundError, match=r"train\.npz"):
        named.evaluate(small, tmp_path, {"knn": detectors.make("knn")})
    rows = named.evaluate(small, tmp_path).results
    assert {row.detector for row in rows} == {"msp", "maxlogit"}
    known = Outputs.load(tmp_path / "known.npz")
    known.as_unknown().save(tmp_path / "known.npz")
    with pytest.raises(ValueError, match=r"known\.npz must be labelled"):
        named.evaluate(small, tmp_path)
    Outputs(logits=np.eye(3), labels=range(3)).save(tmp_path / "known.npz")
    with pytest.raises(ValueError, match=r"of 6 classes .* got 3 classes"):
        named.evaluate(small, tmp_path)


def test_other_numbers_of_samples_than_the_benchmark_has_are_noted(tmp_path, small):
    sizes = {"known": 40, "far/notmnist": 42, "far/omniglot": 70}
    one = small.model_copy(update={"sizes": sizes})
    made(tmp_path, one)  # 40 known samples, then 41, 42, 43 unknown ones
    table = named.evaluate(one, tmp_path, {"msp": detectors.MSP()})
    (note,) = (note for note in table.notes() if note.startswith("Not the samples"))
    assert note.endswith("by their number: far/omniglot 43 instead of 70.")
