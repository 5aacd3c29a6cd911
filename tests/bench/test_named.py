"""Benchmarks by name: definitions, scores against a plain computation."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

from openset import Outputs, datasets, detectors, protocols
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
    assert any(group.role == "unknown" for group in one.groups)
    assert set(one.shown) <= {row.key for row in one.metrics}
    assert "positive" in one.conventions or "CCR at an FPR" in one.conventions
    columns = {column.name for column in one.columns()}
    for row in one.published:
        for metric, values in row.values.items():
            assert metric in one.shown
            assert set(values) <= columns
            assert all(1 < value <= 100 for value in values.values())  # percent


def test_class_lists_agree_with_the_number_of_classes():
    with_lists = [one for one in map(named.load, named.names()) if one.split_of]
    assert {one.split_of for one in with_lists} <= set(protocols.names())
    for one in with_lists:
        for group in one.groups:
            n_known = len(one.protocol(group.name).known)
            wanted = 991 if one.name == "ssb:imagenet" else one.n_classes
            assert n_known == wanted
    with pytest.raises(ValueError, match="must be one with class lists"):
        named.load("openood:cifar10").protocol()


def as_openood(paths, end="\n"):
    """Return the text of a list of OpenOOD."""
    return "".join(f"tin/{path} -1{end}" for path in paths)


def test_images_of_tinyimagenet_for_cifar10_are_those_of_openood():
    """Compare with what stands at some places of the files that OpenOOD publishes."""
    one = named.load("openood:cifar10")
    test, validation = (one.images(name) for name in ("near/tin", "validation/tin"))
    assert len(set(test)) == 7793
    assert len(set(validation)) == 1000
    assert not set(test) & set(validation)
    text = as_openood(test)
    assert len(text) == 248_524
    assert len(as_openood(validation)) == 31_884
    assert [text[at : at + 4] for at in range(16_000, len(text), 16_000)] == [
        "\ntin", "316.", "968.", "599.", "254.", "890.", "530.", "183.",
        "810.", "455.", "082.", "719.", "369.", "988.", "649.",
    ]  # fmt: skip
    assert as_openood(validation)[31_500:].startswith("tin/val/images/val_9925.JPEG")
    # A class that CIFAR-10 has, too (a moving van), but for one image; and a bucket.
    names = {f"val/images/val_{number}.JPEG" for number in (30, 121, 153, 622)}
    assert names & set(test) == {"val/images/val_622.JPEG"}


def test_images_of_tinyimagenet_for_cifar100_are_those_of_openood():
    """As above; the copy of the file has the line ends of Windows."""
    test = named.load("openood:cifar100").images("near/tin")
    assert len(set(test)) == 6526
    text = as_openood(test, "\r\n")
    assert len(text) == 214_651
    starts = [
        "in/val/images/val_801.", "val/images/val_1545.", "\ntin/val/images/val_2268.",
        "G -1\r\n", "5.JPEG", "l_4479.", "es/val_5223.", "/images/val_5974.",
        "n/val/images/val_6719.", "1\r\n", "PEG -1\r\n", "933.", "val_9692.",
    ]  # fmt: skip
    for page, start in enumerate(starts, 1):
        assert text[16_000 * page :].startswith(start)
    # One image of an ice lolly is left out, with whoever eats it; bathtubs all are.
    names = {f"val/images/val_{number}.JPEG" for number in (0, 3, 4, 146)}
    assert names & set(test) == {"val/images/val_0.JPEG"}


def test_lists_of_images_are_complete():
    for one in map(named.load, named.names()):
        for name, listed in one.lists().items():
            paths = one.images(name)
            assert len(paths) == len(set(paths)) == listed.n_images
            assert listed.of
            assert listed.source
            assert name in one.files() or name.startswith("validation/")
    with pytest.raises(ValueError, match=r"Benchmark.images: data must be .*'far/tin'"):
        named.load("openood:cifar10").images("far/tin")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_imagenet_protocol_from_images_to_table(number, tmp_path):
    """Generated images in ImageNet's folders; a network that knows its classes."""
    image = pytest.importorskip("PIL.Image", reason="reads images")
    one = named.load(f"imagenet-protocols:p{number}")
    protocol = one.protocol("unknown")
    wnids = sorted(
        {*protocol.known, *protocol.negative, *protocol.unknown, "n00000001"}
    )
    for i, wnid in enumerate(wnids):
        for name in (f"train/{wnid}/{wnid}_1.JPEG", f"val/{wnid}/val_{i}.JPEG"):
            path = tmp_path / "imagenet" / name
            path.parent.mkdir(parents=True)
            pixels = np.full((2, 2, 3), (i % 256, i // 256, 0), np.uint8)
            image.fromarray(pixels).save(path, format="PNG")  # the colours stay

    def outputs(samples):
        seen = [int(x[0, 0, 0]) + 256 * int(x[0, 0, 1]) for x in samples.inputs]
        logits = np.zeros((len(samples), one.n_classes))
        for row, i in enumerate(seen):
            if wnids[i] in protocol.known:
                logits[row, protocol.known.index(wnids[i])] = 9
        return Outputs(logits=logits, labels=samples.labels)

    cut = datasets.cut(datasets.load("imagenet", tmp_path), protocol)
    test = outputs(cut.test)
    test.take(test.labels >= 0).save(tmp_path / "out/known.npz")
    test.take(test.labels < 0).save(tmp_path / "out/unknown/imagenet.npz")
    outputs(cut.negative).save(tmp_path / "out/negative/imagenet.npz")
    found = named.evaluate(one, tmp_path / "out", {"msp": detectors.make("msp")})
    assert len(cut.train) == one.n_classes
    for metric in one.shown:
        assert set(found.values(metric)["msp"].values()) == {1.0}


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
    assert found.missing == ("near/digits", "far/omniglot")
    assert [column.name for column in found.columns()] == ["far*", "notmnist"]
    assert "with others: no near/digits, far/omniglot." in found.to_markdown()
    (tmp_path / "known.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"one without known\.npz"):
        named.evaluate(small, tmp_path, partial=True)


def test_outputs_that_do_not_fit_are_named(tmp_path, small):
    made(tmp_path, small, train=False)
    with pytest.raises(ValueError, match=r"train\.npz for knn"):
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


@pytest.mark.parametrize(
    ("one", "other"), [("train", "known"), ("far/notmnist", "far/omniglot")]
)
def test_a_file_under_two_names_is_refused(tmp_path, small, one, other):
    made(tmp_path, small)
    (tmp_path / f"{other}.npz").write_bytes((tmp_path / f"{one}.npz").read_bytes())
    with pytest.raises(ValueError, match=rf"the same in {one} and {other}"):
        named.evaluate(small, tmp_path, {"msp": detectors.MSP()})


def test_other_numbers_of_samples_than_the_benchmark_has_are_noted(tmp_path, small):
    one = replace(small, sizes={"known": 40, "far/notmnist": 42, "far/omniglot": 70})
    made(tmp_path, one)  # 40 known samples, then 41, 42, 43 unknown ones
    table = named.evaluate(one, tmp_path, {"msp": detectors.MSP()})
    (note,) = (note for note in table.notes() if note.startswith("Not the samples"))
    assert note.endswith("by their number: far/omniglot 43 instead of 70.")


def test_sizes_are_those_of_the_lists_and_of_files_of_the_benchmark():
    for one in map(named.load, named.names()):
        assert set(one.sizes) <= set(one.files())
        for name, listed in one.lists().items():
            assert one.sizes.get(name, listed.n_images) == listed.n_images
