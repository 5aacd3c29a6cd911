"""Any scikit-learn classifier, with an answer for what it does not know."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from openset import Outputs, Rejector, detectors, thresholds
from openset._types import CalibrationWarning
from openset.integrations.sklearn import OpenSetClassifier, scorer

CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
NAMES = np.array(["ant", "bee", "cat"])


def blobs(n=90, seed=0):
    return make_blobs(n, centers=CENTRES, cluster_std=1.0, random_state=seed)


def elsewhere(n=30, seed=1):
    """Return samples of no class."""
    return make_blobs(n, centers=[[12.0, 12.0]], random_state=seed)[0]


@parametrize_with_checks(
    [
        # tpr=1: some checks want every training sample to get its own class
        OpenSetClassifier(LogisticRegression(), tpr=1.0),
        OpenSetClassifier(GaussianNB(), detector="mahalanobis", cv=2, tpr=1.0),
    ]
)
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix")
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


CLASSIFIERS = {
    "decision values": LogisticRegression(),
    "probabilities": GaussianNB(),
    "forest": RandomForestClassifier(10, random_state=0),
    "machine": SVC(),
    "one against one": CalibratedClassifierCV(SVC(decision_function_shape="ovo"), cv=2),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_classifier_rejects_what_is_far_and_names_the_rest(name, n_classes):
    X, y = blobs()
    X, y = X[y < n_classes], y[y < n_classes]
    model = OpenSetClassifier(CLASSIFIERS[name], detector="mahalanobis", cv=3)
    model.fit(X, y)
    assert_array_equal(model.classes_, np.arange(n_classes))
    assert accuracy_score(y, model.predict(X)) > 0.95
    assert_array_equal(model.predict(elsewhere()), -1)
    assert model.knownness(X).min() > model.knownness(elsewhere()).max()


def test_two_classes_are_scored_by_the_decision_value_on_either_side():
    X, y = blobs()
    X, y = X[y < 2], y[y < 2]
    model = OpenSetClassifier(LogisticRegression(), detector="msp").fit(X, y)
    decided = model.decision_function(X)
    assert decided.shape == (len(X),)
    assert_allclose(model.knownness(X), np.abs(decided))


def test_logarithms_of_probabilities_are_the_logits():
    X, y = blobs()
    model = OpenSetClassifier(GaussianNB(), detector="maxlogit").fit(X, y)
    assert_allclose(model.knownness(X), np.log(model.predict_proba(X).max(axis=1)))
    assert not hasattr(model, "decision_function")


def test_unknown_samples_in_fit_set_the_threshold_and_are_no_class():
    X, y = blobs()
    near = make_blobs(30, centers=[[4.0, 4.0]], random_state=2)[0]
    both, labels = np.concatenate([X, near]), np.concatenate([y, np.full(30, -1)])
    model = OpenSetClassifier(LogisticRegression(), detector="mahalanobis")
    model.fit(both, labels)
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.threshold_.method == "osa"
    assert model.threshold_.n == (90, 30)
    assert model.score(both, labels) > 0.95  # -1 among the labels: open-set accuracy
    alone = clone(model).fit(X, y)
    assert alone.threshold_.method == "at_tpr"
    assert_allclose(alone.estimator_.coef_, model.estimator_.coef_)


def test_held_out_scores_come_from_a_classifier_that_has_not_seen_them():
    X, y = blobs(30)
    model = OpenSetClassifier(LogisticRegression(), cv=3, tpr=0.5).fit(X, y)
    place = np.zeros(30, dtype=int)
    for c in range(3):
        place[y == c] = np.arange(10) % 3
    known = np.empty(30)
    for fold in range(3):
        train = place != fold
        inner = LogisticRegression().fit(X[train], y[train])
        fitted = detectors.MSP().fit(Outputs(logits=inner.decision_function(X[train])))
        held_out = Outputs(logits=inner.decision_function(X[~train]))
        known[~train] = fitted.known(held_out)
    assert model.threshold_.value == pytest.approx(np.sort(known)[15])


def test_tpr_of_one_rejects_no_training_sample():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 3, 60)  # nothing to learn
    for name in ("msp", "energy", "mahalanobis"):
        model = OpenSetClassifier(LogisticRegression(), detector=name, tpr=1.0)
        assert (model.fit(X, y).predict(X) != -1).all()


def test_classes_left_out_serve_as_unknowns():
    X, y = blobs()
    model = OpenSetClassifier(
        LogisticRegression(), detector="mahalanobis", surrogate="classes"
    ).fit(X, y)
    assert model.threshold_.n == (90, 90)
    assert model.threshold_.method == "osa"
    assert_array_equal(model.predict(elsewhere()), -1)
    with pytest.raises(ValueError, match="None for fewer than three classes"):
        model.fit(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="surrogate must be one of 'classes'"):
        model.set_params(surrogate="noise").fit(X, y)


def test_names_of_classes_and_of_the_unknown():
    X, y = blobs()
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([NAMES[y], ["unheard of"] * 30])
    model = OpenSetClassifier(
        LogisticRegression(), detector="mahalanobis", unknown_label="unheard of"
    ).fit(both, labels)
    assert_array_equal(model.classes_, NAMES)
    assert model.score(both, labels) > 0.95
    assert model.rejector_.classes == ("ant", "bee", "cat")
    found = clone(model).fit(X, NAMES[y]).predict(elsewhere())
    assert set(found) == {"unheard of"}
    plain = clone(model).set_params(unknown_label=None).fit(X, NAMES[y].astype(object))
    assert set(plain.predict(elsewhere())) == {"unknown"}


def test_labels_and_the_unknown_label_must_be_of_one_kind():
    X, y = blobs()
    model = OpenSetClassifier(LogisticRegression(), unknown_label="unknown")
    with pytest.raises(ValueError, match="must be a number where classes are int64"):
        model.fit(X, y)
    model = OpenSetClassifier(LogisticRegression())
    with pytest.raises(
        ValueError, match=r"y must be numbers or strings, got dtype bool"
    ):
        model.fit(X, y == 0)
    mixed = NAMES[y].astype(object)
    mixed[:9] = -1
    with pytest.raises(
        TypeError, match="y must be all strings or all numbers, got int "
    ):
        model.fit(X, mixed)
    with pytest.raises(ValueError, match=r"unknown_label must be a label.*got \[-1\]"):
        model.set_params(unknown_label=[-1]).fit(X, y)


@pytest.mark.parametrize("unknowns", [False, True])
@pytest.mark.parametrize(
    ("option", "value"),
    [("tpr", 2.0), ("surrogate", "class"), ("cv", "3"), ("cv", 1), ("cv", [0])],
)
def test_wrong_options_are_refused_with_unknowns_and_without(option, value, unknowns):
    X, y = blobs()
    if unknowns:
        X, y = np.r_[X, elsewhere()], np.r_[y, [-1] * len(elsewhere())]
    model = OpenSetClassifier(LogisticRegression(), **{option: value})
    with pytest.raises(ValueError, match=f"OpenSetClassifier: {option} must be"):
        model.fit(X, y)


def test_labels_that_are_all_unknown_are_refused():
    X, _ = blobs()
    with pytest.raises(
        ValueError, match=r"fit: y must be labels of known .* 90 labels"
    ):
        OpenSetClassifier(LogisticRegression()).fit(X, np.full(90, -1))


@pytest.mark.parametrize("name", ["oos", "Other", "-1"])
def test_a_class_that_may_mean_unknown_is_asked_about(name):
    X, y = blobs()
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([NAMES[y], [name] * 30])
    model = OpenSetClassifier(LogisticRegression(), detector="mahalanobis")
    with pytest.raises(ValueError, match=f"Pass unknown_label={name!r} if"):
        model.fit(both, labels)
    model.set_params(unknown_label=name).fit(both, labels)
    assert_array_equal(model.classes_, NAMES)
    model.set_params(unknown_label="unknown").fit(both, labels)
    assert name in model.classes_


def test_samples_labelled_unknown_are_unknowns_without_an_option():
    X, y = blobs()
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([NAMES[y], ["unknown"] * 30])
    model = OpenSetClassifier(LogisticRegression(), detector="mahalanobis")
    model.fit(both, labels)
    assert_array_equal(model.classes_, NAMES)
    assert model.threshold_.n == (90, 30)
    assert set(model.predict(elsewhere(seed=5))) == {"unknown"}


def test_the_default_rejects_a_twentieth_of_held_out_samples():
    X, y = blobs(600)
    model = OpenSetClassifier(LogisticRegression()).fit(X, y)
    assert model.threshold_.target == 0.95
    assert 0.03 < (model.predict(blobs(3000, seed=9)[0]) == -1).mean() < 0.07


def test_alpha_is_an_option_of_its_own():
    X, y = blobs()
    near = make_blobs(60, centers=[[3.0, 3.0]], cluster_std=2, random_state=2)[0]
    both, labels = np.concatenate([X, near]), np.concatenate([y, np.full(60, -1)])
    rejected = []
    for alpha in (0.02, None, 0.98):
        model = OpenSetClassifier(LogisticRegression(), alpha=alpha).fit(both, labels)
        rejected.append((model.predict(both) == -1).mean())
    assert rejected[0] > rejected[1] > rejected[2]
    with pytest.raises(TypeError, match="for objective='at_fpr', got 'alpha'"):
        model.set_params(objective="at_fpr").fit(both, labels)


def test_a_threshold_that_rejects_nothing_is_warned_of():
    X, y = blobs()
    inside = X[::3] + 0.01  # "unknowns" that lie in the classes
    both, labels = np.concatenate([X, inside]), np.concatenate([y, np.full(30, -1)])
    model = OpenSetClassifier(LogisticRegression(), alpha=0.999)
    with pytest.warns(CalibrationWarning, match="96.7% of the unknown"):
        model.fit(both, labels)


def test_evaluate_counts_every_other_label_as_unknown():
    X, y = blobs()
    other = elsewhere()
    model = OpenSetClassifier(LogisticRegression(), detector="mahalanobis")
    model.fit(X, NAMES[y])
    fresh, truth = blobs(seed=7)
    both = np.concatenate([fresh, other])
    labels = np.concatenate([NAMES[truth], ["eel"] * 15, ["fox"] * 15])
    found = model.evaluate(both, labels)
    assert (found.n_known, found.n_unknown) == (90, 30)
    decided = model.predict(both)
    is_known = np.isin(labels, NAMES)
    assert found["ccr"] == np.mean(decided[is_known] == labels[is_known])
    assert found["urr"] == np.mean(decided[~is_known] == "unknown")
    assert set(model.scores(both, labels).unknown_groups.names) == {"eel", "fox"}


@pytest.mark.parametrize("key", ["openauc", "osa", "auroc", "fpr_at_tpr"])
def test_scorers_for_scikit_learn(key):
    X, y = blobs()
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([y, np.full(30, -1)])
    model = OpenSetClassifier(GaussianNB(), detector="mahalanobis", cv=2)
    model.fit(both[::2], labels[::2])
    value = model.evaluate(both[1::2], labels[1::2])[key]
    sign = -1 if key == "fpr_at_tpr" else 1
    assert scorer(key)(model, both[1::2], labels[1::2]) == sign * value
    inside = make_pipeline(StandardScaler(), model)
    found = cross_val_score(inside, both, labels, cv=3, scoring=scorer(key))
    assert found.min() > (-0.1 if sign < 0 else 0.9)
    with pytest.raises(TypeError, match="estimator must be an OpenSetClassifier"):
        scorer(key)(LogisticRegression().fit(X, y), X, y)
    with pytest.raises(ValueError, match="openaucs"):
        scorer("openaucs")


def test_a_class_named_minus_one_cannot_also_be_the_unknown():
    X, y = blobs()
    X, y = X[y < 2], np.where(y[y < 2] == 0, -1, 1)
    model = OpenSetClassifier(
        LogisticRegression(), detector="mahalanobis", tpr=1.0
    ).fit(X, y)
    assert_array_equal(model.classes_, [-1, 1])
    assert_array_equal(model.predict(X), y)
    with pytest.raises(ValueError, match="unknown_label must be none of the classes"):
        model.predict(elsewhere())
    model.set_params(unknown_label=-2).fit(X, y)
    assert_array_equal(model.predict(elsewhere()), -2)


@pytest.mark.parametrize(
    ("unknown", "label"), [("unknown", None), ("oos", "oos"), (-1, -1)]
)
def test_unknown_samples_and_one_class_are_not_two_classes(unknown, label):
    X, y = blobs()
    X, y = X[y < 2], y[y < 2]
    labels = np.where(y == 0, "cat" if label != -1 else 0, unknown)
    model = OpenSetClassifier(LogisticRegression(), unknown_label=label)
    with pytest.raises(ValueError, match="at least 2 classes"):  # scikit-learn's words
        model.fit(X, labels)


def test_it_works_in_a_pipeline_and_around_one():
    X, y = blobs()
    inside = make_pipeline(
        StandardScaler(),
        OpenSetClassifier(LogisticRegression(), detector="mahalanobis"),
    ).fit(X, y)
    around = OpenSetClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), detector="mahalanobis"
    ).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    # Features are the inputs of the last step; the folds' scalers differ a little.
    assert_allclose(around.rejector_.fitted.state["origin"], 0, atol=1e-9)
    assert_allclose(around.knownness(X), inside[-1].knownness(scaled))
    for model in (inside, around):
        assert_array_equal(model.predict(elsewhere()), -1)


def test_cross_validation_and_grid_search():
    X, y = blobs()
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([y, np.full(30, -1)])
    model = OpenSetClassifier(GaussianNB(), detector="mahalanobis", cv=2)
    assert accuracy_score(labels, cross_val_predict(model, both, labels, cv=3)) > 0.95
    assert cross_val_score(model, both, labels, cv=3).min() > 0.9
    grid = {"detector": ["msp", "mahalanobis"], "estimator__var_smoothing": [1e-9, 0.1]}
    search = GridSearchCV(model, grid, cv=2).fit(both, labels)
    assert search.best_params_["detector"] == "mahalanobis"


def test_a_linear_classifier_is_a_head():
    X, y = blobs()
    for n_classes in (2, 3):
        for kind in ("react", "fdbd"):
            rows = y < n_classes
            model = OpenSetClassifier(LogisticRegression(), detector=kind)
            model.fit(X[rows], y[rows])
            assert np.isfinite(model.knownness(X)).all()
    with pytest.raises(TypeError, match=r"estimator must be linear.*got GaussianNB"):
        OpenSetClassifier(GaussianNB(), detector="react").fit(X, y)


def test_weights_of_pairs_of_classes_are_no_head():
    X, y = blobs()
    machine = SVC(kernel="linear")  # three classes have three pairs
    assert machine.fit(X, y).coef_.shape == (3, X.shape[1])
    with pytest.raises(TypeError, match=r"for detector 'react', got SVC"):
        OpenSetClassifier(machine, detector="react").fit(X, y)
    OpenSetClassifier(machine, detector="react").fit(X[y < 2], y[y < 2])


def test_predictions_are_those_of_the_detector_fitted():
    X, y = blobs()
    model = OpenSetClassifier(LogisticRegression(), detector="mahalanobis").fit(X, y)
    before = model.predict(elsewhere())
    assert_array_equal(model.set_params(detector="msp").predict(elsewhere()), before)


def test_text_and_sparse_inputs_are_passed_through():
    texts = ["ants dig"] * 6 + ["bees fly"] * 6 + ["cats sleep"] * 6
    y = NAMES.repeat(6)
    model = OpenSetClassifier(make_pipeline(CountVectorizer(), LogisticRegression()))
    assert_array_equal(model.fit(texts, y).predict(texts), y)
    X, y = blobs()
    plain = OpenSetClassifier(LogisticRegression()).fit(X, y)
    thin = OpenSetClassifier(LogisticRegression()).fit(sparse.csr_array(X), y)
    assert_allclose(thin.knownness(sparse.csr_array(X)), plain.knownness(X))
    with pytest.raises(TypeError, match="dense for a detector that needs features"):
        OpenSetClassifier(LogisticRegression(), detector="postmax").fit(
            sparse.csr_array(X), y
        )


def test_objectives_by_name_with_options_and_by_function():
    X, y = blobs()
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([y, np.full(30, -1)])
    model = OpenSetClassifier(
        LogisticRegression(), objective="at_fpr", objective_params={"fpr": 0.2}
    ).fit(both, labels)
    assert (model.threshold_.method, model.threshold_.target) == ("at_fpr", 0.2)
    model.set_params(objective=lambda s: thresholds.at_tpr(s, 0.7), objective_params={})
    assert model.fit(X, y).threshold_.target == 0.7
    model.set_params(objective="at_tpr", objective_params={"tpr": 0.8})
    assert model.fit(X, y).threshold_.target == 0.8
    with pytest.raises(ValueError, match=r"objective must be one of .*'osa'"):
        model.set_params(objective="best").fit(both, labels)


@pytest.mark.parametrize("unknowns", [0, 30])
def test_wrong_objectives_and_options_are_refused_with_unknowns_and_without(unknowns):
    X, y = blobs()
    X = np.concatenate([X, elsewhere()[:unknowns]])
    y = np.concatenate([y, np.full(unknowns, -1)])
    model = OpenSetClassifier(LogisticRegression(), objective_params={"fpr": 0.1})
    with pytest.raises(
        TypeError, match=r"one of alpha, .* for objective='osa', got 'f"
    ):
        model.fit(X, y)
    with pytest.raises(ValueError, match="objective must be one of"):
        model.set_params(objective="best").fit(X, y)
    model.set_params(objective="osa", objective_params={"alpha": 0.5}).fit(X, y)


def test_the_rejector_is_an_artefact_like_any_other(tmp_path):
    X, y = blobs()
    model = OpenSetClassifier(LogisticRegression(), detector="msp").fit(X, NAMES[y])
    loaded = Rejector.load(model.rejector_.save(tmp_path / "rejector"))
    logits = model.decision_function(X)
    decided = loaded.predict(Outputs(logits=logits))
    names = np.array([*NAMES, "unknown"])  # -1 takes the last one
    assert_array_equal(names[decided], model.predict(X))


def test_a_class_of_one_sample_stays_in_every_fit():
    X, y = blobs(31)
    X, y = np.concatenate([X, [[20.0, 0.0]]]), np.concatenate([y, [3]])
    model = OpenSetClassifier(LogisticRegression()).fit(X, y)
    assert_array_equal(model.classes_, [0, 1, 2, 3])
    assert model.threshold_.n.known == 31
    with pytest.raises(ValueError, match="1 sample of each of 3 classes"):
        model.fit(CENTRES, [0, 1, 2])


def test_a_splitter_may_be_given():
    X, y = blobs()
    splitter = StratifiedKFold(4, shuffle=True, random_state=0)
    model = OpenSetClassifier(LogisticRegression(), cv=splitter).fit(X, y)
    assert model.threshold_.n.known == 90

    class ByClass:
        def split(self, X, y):
            yield np.flatnonzero(y != 0), np.flatnonzero(y == 0)

    with pytest.raises(ValueError, match=r"samples of every class .* with 2 of 3"):
        OpenSetClassifier(LogisticRegression(), cv=ByClass()).fit(X, y)
    with pytest.raises(ValueError, match="cv must be an integer >= 2, got 1"):
        OpenSetClassifier(LogisticRegression(), cv=1).fit(X, y)


def test_a_classifier_without_scores_is_named():
    X, y = blobs()
    one_against_one = SVC(decision_function_shape="ovo")
    with pytest.raises(TypeError, match="must be a classifier with predict_proba"):
        OpenSetClassifier(one_against_one).fit(X, y)
    with pytest.raises(TypeError, match="must be a classifier, got LinearRegression"):
        OpenSetClassifier(LinearRegression()).fit(X, y)
    assert OpenSetClassifier(Perceptron()).fit(X, y).knownness(X).shape == (90,)
