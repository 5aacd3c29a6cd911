"""`Detector`: what fitting refuses, how a class is registered, what it must return."""

import warnings

import numpy as np
import pytest

from openset import CalibrationWarning, Outputs
from openset.detectors import (
    KNN,
    MSP,
    Combined,
    Detector,
    Energy,
    Mahalanobis,
    ReAct,
    _detector,
    find,
    make,
    names,
)
from openset.detectors import _batch as of_batches
from openset.detectors._finite import are_finite
from openset.testing import check_detector
from openset.testing import example_outputs as split


@pytest.fixture
def outputs():
    return split(50)


def test_a_combination_predicts_classes_if_its_first_part_does():
    assert Mahalanobis().predicts_classes
    assert not KNN().predicts_classes
    assert Combined(parts=["mahalanobis", "knn"]).predicts_classes
    assert not Combined(parts=["knn", "mahalanobis"]).predicts_classes


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

    def fit_state(self, train):
        return self.made

    def score_batch(self, state, batch):
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
    rule = f"result of score_batch must be an array of one number .*, got {got}"
    for use in (fitted.known, fitted.score):
        with pytest.raises(ValueError, match=rule):
            use(outputs)


@pytest.mark.parametrize(
    ("state", "got"),
    [([1.0], r"\[1.0\]"), ({"a": 1.0}, "float for 'a'"), ({"a": {}}, "dict for 'a'")],
)
def test_a_state_is_named_arrays(state, got, outputs):
    rule = (
        f"_Plain: the result of fit_state must be a mapping .*, got {got}. Wrap numbers"
    )
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


@pytest.mark.parametrize(
    ("detector", "remedy"),
    [(MSP(), "MSP().fit().score"), (KNN(k=3), "KNN().fit(train).score")],
)
def test_an_unfitted_detector_says_how_to_score(detector, remedy):
    with pytest.raises(AttributeError) as error:
        detector.score(None)
    assert str(error.value).endswith(f"no attribute 'score'. Fit it first: {remedy}")
    assert not hasattr(detector, "score")


def test_other_missing_attributes_of_a_detector_are_refused_as_usual():
    with pytest.raises(AttributeError, match=r"^'MSP' object has no attribute 'scor'$"):
        MSP().scor  # noqa: B018


def test_the_contract_warns_of_nothing_about_its_own_samples():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        check_detector(MSP)
    assert [one for one in warned if issubclass(one.category, CalibrationWarning)] == []


def test_features_too_large_for_a_covariance_are_named(monkeypatch):
    def diverge(self, train):
        msg = "Eigenvalues did not converge"
        raise np.linalg.LinAlgError(msg)

    monkeypatch.setattr(KNN, "fit_state", diverge)
    train = Outputs(logits=np.eye(3), features=np.eye(3), labels=[0, 1, 2])
    with pytest.raises(ValueError, match=r"KNN\.fit: features must be small enough"):
        KNN(k=1).fit(train)
