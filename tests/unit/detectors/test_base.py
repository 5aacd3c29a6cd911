"""`Batch`, `Fitted` and `score_all`: checks, sharing, batches, files."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import ArtefactError, Outputs, _xp
from openset.detectors import (
    KNN,
    MSP,
    Batch,
    Combined,
    Detector,
    Energy,
    Fitted,
    Mahalanobis,
    MaxLogit,
    OpenMax,
    ReAct,
    _detector,
    find,
    make,
    names,
    score_all,
)
from openset.detectors import _batch as of_batches
from openset.detectors._batch import (
    batch_rows,
    draw,
    fit_batches,
    in_dtype,
    lengths,
    working_dtype,
)
from openset.detectors._finite import are_finite
from openset.outputs import replaced
from openset.testing import check_detector, in_library
from openset.testing import example_outputs as split


@pytest.fixture
def outputs():
    return split(50)


def test_reductions_are_computed_once_for_all_detectors(outputs, monkeypatch):
    calls = []
    real = _xp.exp_sum_without

    def counted(*args):
        calls.append(1)
        return real(*args)

    monkeypatch.setattr(_xp, "exp_sum_without", counted)
    fitted = [kind().fit(outputs) for kind in (MSP, MaxLogit, Energy)]
    score_all(fitted, outputs, batch_size=25)
    assert len(calls) == 2  # one for each batch


def test_batches_of_a_temperature_are_shared(outputs):
    batch = Batch(outputs)
    assert batch.tempered(1) is batch
    assert batch.tempered(2.0) is batch.tempered(2.0)
    assert_allclose(batch.tempered(2.0).logits, outputs.logits / 2)


def test_reductions_do_not_depend_on_the_cache(outputs, xp, monkeypatch):
    batch = Batch(in_library(outputs, xp))
    mass, norm = (_xp.to_numpy(a) for a in (batch.other_mass, batch.feature_norm))

    def few_rows(function, *arrays, size=0):
        del size
        return by_rows(function, *arrays, size=100)

    by_rows = _xp.by_rows
    monkeypatch.setattr(_xp, "by_rows", few_rows)
    cut = Batch(in_library(outputs, xp))
    assert_array_equal(_xp.to_numpy(cut.other_mass), mass)
    assert_array_equal(_xp.to_numpy(cut.feature_norm), norm)


def test_reductions_of_one_kernel_give_the_energy(outputs, monkeypatch):
    plain = Batch(outputs)
    expected = plain.energy
    monkeypatch.setattr(of_batches._fused, "reduce_rows", lambda logits: plain)
    other = Batch(outputs)
    for name in ("top_class", "top_logit", "other_mass", "log_other_mass"):
        assert getattr(other, name) is getattr(plain, name)
    assert_allclose(other.energy, expected)


def test_the_mass_of_other_classes_is_not_lost_in_its_logarithm():
    two = Batch(Outputs(logits=[[800.0, 0.0], [0.0, 0.0], [-5.0, 900.0]]))
    assert_allclose(two.log_other_mass, [-800, 0, -905], atol=1e-12)
    one = Batch(Outputs(logits=[[800.0], [0.0]]))
    assert_array_equal(one.log_other_mass, [-np.inf, -np.inf])


def test_logits_and_features_are_computed_in_the_wider_dtype():
    mixed = Outputs(logits=np.ones((2, 3), dtype=np.float32), features=np.ones((2, 4)))
    assert working_dtype(mixed) == np.float64
    assert Batch(mixed).logits.dtype == np.float64
    half = Outputs(logits=np.ones((2, 3), dtype=np.float16))
    assert Batch(half).logits.dtype == np.float32


@pytest.mark.parametrize("dtype", [">f8", np.longdouble])
def test_wide_numbers_of_any_kind_are_computed_in_float64(dtype, outputs):
    wide = Outputs(logits=outputs.logits.astype(dtype), labels=outputs.labels)
    assert working_dtype(wide) == np.float64
    assert_array_equal(MSP().fit(wide).known(wide), MSP().fit(outputs).known(outputs))


def test_float32_is_scored_in_float32_without_a_copy():
    logits = np.ones((2, 3), dtype=np.float32)
    outputs = Outputs(logits=logits)
    assert np.shares_memory(Batch(outputs).logits, outputs.logits)


def test_only_real_arrays_of_a_state_are_cast():
    state = {"means": np.ones(2), "classes": np.arange(2)}
    cast = in_dtype(state, np.float32)
    assert cast["means"].dtype == np.float32
    assert cast["classes"].dtype == np.int64


def test_fitting_reads_all_rows_once(outputs, monkeypatch):
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: 7)
    parts = [batch.features for batch in fit_batches(outputs)]
    assert [len(part) for part in parts] == [7] * 7 + [1]
    assert_array_equal(np.concatenate(parts), outputs.features)


@pytest.mark.parametrize("size", [3, 5, 99])
def test_fitting_reads_chosen_rows_only(outputs, size, monkeypatch):
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: size)
    chosen = np.array([2, 3, 11, 40, 49])
    parts = [batch.features for batch in fit_batches(outputs, chosen)]
    assert max(map(len, parts)) == min(size, 5)
    assert_array_equal(np.concatenate(parts), outputs.features[chosen])


def test_rows_are_drawn_in_order_and_once(rng):
    rows = draw(100, 30, seed=4)
    assert len(set(rows.tolist())) == 30
    assert_array_equal(rows, np.sort(rows))
    assert_array_equal(rows, draw(100, 30, seed=4))
    assert not np.array_equal(rows, draw(100, 30, seed=5))
    assert draw(30, 30, seed=4) is None
    assert draw(30, 31, seed=4) is None


def test_a_progress_bar_knows_the_number_of_batches(outputs, monkeypatch):
    totals = []

    def bar(items, label, *, total, show):
        totals.append((total, show))
        return items

    monkeypatch.setattr(of_batches, "bar", bar)
    fitted = MSP().fit(outputs)
    for size in (20, 25, 50, 99):
        fitted.score(outputs, batch_size=size, progress=True)
    assert totals == [(3, True), (2, True), (1, True), (1, True)]
    totals.clear()
    fitted.score(outputs)
    fitted.known(outputs)
    score_all([fitted], outputs)
    assert totals == [(1, False)] * 3


def test_lengths_beyond_all_floats_do_not_change_other_rows():
    rows = np.array([[0.0, 0, 0], [0, 3e300, 4e300], [np.inf, 1, 1], [0, 3, 4]])
    assert_array_equal(lengths(rows)[[0, 2, 3]], [0, np.inf, 5])
    assert_allclose(lengths(rows)[1], 5e300)


def test_directions_are_of_length_one_whatever_the_length():
    rows = np.array([[0.0, 0.0], [0.3, 0.4], [3e300, 4e300], [1.5e308, 1.5e308]])
    expected = [[0, 0], [0.6, 0.8], [0.6, 0.8], [0.5**0.5, 0.5**0.5]]
    assert_allclose(Batch(Outputs(features=rows)).unit_features, expected)
    assert_allclose(Batch(Outputs(features=rows[:3])).unit_features, expected[:3])


def test_nan_in_a_memory_map_is_named_by_its_row_of_the_file(outputs, tmp_path):
    folder = outputs.save(tmp_path / "some")
    features = np.array(outputs.features)
    features[[4, 6, 8], 2] = np.nan
    np.save(folder / "features.npy", features)
    mapped = Outputs.load(folder)
    for rows, named in ((None, 4), (slice(5, 9), 6), (np.array([1, 8, 6]), 8)):
        with pytest.raises(ValueError, match=f"NaN in row {named}$"):
            Batch(mapped, rows).features  # noqa: B018
    assert_array_equal(Batch(mapped, slice(9, 12)).features, features[9:12])


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_batch_size_below_one_is_refused(outputs, size):
    fitted = MSP().fit(outputs)
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1"):
        fitted.score(outputs, batch_size=size)
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1"):
        fitted.known(outputs, batch_size=size)


def test_known_is_score_without_labels(outputs):
    unlabelled = Outputs(logits=outputs.logits)
    fitted = Energy().fit(outputs)
    assert_array_equal(fitted.known(unlabelled), fitted.score(outputs).known)
    with pytest.raises(ValueError, match="outputs must have labels, got none"):
        fitted.score(unlabelled)


def test_known_refuses_nan():
    empty = Outputs(logits=[[0.0, 1.0], [-np.inf, -np.inf]])
    with pytest.raises(ValueError, match="free of NaN, got NaN for 1 samples, first"):
        Energy().fit(empty).known(empty)


def test_a_method_without_a_probability_says_so(outputs):
    fitted = Energy().fit(outputs)
    with pytest.raises(TypeError, match="Energy: defines no probability"):
        fitted.probability(outputs)
    with pytest.raises(TypeError, match="Energy: defines no class probabilities"):
        fitted.class_probabilities(outputs)
    found = OpenMax().fit(split(200)).class_probabilities(outputs)
    assert found.shape == (50, 5)
    assert_allclose(found.sum(axis=1), 1)


def test_a_combination_predicts_classes_if_its_first_part_does():
    assert Mahalanobis().predicts_classes
    assert not KNN().predicts_classes
    assert Combined(parts=["mahalanobis", "knn"]).predicts_classes
    assert not Combined(parts=["knn", "mahalanobis"]).predicts_classes


def test_features_alone_need_a_method_that_classifies(outputs):
    alone = Outputs(features=outputs.features, labels=outputs.labels)
    with pytest.raises(ValueError, match=r"KNN\.score: outputs must have logits"):
        KNN(k=3).fit(alone).score(alone)
    scores = Mahalanobis().fit(alone).score(alone)
    assert_array_equal(scores.predicted, outputs.labels)


def test_each_detector_of_feature_only_outputs_predicts_for_itself(outputs):
    alone = Outputs(features=outputs.features, labels=outputs.labels)
    fitted = [Mahalanobis().fit(outputs), ReAct().fit(outputs)]
    scores = score_all(fitted, alone, batch_size=20)
    assert_array_equal(scores["mahalanobis"].predicted, outputs.labels)
    assert_array_equal(scores["react"].predicted, outputs.logits.argmax(axis=1))


def test_two_detectors_of_one_kind_need_names(outputs):
    cold, hot = Energy().fit(outputs), Energy(temperature=9.0).fit(outputs)
    with pytest.raises(ValueError, match="must have different names"):
        score_all([cold, hot], outputs)
    scores = score_all({"cold": cold, "hot": hot}, outputs)
    assert list(scores) == ["cold", "hot"]
    assert (scores["hot"].known > scores["cold"].known).all()


def test_a_progress_bar_changes_nothing(outputs):
    fitted = MSP().fit(outputs)
    quiet = fitted.score(outputs, batch_size=10).known
    assert_array_equal(fitted.score(outputs, batch_size=10, progress=True).known, quiet)


def test_outputs_of_another_width_are_refused(outputs):
    fitted = KNN(k=3).fit(outputs)
    narrow = Outputs(features=outputs.features[:, :5])
    with pytest.raises(ValueError, match="n_features must be 32, as in fit, got 5"):
        fitted.known(narrow)
    narrow = Outputs(logits=outputs.logits, features=narrow.features, labels=[0] * 50)
    with pytest.raises(ValueError, match="n_features must be 32, as in fit, got 5"):
        fitted.score(narrow)
    bare = Outputs(logits=outputs.logits, labels=outputs.labels)
    for call in (fitted.score, fitted.known):
        with pytest.raises(ValueError, match=r"KNN\.score: outputs must have features"):
            call(bare)


def test_outputs_of_another_library_are_refused_with_the_remedy(outputs):
    torch = pytest.importorskip("torch")
    fitted = KNN(k=3).fit(outputs)
    with pytest.raises(ValueError, match=r"Move one: fitted\.to\(outputs\.logits\)"):
        fitted.known(in_library(outputs, torch))


def test_unknown_samples_in_fitting_are_counted(outputs):
    labels = np.array(outputs.labels)
    labels[[3, 9]] = -1
    train = Outputs(logits=outputs.logits, labels=labels)
    with pytest.raises(ValueError, match="known samples only, got 2 with label -1"):
        MSP().fit(train)


def test_missing_needs_are_named_with_the_remedy(outputs):
    headless = Outputs(features=outputs.features, logits=outputs.logits)
    with pytest.raises(ValueError, match=r"must have head, got none\. Give Outputs\("):
        ReAct().fit(headless)
    unbiased = Outputs(features=outputs.features, weight=outputs.weight)
    with pytest.raises(ValueError, match=r"must have head, got none\. Give Outputs\("):
        ReAct().fit(unbiased)


@pytest.mark.parametrize("detector", [KNN(k=3), KNN(k=3, bank=45), Mahalanobis()])
def test_nan_in_memory_mapped_training_features_is_found(detector, outputs, tmp_path):
    folder = outputs.save(tmp_path / "train")
    features = np.array(outputs.features)
    features[:10, 2] = np.nan  # more rows than a bank of 45 leaves out
    np.save(folder / "features.npy", features)
    with pytest.raises(ValueError, match=r"features must be free of NaN.* row [0-5]$"):
        detector.fit(Outputs.load(folder))


def test_another_process_is_sent_the_arrays_alone(outputs):
    fitted = KNN(k=3).fit(outputs)
    expected = fitted.known(outputs)
    sent = pickle.loads(pickle.dumps(fitted))  # noqa: S301  # our own, just written
    assert "_states" in fitted.__dict__
    assert "_states" not in sent.__dict__
    assert_array_equal(sent.known(outputs), expected)


def test_a_file_that_is_no_fit_is_refused(outputs, tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, recipe=np.array(json.dumps({"kind": "x", "schema": 1})))
    with pytest.raises(ArtefactError, match=r"must be an openset\.Fitted of schema 1"):
        Fitted.load(path)
    np.savez(path, logits=np.ones(3))
    with pytest.raises(ArtefactError, match="holds no detector"):
        Fitted.load(path)
    with pytest.raises(ValueError, match=r"must be one of '\.npz'"):
        MSP().fit(outputs).save(tmp_path / "fitted.pkl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"detector": "magic"}, "a detector this version lacks: 'magic'"),
        ({"params": {"magic": 1}}, "cannot make .*unexpected keyword argument"),
        ({"params": {"k": 0}}, "cannot make .*k must be an integer >= 1"),
        ({"params": [1]}, "cannot make"),
        ({"widths": None}, "is damaged"),
    ],
)
def test_a_file_of_another_version_is_refused(change, message, outputs, tmp_path):
    path = KNN(k=3).fit(outputs).save(tmp_path / "knn.npz")
    arrays = dict(np.load(path))
    recipe = json.loads(str(arrays["recipe"])) | change
    np.savez(path, **arrays | {"recipe": np.array(json.dumps(recipe))})
    with pytest.raises(ArtefactError, match=message):
        Fitted.load(path)


def test_numbers_of_numpy_are_kept_as_pythons(outputs, tmp_path):
    recipe = KNN(k=np.int64(3), seed=np.int32(1))
    assert repr(recipe) == repr(KNN(k=3, seed=1))
    single = split(50, dtype=np.float32)
    fitted = MSP(temperature=np.float64(1.5)).fit(single)  # once it lifted the dtype
    again = Fitted.load(fitted.save(tmp_path / "msp.npz"))
    assert_array_equal(again.known(single), fitted.known(single))
    assert_array_equal(
        MSP(temperature=1.5).fit(single).known(single), again.known(single)
    )


@pytest.mark.parametrize("value", [np.ones((3, 4)), "train.npz", None])
def test_what_is_no_outputs_is_named(value, outputs):
    fitted = MSP().fit(outputs)
    for call in (KNN().fit, fitted.known, fitted.score, fitted.probability):
        with pytest.raises(TypeError, match=r"outputs must be Outputs, got"):
            call(value)


@pytest.mark.parametrize("value", [[MSP()], {"a": MSP()}, MSP(), None])
def test_what_is_not_fitted_is_named(value, outputs):
    with pytest.raises(TypeError, match="score_all: fitted must be several fitted"):
        score_all(value, outputs)


@pytest.mark.parametrize("place", ["numpy", "cpu", None, split(3)])
def test_a_place_is_told_by_an_array(place, outputs):
    with pytest.raises(TypeError, match=r"Fitted\.to: like must be an array, got"):
        MSP().fit(outputs).to(place)


@pytest.mark.parametrize(
    "name", ["fdbd", "osnn", "knn", "nnguide", "mahalanobis", "vim", "nci", "pisvm"]
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_an_infinite_training_feature_is_named_in_fitting(name, outputs):
    features = np.array(outputs.features)
    features[3, 2] = np.inf
    head = {"weight": outputs.weight, "bias": outputs.bias}
    train = Outputs(
        logits=outputs.logits, features=features, labels=outputs.labels, **head
    )
    params = {"k": 5} if name == "knn" else {}
    with pytest.raises(ValueError, match=r"\.fit: features must be finite.* row 3\."):
        make(name, **params).fit(train)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_an_infinite_number_is_named_by_its_row_in_all_batches(outputs, monkeypatch):
    features = np.array(outputs.features)
    features[[30, 31], 2] = np.inf
    train = Outputs(features=features, labels=outputs.labels)
    monkeypatch.setattr(of_batches, "batch_rows", lambda outputs: 7)
    with pytest.raises(ValueError, match=r"features must be finite.* row 30\."):
        Mahalanobis().fit(train)


def test_a_masked_class_is_no_fault_of_the_training_set():
    outputs = split(60)
    logits = np.concatenate([outputs.logits, np.full((60, 1), -np.inf)], axis=1)
    train = Outputs(logits=logits, features=outputs.features, labels=outputs.labels)
    with (
        pytest.raises(ValueError, match="logits must be finite"),
        np.errstate(all="ignore"),
    ):
        make("openmax").fit(train)  # measures distances between logits
    assert np.isfinite(make("postmax").fit(train).known(train)).all()


def test_a_fit_shows_its_recipe_and_arrays(outputs):
    shown = repr(KNN(k=3).fit(outputs))
    assert "KNN(k=3" in shown
    assert "bank(50, 32)" in shown
    assert "no state" in repr(MSP().fit(outputs))


def test_a_subclass_is_registered_as_its_statement_says(monkeypatch):
    class Recorder:
        def __init__(self):
            self.found = []

        def register(self, name, kind, *, listed):
            self.found.append((name, kind.__name__, listed))

    registry = Recorder()
    monkeypatch.setattr(_detector, "REGISTRY", registry)
    type("Plain", (MSP,), {})
    type("Named", (MSP,), {"name": "other"})
    type("Hidden", (MSP,), {}, listed=False)
    type("Alone", (MSP,), {}, register=False)
    type("_Private", (MSP,), {})
    assert registry.found == [
        ("plain", "Plain", True),
        ("other", "Named", True),
        ("hidden", "Hidden", False),
    ]


def test_a_subclass_may_have_other_parents():
    told = []

    class Parent:
        def __init_subclass__(cls):
            told.append(cls.__name__)

    type("Child", (MSP, Parent), {}, register=False)
    assert told == ["Child"]


def test_openmax_alone_was_published_with_a_class_of_unknowns():
    assert [name for name in names() if find(name).rejects_by_argmax] == ["openmax"]


def test_detectors_are_made_by_name():
    assert make("energy", temperature=2.0) == Energy(temperature=2.0)
    with pytest.raises(ValueError, match="name must be one of 'ash'"):
        make("nothing")


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (None, (8 << 20) // 400),  # in CPU memory: about a cache
        (8 << 30, (128 << 20) // 400),  # a small GPU: a share of its memory
        (140 << 30, (2 << 30) // 400),  # a large one: at most 2 GiB
        (1 << 10, 64),
    ],
)
def test_batches_are_as_long_as_the_device_allows(monkeypatch, memory, expected):
    monkeypatch.setattr("openset._xp.gpu_memory", lambda array: memory)
    outputs = Outputs(logits=np.zeros((5, 100), dtype=np.float32))
    assert batch_rows(outputs) == expected
    assert isinstance(batch_rows(outputs), int)


def test_batches_are_longer_on_a_device_of_unknown_memory(monkeypatch):
    monkeypatch.setattr("openset._xp.is_on_cpu", lambda array: False)
    outputs = Outputs(logits=np.zeros((5, 100), dtype=np.float32))
    assert batch_rows(outputs) == (256 << 20) // 400


def test_a_state_is_finite_if_its_sum_is_infinite(xp):
    """The sum of numbers may overflow; that of infinite ones never is finite."""
    huge = xp.asarray(np.full(4, 3e38, dtype=np.float32))
    whole = xp.asarray(np.array([1, 2]))
    assert are_finite([huge, whole])
    assert are_finite([whole])
    for bad in ([np.inf, -np.inf, 0.0], [1.0, np.nan], [-np.inf]):
        assert not are_finite([xp.asarray(np.array(bad)), whole, huge])


class _Plain(Detector):
    """Returns whatever it is told to; not registered."""

    def __init__(self, result=None, state=None):
        object.__setattr__(self, "result", result)
        object.__setattr__(self, "made", {} if state is None else state)

    def _fit(self, train):
        return self.made

    def _score(self, state, batch):
        return self.result(batch)


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (lambda batch: batch.top_logit[:-1], r"shape \(\d+,\)"),
        (lambda batch: batch.top_logit[:, None], r"shape \(\d+, 1\)"),
        (lambda batch: batch.logits, r"shape \(\d+, 4\)"),
        (lambda batch: 1.0, "float"),
        (lambda batch: list(batch.top_logit), "list"),
    ],
)
def test_scores_are_one_number_per_sample(result, got, outputs):
    fitted = _Plain(result=result).fit(outputs)
    rule = f"_Plain: the result of _score must be an array of one number .*, got {got}"
    for use in (fitted.known, fitted.score):
        with pytest.raises(ValueError, match=rule):
            use(outputs)


@pytest.mark.parametrize(
    ("state", "got"),
    [([1.0], r"\[1.0\]"), ({"a": 1.0}, "float for 'a'"), ({"a": {}}, "dict for 'a'")],
)
def test_a_state_is_named_arrays(state, got, outputs):
    rule = f"_Plain: the result of _fit must be a mapping .*, got {got}. Wrap numbers"
    with pytest.raises(TypeError, match=rule):
        _Plain(state=state).fit(outputs)


def test_parameters_that_saving_would_lose_are_refused(outputs, tmp_path):
    fitted = _Plain(result=lambda batch: batch.top_logit).fit(outputs)
    assert fitted.known(outputs).shape == (len(outputs),)  # of use all the same
    with pytest.raises(TypeError, match=r"fields of a dataclass.* got result, stat"):
        fitted.save(tmp_path / "plain.npz")
    assert not (tmp_path / "plain.npz").exists()


def test_the_contract_is_checked_on_a_class():
    with pytest.raises(TypeError, match="kind must be a class of detectors, or its na"):
        check_detector(MSP())


def test_classes_in_another_order_than_in_fitting_are_refused(outputs):
    def named(*classes):
        return replaced(outputs, classes=classes)

    fitted = MSP().fit(named("a", "b", "c", "d"))
    expected = fitted.known(outputs)  # without names
    assert_array_equal(fitted.known(named("a", "b", "c", "d")), expected)
    rule = "MSP.score: classes of outputs .* got 'c' for class 1, which is 'b' there"
    for use in (fitted.known, fitted.score, fitted.to(outputs.logits).known):
        with pytest.raises(ValueError, match=rule):
            use(named("a", "c", "b", "d"))
