"""Outputs keep library and device, are checked once, and open without reading."""

import json
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import ArtefactError, Outputs
from openset.outputs import leading_rows
from tests.extras import array_api_strict, torch

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 3)).astype(np.float32)
FEATURES = RNG.normal(size=(4, 2)).astype(np.float32)
GOOD = {"logits": LOGITS, "features": FEATURES, "labels": [0, 1, 2, -1]}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"logits": None, "features": None}, ValueError, "logits or features"),
        ({"logits": LOGITS[0]}, ValueError, "non-empty array of 2 dimensions"),
        ({"logits": np.empty((0, 3))}, ValueError, "non-empty array of 2 dimensions"),
        ({"logits": np.array([["a"]])}, TypeError, "logits must be real"),
        ({"logits": LOGITS[:3]}, ValueError, "same length, got 3, 4, 4"),
        ({"classes": ["a", None, "c"]}, ValueError, "names, got none for class 1"),
        ({"classes": ["a", "b", ""]}, ValueError, "names, got none for class 2"),
        ({"classes": ["a", np.nan, "c"]}, ValueError, "names, got none for class 1"),
        ({"labels": [0, 1, 2, 3]}, ValueError, "below 3, the number of classes, got 3"),
        ({"labels": [0, 1, 2, -3]}, ValueError, "labels must be >= -1, got -3"),
        ({"labels": [0.0, 1, 2, -1]}, TypeError, "labels must be integers"),
        ({"classes": ["a", "b"]}, ValueError, "class counts must agree"),
        ({"weight": np.ones((3, 5))}, ValueError, "as wide as features"),
        ({"weight": np.ones((2, 2))}, ValueError, "class counts must agree"),
        ({"bias": np.ones(4)}, ValueError, "class counts must agree"),
    ],
)
def test_bad_values_get_a_clear_error(change, error, words):
    with pytest.raises(error, match=r"^Outputs: ") as caught:
        Outputs(**(GOOD | change))
    assert words in str(caught.value)


def test_bad_tensors_get_a_clear_error():
    for change, error, words in (
        ({"features": torch.ones(4, 2)}, ValueError, "share one array library"),
        ({"logits": torch.ones(4, 3) > 0}, TypeError, "must be real, got dtype bool"),
        ({"logits": torch.ones(4, 3) * 1j}, TypeError, "must be real, got dtype comp"),
    ):
        test_bad_values_get_a_clear_error(change, error, words)


@pytest.mark.parametrize("invalid", ["error", "keep"])
@pytest.mark.parametrize("asarray", [np.asarray, torch.asarray])
def test_weights_of_the_last_layer_have_no_nan(asarray, invalid):
    arrays = {"logits": LOGITS, "features": FEATURES, "weight": np.eye(3, 2)}
    arrays = {"bias": np.zeros(3)} | {k: np.array(v) for k, v in arrays.items()}
    for name, at in (("weight", (1, 0)), ("bias", 1)):
        bad = {k: v.copy() for k, v in arrays.items()}
        bad[name][at] = np.nan
        given = {k: asarray(v) for k, v in bad.items()}
        with pytest.raises(ValueError, match=f"{name} must be free of NaN, got .* 1$"):
            Outputs(**given, invalid=invalid)


def test_nan_is_found_and_its_row_named():
    logits = LOGITS.copy()
    logits[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"logits must be free of NaN.*first in row 2"):
        Outputs(logits=logits)


def arrays():
    return {
        "logits": LOGITS.copy(),
        "features": FEATURES.copy(),
        "labels": np.array([0, 1, 2, -1]),
        "groups": np.array(["a", "b", "c", "d"]),
        "ids": np.arange(4),
        "weight": np.ones((3, 2), np.float32),
        "bias": np.ones(3, np.float32),
    }


@pytest.mark.parametrize("name", list(arrays()))
def test_changing_the_callers_array_changes_no_outputs(name):
    given = arrays()
    outputs = Outputs(**given)
    before = getattr(outputs, name).copy()
    given[name][:] = given[name].ravel()[0]
    if name in {"weight", "bias"}:
        given[name][:] = np.nan
    np.testing.assert_array_equal(getattr(outputs, name), before)
    with pytest.raises(ValueError, match="read-only"):
        getattr(outputs, name)[0] = 0


def test_changing_the_base_of_a_view_changes_no_outputs():
    base = np.concatenate([LOGITS, LOGITS])
    view = base[:4]
    view.flags.writeable = False  # read-only itself, but its base is not
    outputs = Outputs(logits=view)
    base[:] = np.nan
    np.testing.assert_array_equal(outputs.logits, LOGITS)


def test_labels_of_a_tensor_are_owned():
    labels = torch.tensor([0, 1, 2, -1])
    outputs = Outputs(logits=torch.asarray(LOGITS), labels=labels)
    labels[:] = 0
    assert outputs.labels.tolist() == [0, 1, 2, -1]


def test_memory_that_nobody_can_change_is_not_copied():
    outputs = Outputs(**arrays())
    again = Outputs(**{name: getattr(outputs, name) for name in arrays()})
    for part in (again, outputs.take(slice(0, 2))):
        for name in arrays():
            assert np.shares_memory(getattr(part, name), getattr(outputs, name))
    taken = outputs.take([0, 2])
    with pytest.raises(ValueError, match="read-only"):
        taken.logits[0] = 0


def test_a_pickled_copy_cannot_be_changed_either():
    again = pickle.loads(pickle.dumps(Outputs(**arrays())))  # noqa: S301  # our own
    for name, array in arrays().items():
        np.testing.assert_array_equal(getattr(again, name), array)
        with pytest.raises(ValueError, match="read-only"):
            getattr(again, name)[0] = 0


def test_memory_maps_and_tensors_stay_views(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r+")
    assert np.shares_memory(Outputs(logits=mapped).logits, mapped)
    assert mapped.flags.writeable  # the caller's map is left as it is
    tensor = torch.asarray(LOGITS)
    assert Outputs(logits=tensor).logits is tensor


@pytest.mark.parametrize("make", [np.asarray, torch.asarray, array_api_strict.asarray])
def test_the_array_library_is_kept(make):
    outputs = Outputs(logits=make(LOGITS), labels=[0, 1, 2, -1])
    assert type(outputs.logits) is type(make(LOGITS))
    mask = np.array([True, False, True, True])
    taken = outputs.take(mask)
    assert type(taken.logits) is type(make(LOGITS))
    assert taken.labels.tolist() == [0, 2, -1]
    both = Outputs.concat([outputs, taken])
    assert len(both) == 7
    assert np.array_equal(both.to("numpy").logits[4:], LOGITS[mask])


@pytest.mark.parametrize("name", ["outputs.npz", "outputs"])
def test_files_round_trip_bit_for_bit(tmp_path, name):
    outputs = Outputs(
        **GOOD,
        groups=["a", "b", "c", "far"],
        ids=[7, 8, 9, 10],
        classes=["x", "y", "z"],
        weight=np.ones((3, 2), np.float32),
        bias=np.zeros(3, np.float32),
    )
    outputs.save(tmp_path / name)
    again = Outputs.load(outputs.save(tmp_path / name))  # a second time replaces
    for field in ("logits", "features", "labels", "groups", "ids", "weight", "bias"):
        assert np.array_equal(getattr(again, field), getattr(outputs, field))
        assert getattr(again, field).dtype == getattr(outputs, field).dtype
    assert again.classes == ("x", "y", "z")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_folder_is_mapped_not_read(tmp_path):
    """A file of 4 GB of logits (sparse on disk) opens, slices and stays unread."""
    folder = tmp_path / "large"
    folder.mkdir()
    shape = (1_000_000, 1000)
    header = np.lib.format.open_memmap(
        folder / "logits.npy", mode="w+", dtype=np.float32, shape=shape
    )
    header[5, 2] = 7
    del header
    outputs = Outputs.load(folder)
    assert isinstance(outputs.logits, np.memmap)
    batch = next(outputs.batches(10))
    assert isinstance(batch.logits, np.memmap)
    assert batch.logits[5, 2] == 7


def test_a_truncated_array_in_a_folder_is_refused(tmp_path):
    folder = Outputs(**GOOD).save(tmp_path / "outputs")
    file = folder / "logits.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ArtefactError, match=r"logits\.npy is damaged"):
        Outputs.load(folder)


def test_an_object_array_in_a_folder_is_refused(tmp_path):
    folder = tmp_path / "outputs"
    folder.mkdir()
    np.save(folder / "logits.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ArtefactError, match="damaged, truncated or holds pickled"):
        Outputs.load(folder)


def test_a_folder_without_arrays_and_damaged_names_are_refused(tmp_path):
    with pytest.raises(ArtefactError, match="must hold logits or features"):
        Outputs.load(tmp_path)
    folder = Outputs(**GOOD).save(tmp_path / "outputs")
    (folder / "meta.json").write_text(json.dumps(["no classes"]))
    with pytest.raises(ArtefactError, match=r"meta\.json is damaged"):
        Outputs.load(folder)
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        Outputs.load(tmp_path / "none")


def test_what_is_wrong_inside_names_the_file(tmp_path):
    np.savez(tmp_path / "bad.npz", logits=np.zeros((4, 2)), labels=[0, 1])
    with pytest.raises(ValueError, match=r"logits and labels must.*\nin .*bad\.npz"):
        Outputs.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "other.npz", scores=np.zeros(2))
    with pytest.raises(ArtefactError, match="must hold logits or features, got scores"):
        Outputs.load(tmp_path / "other.npz")
    np.savez(tmp_path / "scores.npz", known=np.zeros(2), labels=[0, 1])
    with pytest.raises(ArtefactError, match="These are scores already"):
        Outputs.load(tmp_path / "scores.npz")
    folder = Outputs(**GOOD).save(tmp_path / "outputs")
    np.save(folder / "labels.npy", np.zeros(99, dtype=int))
    with pytest.raises(ValueError, match=r"must have the same length.*\nin .*outputs"):
        Outputs.load(folder)


def test_a_single_array_is_told_what_is_missing(tmp_path):
    np.save(tmp_path / "logits.npy", np.zeros((3, 2)))
    with pytest.raises(ArtefactError, match="got a single array"):
        Outputs.load(tmp_path / "logits.npy")


def test_ids_follow_their_samples_and_are_left_out_if_some_have_none():
    named = Outputs(**GOOD, ids=["a", "b", "c", "d"])
    assert named.take([2, 0]).ids.tolist() == ["c", "a"]
    assert Outputs.concat([named, named.take([1])]).ids.tolist() == [*"abcdb"]
    assert Outputs.concat([named, Outputs(**GOOD)]).ids is None
    with pytest.raises(TypeError, match="ids must be strings or integers"):
        Outputs(**GOOD, ids=[0.5] * 4)
    with pytest.raises(ValueError, match="same length, got 4, 4, 4, 2"):
        Outputs(**GOOD, ids=["a", "b"])


def test_an_empty_selection_is_refused():
    for nobody in (np.zeros(4, bool), []):
        with pytest.raises(ValueError, match="selection of no samples"):
            Outputs(**GOOD).take(nobody)


def test_a_mask_of_other_samples_and_a_single_index_are_refused():
    with pytest.raises(ValueError, match="a mask of 4 samples, got one of 2"):
        Outputs(**GOOD).take([True, True])
    with pytest.raises(TypeError, match="a slice, or a vector of indices"):
        Outputs(**GOOD).take(0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["c", "b", "a"]}, "parts must be of one network, got different c"),
        ({"weight": np.ones((3, 2))}, "parts must be of one network, got different w"),
        ({"logits": np.ones((4, 2)), "labels": [0] * 4}, "equally wide in all parts"),
    ],
)
def test_parts_of_different_networks_are_not_joined(change, words):
    first = {"logits": LOGITS, "labels": GOOD["labels"]}
    if "classes" in change:
        first["classes"] = ["a", "b", "c"]
    if "weight" in change:
        first |= {"features": FEATURES, "weight": np.eye(3)[:, :2]}
    with pytest.raises(ValueError, match=r"^Outputs\.concat: ") as caught:
        Outputs.concat([Outputs(**first), Outputs(**(first | change))])
    assert words in str(caught.value)


def test_parts_of_different_libraries_are_not_joined():
    change = {"logits": torch.ones(4, 3)}
    words = "share one array library and device, got numpy"
    test_parts_of_different_networks_are_not_joined(change, words)


def test_joined_parts_have_the_names_and_the_head_that_some_of_them_have():
    bare, named = (
        Outputs(**GOOD),
        Outputs(**GOOD, classes="abc", weight=np.ones((3, 2))),
    )
    both = Outputs.concat(part for part in (bare, named))
    assert both.classes == ("a", "b", "c")
    assert both.weight is named.weight


def test_bfloat16_is_saved_as_float32(tmp_path):
    logits = torch.tensor(LOGITS).bfloat16()
    again = Outputs.load(Outputs(logits=logits).save(tmp_path / "outputs.npz"))
    assert np.array_equal(again.logits, logits.float().numpy())


def test_labels_may_be_left_out():
    outputs = Outputs(logits=LOGITS)
    assert outputs.labels is None
    assert len(outputs.take(slice(1, 3))) == 2


def test_what_it_holds_is_shown():
    head = {"weight": np.ones((3, 2)), "bias": np.zeros(3)}
    text = repr(Outputs(**GOOD, **head, groups=["", "", "", "far"]))
    assert text == (
        "Outputs(n=4, logits=(4, 3) float32, features=(4, 2) float32, head, groups=2, "
        "numpy)"
    )


def test_the_number_of_classes_comes_from_logits_head_or_names():
    bare = {"features": FEATURES, "labels": [0, 0, 1, -1]}
    assert Outputs(**GOOD).n_classes == 3
    assert Outputs(**bare, weight=np.ones((5, 2))).n_classes == 5
    assert Outputs(**bare, classes=["a", "b"]).n_classes == 2
    assert Outputs(**bare).n_classes is None


def test_parts_must_have_the_same_columns():
    with_ids = Outputs(**GOOD, ids=np.arange(4))
    assert Outputs.concat([with_ids, Outputs(**GOOD)]).ids is None
    bare = Outputs(logits=LOGITS, labels=GOOD["labels"])
    words = r"features must be given for all parts or for none, got 1 of 2 without"
    with pytest.raises(ValueError, match=words):
        Outputs.concat([bare, Outputs(**GOOD)])
    with pytest.raises(ValueError, match=r"parts must be a non-empty list, got \[\]"):
        Outputs.concat([])


def test_arrays_go_to_a_device_and_back_to_numpy():
    there = Outputs(**(GOOD | {"logits": torch.ones(4, 3), "features": None}))
    assert there.to("cpu").logits.device.type == "cpu"
    assert isinstance(there.to("numpy").logits, np.ndarray)


def test_an_ending_nobody_knows_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ending must be '\.npz', or none for a fold"):
        Outputs(**GOOD).save(tmp_path / "outputs.csv")


@pytest.mark.parametrize("name", ["layers.npz", "layers"])
def test_layers_are_kept_by_files_rows_and_parts(tmp_path, name):
    first = Outputs(logits=np.eye(3), features=np.eye(3), labels=[0, 1, -1])
    second = Outputs(logits=np.eye(3), features=np.full((3, 2), 7.0))
    both = Outputs.of_layers({"conv1": first, "conv2": second})
    again = Outputs.load(both.save(tmp_path / name))
    joined = Outputs.concat([again.take([0, 2]), again.take([1])])
    for found, rows in ((again, [0, 1, 2]), (joined, [0, 2, 1])):
        assert found.layers == (("conv1", 3), ("conv2", 2))
        parts = found.by_layer()
        assert_array_equal(parts["conv1"].features, np.eye(3)[rows])
        assert_array_equal(parts["conv2"].features, np.full((3, 2), 7.0))
        assert_array_equal(parts["conv2"].labels, np.array([0, 1, -1])[rows])
        assert not parts["conv1"].layers


def test_layers_must_fit_the_features():
    rows = np.ones((2, 3))
    for layers, words in (
        ([("a", 1), ("b", 1)], "3 in all, got a 1, b 1"),
        ([("a", 1), ("a", 2)], "different names"),
        ([("a", 0), ("b", 3)], "got a 0, b 3"),
        (["a"], r"\(name, number of columns\)"),
    ):
        with pytest.raises(ValueError, match=f"Outputs: layers must be .*{words}"):
            Outputs(features=rows, layers=layers)
    one = Outputs(features=rows)
    with pytest.raises(ValueError, match="parts must be outputs of one or several"):
        Outputs.of_layers({})
    with pytest.raises(ValueError, match="'b' must be outputs with features"):
        Outputs.of_layers({"a": one, "b": Outputs(logits=rows)})
    other = Outputs(features=rows, layers=[("a", 1), ("c", 2)])
    with pytest.raises(ValueError, match="of one network, got different layers"):
        Outputs.concat([Outputs(features=rows, layers=[("a", 1), ("b", 2)]), other])


def probabilities(n=20, dtype=np.float64):
    odds = np.exp(np.random.default_rng(0).normal(size=(n, 5)) * 3)
    return (odds / odds.sum(axis=1, keepdims=True)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_probabilities_in_place_of_logits_are_warned_of(dtype):
    with pytest.warns(UserWarning, match=r"look like probabilities.*give numpy.log"):
        Outputs(logits=probabilities(dtype=dtype))
    with pytest.warns(UserWarning, match="look like probabilities"):
        Outputs(logits=np.insert(probabilities(dtype=dtype), 2, 0, axis=1))


@pytest.mark.parametrize(
    "logits",
    [
        np.log(probabilities()),  # a documented way to bring them
        np.eye(5)[np.arange(20) % 5],  # as in examples
        probabilities(7),  # too few to tell
        probabilities() * 1.02,
        probabilities() - 0.01,
        probabilities() - [0.1, -0.1, 0, 0, 0],  # they add up to 1, some are negative
        np.vstack([probabilities(), np.full((1, 5), 0.3)]),
    ],
)
def test_other_logits_are_not(logits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Outputs(logits=logits)


@pytest.mark.parametrize("name", ["logits", "features", "labels"])
def test_masked_values_are_refused(name):
    values = {"logits": np.eye(3), "features": np.eye(3), "labels": np.arange(3)}
    values[name] = np.ma.masked_array(values[name])
    Outputs(**values)  # nothing is masked
    values[name] = np.ma.masked_equal(values[name], 1)
    with pytest.raises(ValueError, match=f"{name} must be free of masked values"):
        Outputs(**values)


def test_one_logit_for_two_classes_takes_two_columns():
    z, labels = np.array([3.0, -2.0, 0.5]), [1, 0, 1]
    with pytest.raises(ValueError, match=r"below 1, .*numpy.stack\(\[-z, z\]"):
        Outputs(logits=z[:, None], labels=labels)
    logits = np.stack([-z, z], axis=1) / 2
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(odds[:, 1], 1 / (1 + np.exp(-z)))
    assert Outputs(logits=logits, labels=labels).n_classes == 2


def test_rows_on_a_device_are_not_waited_for():
    assert leading_rows(torch.zeros(9, 3)).shape == (9, 3)
    assert leading_rows(torch.zeros(9, 3, device="meta")) is None


def test_columns_of_a_table_are_in_the_order_of_the_classes():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(LOGITS, columns=["cat", "dog", "emu"])
    assert Outputs(logits=table, classes=["cat", "dog", "emu"]).classes[0] == "cat"
    assert Outputs(logits=table, classes=["a", "b", "c"]).classes[0] == "a"
    assert Outputs(logits=table).classes == ()
    with pytest.raises(ValueError, match="got 'dog' for the column 'cat'"):
        Outputs(logits=table, classes=["dog", "cat", "emu"])
