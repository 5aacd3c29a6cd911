"""Any scikit-learn classifier, with an answer for what it does not know."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from openset import Outputs, Rejector, detectors, watch
from openset._types import CalibrationWarning
from openset.integrations import sklearn as integration
from openset.integrations.sklearn import OpenSetClassifier, scorer

CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
NAMES = np.array(["ant", "bee", "cat"])


def blobs(n=90, seed=0):
    return make_blobs(n, centers=CENTRES, cluster_std=1.0, random_state=seed)


def elsewhere(n=30, seed=1):
    """Return samples of no class."""
    return make_blobs(n, centers=[[12.0, 12.0]], random_state=seed)[0]


def by_distance(estimator=None, **options):
    estimator = LogisticRegression() if estimator is None else estimator
    return OpenSetClassifier(estimator, detector="mahalanobis", **options)


def with_unknowns(X, y, others):
    return np.concatenate([X, others]), np.append(y, np.full(len(others), -1))


X, y = blobs()
BOTH, LABELS = with_unknowns(X, y, elsewhere())


@parametrize_with_checks(
    [
        OpenSetClassifier(LogisticRegression()),
        by_distance(GaussianNB(), cv=2),
    ],
    # It wants training samples to get a class.
    expected_failed_checks=lambda _: {"check_classifiers_train": "unknown is none"},
)
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix")
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_auto_is_the_consensus_with_unknowns_and_msp_without():
    X, y = blobs(300)
    both, labels = with_unknowns(X, y, elsewhere())
    model = OpenSetClassifier(LogisticRegression()).fit(both, labels)
    recipe = model.rejector_.fitted.detector
    assert [name for name, _ in recipe.parts] == ["msp", "rmds", "vim", "osnn"]
    assert model.score(both, labels) > 0.9
    assert model.rejector_.report.rates.n_accepted_known > 0.85 * 300
    plain = clone(model).fit(X, y)
    assert plain.rejector_.fitted.detector == detectors.MSP()
    assert plain.threshold_.target == 0.95
    assert 0.03 < (plain.predict(blobs(3000, seed=9)[0]) == -1).mean() < 0.07
    # What a classifier does not give is left out: a head, features.
    forest = OpenSetClassifier(RandomForestClassifier(10, random_state=0))
    parts = forest.fit(both, labels).rejector_.fitted.detector.parts
    assert [name for name, _ in parts] == ["msp", "rmds", "osnn"]
    thin = clone(model).fit(sparse.csr_array(both), labels)
    assert thin.rejector_.fitted.detector == detectors.MSP()


def test_auto_keeps_the_rule_of_choose_for_one_kind():
    """Ranks are among held-out known samples; who ranks upside down is left out."""
    X, y = blobs(120)
    middle = make_blobs(40, centers=[[2.5, 2.5]], random_state=3)[0]
    both, labels = with_unknowns(X, y, middle)
    model = OpenSetClassifier(LogisticRegression(), cv=3).fit(both, labels)
    fitted = model.rejector_.fitted
    names = [name for name, _ in fitted.detector.parts]
    known = np.empty((len(names), 120))
    for seen, others in StratifiedKFold(3).split(X, y):
        inner = LogisticRegression().fit(X[seen], y[seen])
        head = {"weight": inner.coef_, "bias": inner.intercept_}
        train, held_out = (
            Outputs(logits=inner.decision_function(X[rows]), features=X[rows], **more)
            for rows, more in ((seen, {**head, "labels": y[seen]}), (others, {}))
        )
        for i, name in enumerate(names):
            known[i, others] = detectors.make(name).fit(train).known(held_out)
    parts = [detectors.MSP().fit()] * len(names)
    wanted = detectors.combine(parts, reference=known).state["knots"]
    assert_allclose(fitted.state["knots"], wanted)


def test_cautions_are_kept_and_warned_of_once_in_cross_validations(monkeypatch):
    monkeypatch.setattr(integration, "_WARNED_OF", set())  # as in a new process
    model = OpenSetClassifier(LogisticRegression(), cv=2)  # no unknowns: a caution
    with pytest.warns(CalibrationWarning) as said:
        cross_val_score(model, X, y, cv=3)
    assert len(said) == 1
    with pytest.warns(CalibrationWarning, match="CAL010") as said:
        model.fit(X, y)
    assert len(said) == 1
    assert [one.code for one in model.cautions_] == ["CAL010"]
    inside = X[::3] + 0.01  # "unknowns" that lie in the classes
    model = OpenSetClassifier(LogisticRegression(), detector="msp", alpha=0.999)
    with pytest.warns(CalibrationWarning, match="100.0% of the unknown"):
        model.fit(*with_unknowns(X, y, inside))


def test_outputs_of_new_samples_are_for_the_rejector_and_for_watch():
    X, y = load_digits(return_X_y=True)
    # In the folds, and of too few samples, the directions of this step are others.
    step = LinearDiscriminantAnalysis(n_components=5)
    model = OpenSetClassifier(make_pipeline(step, LogisticRegression()))
    model.fit(X[:900:6], np.where(y >= 8, -1, y)[:900:6])
    X, y = X[900:], y[900:]
    new = model.outputs(X, y)
    found = model.rejector_.predict(new)
    assert_array_equal(found, model.predict(X))
    assert set(new.groups[new.labels == -1]) == {"8", "9"}
    guard = watch.Watch.of(model.rejector_)
    for sign, alarm in ((1, False), (-1, True)):
        changed = model.outputs(sign * X[y < 8])
        scores = model.rejector_.score(changed)
        verdict = guard.check(scores, features=changed.features)
        assert verdict.features.is_alarm == alarm


REACT = {"detector": "react"}
REFUSED = {
    "a number where classes are int64": {"unknown_label": "unknown"},
    r"unknown_label must be .* got \[-1\]": {"unknown_label": [-1]},
    "surrogate must be one of 'classes'": {"surrogate": "class"},
    "Expected `cv` as an integer": {"cv": "3"},  # scikit-learn's words
    "objective must be one of": {"objective": "best"},
    "of at_tpr must be one of 'tpr', got 'fpr'": {"objective": "at_tpr:fpr=0.1"},
    "predict_proba, .* got LinearRegression": {"estimator": LinearRegression()},
    "predict_proba, .* got SVC": {"estimator": SVC(decision_function_shape="ovo")},
    "ReAct.fit: outputs must have head": {**REACT, "estimator": GaussianNB()},
    # An SVC has weights of three pairs of its three classes.
    "ReAct.fit: outputs must have hea.": {**REACT, "estimator": SVC(kernel="linear")},
}


@pytest.mark.parametrize("unknowns", [False, True])
@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused_with_unknowns_and_without(words, unknowns):
    X, y = with_unknowns(*blobs(), elsewhere()) if unknowns else blobs()
    model = OpenSetClassifier(**{"estimator": LogisticRegression()} | REFUSED[words])
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(X, y)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(
    ("words", "label", "labels"),
    [
        ("Found array with 0 sample", None, [-1] * 90),  # scikit-learn's words
        ("not supported between instances", None, ["a", -1, "b"] * 30),  # Python's
        ("at least 2 classes", None, ["cat", "unknown"] * 45),
        ("at least 2 classes", "oos", ["cat", "oos"] * 45),
        ("at least 2 classes", -1, [0, -1] * 45),
        ("greater than the number of members in each class", None, range(90)),
    ],
)
def test_labels_that_do_not_fit_are_refused(words, label, labels):
    model = OpenSetClassifier(LogisticRegression(), unknown_label=label)
    y = np.array(labels, dtype=object if -1 in labels and "a" in labels else None)
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(blobs()[0], y)


def test_a_linear_classifier_is_a_head():
    for n_classes in (2, 3):
        for kind in ("react", "fdbd"):
            rows = y < n_classes
            model = OpenSetClassifier(LogisticRegression(), detector=kind)
            model.fit(X[rows], y[rows])
            assert np.isfinite(model.knownness(X)).all()
    pairs = SVC(kernel="linear")  # of two classes there is one pair
    OpenSetClassifier(pairs, detector="react").fit(X[y < 2], y[y < 2])


def test_logits_are_decision_values_or_logarithms_of_probabilities():
    two = OpenSetClassifier(LogisticRegression(), detector="msp").fit(
        X[y < 2], y[y < 2]
    )
    assert_allclose(two.knownness(X), np.abs(two.decision_function(X)))
    model = OpenSetClassifier(GaussianNB(), detector="maxlogit").fit(X, y)
    assert_allclose(model.knownness(X), np.log(model.predict_proba(X).max(axis=1)))
    assert not hasattr(model, "decision_function")
    assert OpenSetClassifier(Perceptron()).fit(X, y).knownness(X).shape == (90,)


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
    model = by_distance(CLASSIFIERS[name], cv=3).fit(X, y)
    assert_array_equal(model.classes_, np.arange(n_classes))
    assert accuracy_score(y, model.predict(X)) > 0.95
    assert_array_equal(model.predict(elsewhere()), -1)
    assert model.knownness(X).min() > model.knownness(elsewhere()).max()


def test_unknown_samples_in_fit_set_the_threshold_and_are_no_class():
    near = make_blobs(30, centers=[[4.0, 4.0]], random_state=2)[0]
    both, labels = with_unknowns(X, y, near)
    model = by_distance().fit(both, labels)
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.threshold_.method == "osa"
    assert model.threshold_.n == (90, 30)
    assert model.score(both, labels) > 0.95  # -1 among the labels: open-set accuracy
    alone = clone(model).fit(X, y)
    assert alone.threshold_.method == "at_tpr"
    assert_allclose(alone.estimator_.coef_, model.estimator_.coef_)


def test_classes_left_out_serve_as_unknowns():
    model = by_distance(surrogate="classes").fit(X, y)
    assert model.threshold_.n == (90, 90)
    assert model.threshold_.method == "osa"
    assert_array_equal(model.predict(elsewhere()), -1)
    with pytest.raises(ValueError, match="None for fewer than three classes"):
        model.fit(X[y < 2], y[y < 2])


def test_names_of_classes_and_of_the_unknown():
    both = np.concatenate([X, elsewhere()])
    labels = np.concatenate([NAMES[y], ["unheard of"] * 30])
    model = by_distance(unknown_label="unheard of").fit(both, labels)
    assert_array_equal(model.classes_, NAMES)
    assert model.score(both, labels) > 0.95
    assert model.rejector_.classes == ("ant", "bee", "cat")
    found = clone(model).fit(X, NAMES[y]).predict(elsewhere())
    assert set(found) == {"unheard of"}
    plain = clone(model).set_params(unknown_label=None).fit(X, NAMES[y].astype(object))
    assert set(plain.predict(elsewhere())) == {"unknown"}


def test_alpha_is_an_option_of_its_own():
    near = make_blobs(60, centers=[[3.0, 3.0]], cluster_std=2, random_state=2)[0]
    both, labels = with_unknowns(X, y, near)
    rejected = []
    for alpha in (0.02, None, 0.98):
        model = OpenSetClassifier(LogisticRegression(), alpha=alpha).fit(both, labels)
        rejected.append((model.predict(both) == -1).mean())
    assert rejected[0] > rejected[1] > rejected[2]


def test_evaluate_counts_every_other_label_as_unknown():
    other = elsewhere()
    model = by_distance().fit(X, NAMES[y])
    fresh, truth = blobs(seed=7)
    both = np.concatenate([fresh, other])
    labels = np.concatenate([NAMES[truth], ["eel"] * 15, ["fox"] * 15])
    found = model.evaluate(both, labels)
    assert (found.scores.n_known, found.scores.n_unknown) == (90, 30)
    decided = model.predict(both)
    is_known = np.isin(labels, NAMES)
    assert found["ccr"] == np.mean(decided[is_known] == labels[is_known])
    assert found["urr"] == np.mean(decided[~is_known] == "unknown")
    assert set(model.scores(both, labels).unknown_groups.names) == {"eel", "fox"}


@pytest.mark.parametrize("key", ["openauc", "osa", "auroc", "fpr_at_tpr"])
def test_scorers_for_scikit_learn(key):
    model = by_distance(GaussianNB(), cv=2).fit(BOTH[::2], LABELS[::2])
    value = model.evaluate(BOTH[1::2], LABELS[1::2])[key]
    sign = -1 if key == "fpr_at_tpr" else 1
    assert scorer(key)(model, BOTH[1::2], LABELS[1::2]) == sign * value
    inside = make_pipeline(StandardScaler(), model)
    found = cross_val_score(inside, BOTH, LABELS, cv=3, scoring=scorer(key))
    assert found.min() > (-0.1 if sign < 0 else 0.9)
    with pytest.raises(ValueError, match="openaucs"):
        scorer("openaucs")


def test_a_class_named_minus_one_cannot_also_be_the_unknown():
    X, y = blobs()
    X, y = X[y < 2], np.where(y[y < 2] == 0, -1, 1)
    model = by_distance(tpr=1.0).fit(X, y)
    assert_array_equal(model.classes_, [-1, 1])
    assert_array_equal(model.predict(X), y)
    with pytest.raises(ValueError, match="unknown_label must be none of the classes"):
        model.predict(elsewhere())
    model.set_params(unknown_label=-2).fit(X, y)
    assert_array_equal(model.predict(elsewhere()), -2)


def test_it_works_in_a_pipeline_and_around_one():
    inside = make_pipeline(StandardScaler(), by_distance()).fit(X, y)
    scaling = make_pipeline(StandardScaler(), LogisticRegression())
    around = by_distance(scaling).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    # Features are the inputs of the last step; the folds' scalers differ a little.
    assert_allclose(around.rejector_.fitted.state["origin"], 0, atol=1e-9)
    assert_allclose(around.knownness(X), inside[-1].knownness(scaled))
    for model in (inside, around):
        assert_array_equal(model.predict(elsewhere()), -1)


def test_a_grid_search_finds_a_detector():
    model = OpenSetClassifier(GaussianNB(), cv=2)
    grid = {"detector": ["msp", "mahalanobis"], "estimator__var_smoothing": [1e-9, 0.1]}
    search = GridSearchCV(model, grid, cv=2).fit(BOTH, LABELS)
    assert search.best_params_["detector"] == "mahalanobis"
    assert search.best_score_ > 0.9


def test_text_and_sparse_inputs_are_passed_through():
    texts = ["ants dig"] * 6 + ["bees fly"] * 6 + ["cats sleep"] * 6
    names = NAMES.repeat(6)
    model = OpenSetClassifier(make_pipeline(CountVectorizer(), LogisticRegression()))
    assert_array_equal(model.fit(texts, names).predict(texts), names)
    plain = OpenSetClassifier(LogisticRegression()).fit(X, y)
    thin = OpenSetClassifier(LogisticRegression()).fit(sparse.csr_array(X), y)
    assert_allclose(thin.knownness(sparse.csr_array(X)), plain.knownness(X))
    needs_features = OpenSetClassifier(LogisticRegression(), detector="postmax")
    with pytest.raises(ValueError, match="must have features"):
        needs_features.fit(sparse.csr_array(X), y)


def test_the_rejector_is_an_artefact_like_any_other(tmp_path):
    model = OpenSetClassifier(LogisticRegression(), detector="msp").fit(X, NAMES[y])
    loaded = Rejector.load(model.rejector_.save(tmp_path / "rejector"))
    logits = model.decision_function(X)
    decided = loaded.predict(Outputs(logits=logits))
    names = np.array([*NAMES, "unknown"])  # -1 takes the last one
    assert_array_equal(names[decided], model.predict(X))


def test_a_class_of_one_sample_is_not_held_out_as_unknown():
    X, y = blobs(31)
    X, y = np.concatenate([X, [[20.0, 0.0]]]), np.concatenate([y, [3]])
    with pytest.warns(UserWarning, match="only 1 members"):  # scikit-learn's words
        model = OpenSetClassifier(LogisticRegression()).fit(X, y)
    assert_array_equal(model.classes_, [0, 1, 2, 3])
    assert model.threshold_.n == (31, 0)
