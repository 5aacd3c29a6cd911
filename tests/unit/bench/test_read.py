"""Study files: what they may say, and errors that point at the key."""

import pytest

from openset import detectors, metrics
from openset.bench import parse, read

HEAD = """
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
models: [{kind: mlp}]
"""


def said(text, name="study.yaml"):
    with pytest.raises((ValueError, TypeError)) as caught:
        parse(text.encode(), name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "detectors: [msp, energy, {name: knn, k: 0}]",
            "study.yaml: detectors[2].k must be an integer >= 1, got 0",
        ),
        (
            "detectors: [{name: knn, q: 0}]",
            "study.yaml: detectors[0].q must be a parameter of knn (k",
        ),
        (
            "detectors: [{name: postmax, fit: x}]",  # an option, not a field
            "study.yaml: detectors[0].fit must be one of",
        ),
        ("detectors: [best]", "study.yaml: detectors[0].name must be one of 'ash'"),
        ("detectors: []", "study.yaml: detectors must have an entry, got []"),
        (
            "detectors: [msp]\nseeds: 0",
            "study.yaml: seeds must be a number >= 1 or a list of seeds, got 0",
        ),
        (
            "detectors: [msp]\nseeds: [3, 0, 3]",
            "study.yaml: seeds[2] must differ from the others, got 3 again",
        ),
        (
            "detectors: [msp]\ncalibrate: {objective: osa}",
            "study.yaml: calibrate.surrogate must be one of 'mixup', "
            "'left-out', 'none', as protocols[0] has no surrogate classes",
        ),
        (
            "detectors: [msp, knn]\ncalibrate: {surrogate: left-out}",
            "study.yaml: surrogate must be unknowns that knn can tell from known",
        ),
        ("seeds: 2", "study.yaml: detectors must be given, got nothing"),
        (
            "detectors: [msp]\nseeds: [-1]",
            "study.yaml: seeds[0] must be greater than or equal to 0, got -1",
        ),
        (
            "detectors: [msp]\ncalibrate: {alpha: 2}",
            "study.yaml: calibrate.alpha must be less than or equal to 1, got 2",
        ),
        (
            "detectors: [msp]\ncalibrate: {objective: best}",
            "study.yaml: calibrate.objective must be one of 'osa'",
        ),
        (
            "detectors: [msp]\nheadline: glory",
            "study.yaml: headline must be one of '",
        ),
        (
            "detectors: [msp]\nmetrics: [auroc, glory]",
            "study.yaml: metrics[1] must be one of",
        ),
        (
            "detectors: [msp]\nheadline: osa",
            "study.yaml: headline must be a metric without a threshold where",
        ),
        ("detectors: [msp]\ncolour: red", "study.yaml: colour must be left out"),
        (
            "detectors: [msp, msp]",
            "study.yaml: detectors[1] must have a unique name, got 'msp' twice",
        ),
        ("detectors: [msp]\ntuned_on: luck", "study.yaml: tuned_on[0] must be one of"),
        (
            "detectors: [msp]\ndetectors: [gen]",
            "detectors must be given once, got a second",
        ),
    ],
)
def test_an_error_points_at_the_key(text, message):
    assert message in said(HEAD + text)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("{kind: holdout, data: digits, known: 6}", "[0].unknown must be given"),
        ("{kind: holdout, data: digit}", "[0].known must be given"),
        ("{kind: lottery}", "[0].kind must be one of 'holdout'"),
        ("{data: digits}", "[0].kind must be one of 'holdout'"),
        (
            "{kind: holdout, data: digit, known: 6, unknown: 4}",
            "[0].data must be one of 'digits'",
        ),
        (
            "{kind: holdout, data: digits, known: six, unknown: 4}",
            "[0].known must be a valid integer, got 'six'",
        ),
        (
            "{kind: holdout, data: digits, known: 6, unknown: 4, validation: 1}",
            "[0].validation must be less than 1, got 1",
        ),
        ("{kind: published, split_of: mnist, splits: [9]}", "[0].splits[0]"),
        (
            "{kind: classes, data: digits, known: all, unknown: all}",
            "[0].unknown must be a list",
        ),
    ],
)
def test_an_error_points_into_a_protocol(protocol, message):
    text = f"protocols: [{protocol}]\nmodels: [{{kind: mlp}}]\ndetectors: [msp]"
    found = said(text)
    assert found.startswith("study.yaml: protocols")
    assert message in found


def test_a_study_may_import_nothing_but_classifiers_of_sklearn():
    head = "protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]\n"
    for name in ("os.system", "sklearn.cluster.KMeans", "sklearn.nothing.At", "RF"):
        text = f"models: [{{kind: sklearn, estimator: {name}}}]\ndetectors: [msp]"
        assert "models[0].estimator must be a classifier" in said(head + text)


def test_parameters_a_classifier_does_not_have_are_refused_before_anything_runs():
    text = (
        "protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]\n"
        "models: [{kind: sklearn, estimator: sklearn.svm.SVC, params: {q: 1}}]\n"
        "detectors: [msp]"
    )
    found = said(text)
    assert found.startswith("study.yaml: models[0]: SVC")
    assert "'q'" in found


def test_a_training_method_that_does_not_exist_is_refused_before_anything_runs():
    pytest.importorskip("torch", reason="names the training methods")
    text = HEAD.replace("mlp", "network") + "detectors: [msp]\nmethods: [sofmax]"
    found = said(text)
    assert found.startswith("study.yaml: methods[0].name must be one of 'softmax'")
    assert "Did you mean 'softmax'?" in found


def test_a_file_that_is_no_table_or_no_yaml_is_named():
    where = "study.yaml: line 1, column 6: while parsing a flow sequence: expected"
    assert said("a: [1").startswith(where)
    assert "study.yaml: the file must be a table of keys, got list" in said("[1, 2]")
    assert "could not determine a constructor" in said("a: !!python/object:os.x {}")
    assert said("a = ", "study.toml").startswith("study.toml: ")


def test_a_study_without_problems_says_what_is_missing():
    assert "protocols must be given" in said("detectors: [msp]")
    text = "protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]\n"
    assert "models must be given" in said(text + "detectors: [msp]")


def test_toml_and_yaml_say_the_same(tmp_path):
    (tmp_path / "a.yaml").write_text(HEAD + "detectors: [{name: knn, k: 5}]\nseeds: 2")
    (tmp_path / "a.toml").write_text(
        'detectors = [{name = "knn", k = 5}]\nseeds = 2\n'
        '[[protocols]]\nkind = "holdout"\ndata = "digits"\nknown = 6\nunknown = 4\n'
        '[[models]]\nkind = "mlp"\n'
    )
    one, other = read(tmp_path / "a.yaml"), read(tmp_path / "a.toml")
    assert one == other
    assert one.base == tmp_path.resolve()
    assert one.seeds == [0, 1]
    assert one.detectors[0].title == "knn(k=5)"


@pytest.mark.parametrize("row", metrics.table(), ids=lambda row: row.key)
def test_a_study_may_name_every_metric_that_is_better_one_way(row):
    text = f"{HEAD}detectors: [msp]\nheadline: {row.key}\n"
    calibrated = f"{text}calibrate: {{surrogate: mixup}}\n"
    if row.better == "neither":
        assert "headline must be one of 'openauc', 'auroc'" in said(calibrated)
        return
    assert parse(calibrated.encode(), "study.yaml").rows()[0] is row
    if row.kind in {"threshold", "operational"}:
        assert "headline must be a metric without a threshold" in said(text)
    else:
        assert parse(text.encode(), "study.yaml").rows()[0] is row


def test_none_is_read_as_the_parameter_allows_it():
    text = "detectors: [{name: postmax, norm: null}, {name: vim, dim: none}]"
    study = parse((HEAD + text).encode(), "study.yaml")
    postmax, vim = (detectors.make(d.name, **d.params) for d in study.detectors)
    assert (postmax.norm, vim.dim) == ("none", None)
