"""Check all names in a study before anything runs; errors name the key."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from openset import (
    _check,
    _plugins,
    datasets,
    detectors,
    metrics,
    protocols,
    thresholds,
)
from openset.bench._protocols import has_negatives
from openset.bench._study import (
    DATA_KEYS,
    NEGATIVES,
    OWN_NEGATIVES,
    PUBLISHED,
    Holdout,
    NamedClasses,
    NetworkModel,
    Outlier,
    ProtocolEntry,
    PublishedSplits,
    SklearnModel,
    Study,
)
from openset.checks import TUNED_ON
from openset.detectors import Detector
from openset.selection import SYNTHETIC_KINDS, need_use_of_logits


def check(study: Study, name: str) -> None:
    """Check all names in a study before anything runs."""
    with _plugins.searching(study.base):
        _check_parts(study, name)


def _check_parts(study: Study, name: str) -> None:
    for i, entry in enumerate(study.protocols):
        _check_protocol(name, f"protocols[{i}]", entry)
    for i, model in enumerate(study.models):
        if isinstance(model, SklearnModel):
            with _pointing(name, f"models[{i}]"):
                classifier(model.estimator)(**model.params)
    _check_methods(name, study)
    for i, detector in enumerate(study.detectors):
        if detector.name == PUBLISHED:
            _check_published(name, f"detectors[{i}]", study)
        else:
            path = f"detectors[{i}]"
            made = _check_detector(name, path, detector.name, detector.params)
            if study.calibrate is not None:
                need_use_of_logits(name, made, study.calibrate.surrogate)
    for part in ("protocols", "models", "methods", "detectors"):
        _check_titles(name, part, [entry.title for entry in getattr(study, part)])
    _check_seeds(name, study)
    saved = [(s.name, s.model, s.method, s.seed, s.repeat) for s in study.outputs]
    _check_titles(name, "outputs", saved)
    _check_n_tests(name, study)
    for i, metric in enumerate([study.headline, *study.metrics]):
        _check_metric(name, f"metrics[{i - 1}]" if i else "headline", metric, study)
    for i, origin in enumerate(study.tuned_on):
        _check.one_of(name, f"tuned_on[{i}]", origin, TUNED_ON)
    _check_calibrate(name, study)
    if not study.outputs and not (study.protocols and study.models):
        missing = "models" if study.protocols else "protocols"
        msg = f"{name}: {missing} must be given, got none. Or give saved outputs"
        raise ValueError(msg)


def _check_metric(name: str, key: str, metric: str, study: Study) -> None:
    row = metrics.get(metric, caller=name, argument=key)
    if row.better == "neither":
        options = [row.key for row in metrics.table() if row.better != "neither"]
        _check.one_of(name, key, metric, options)
    if study.calibrate is None and row.kind in {"threshold", "operational"}:
        rule = "a metric without a threshold where calibrate is not given"
        msg = _check.must(rule, caller=name, name=key, got=repr(metric))
        raise ValueError(msg)


def _check_protocol(name: str, path: str, entry: ProtocolEntry) -> None:
    if isinstance(entry, PublishedSplits):
        _check.one_of(name, f"{path}.split_of", entry.split_of, protocols.names())
        if entry.splits != "all":
            for i, split in enumerate(entry.splits):
                with _pointing(name, f"{path}.splits[{i}]"):
                    protocols.published(entry.split_of, split)
    elif (
        isinstance(entry, NamedClasses)
        and entry.known == entry.unknown == "all"
        and not entry.unknown_data
    ):
        msg = (
            f"{name}: {path}.unknown must be a list of classes, or from another "
            "data set (unknown_data), if known is 'all', got 'all'"
        )
        raise ValueError(msg)
    if entry.folds > 1 and getattr(entry, "surrogate", None):
        msg = (
            f"{name}: {path}.folds must be 1 for a protocol with surrogate classes, "
            f"got {entry.folds}"
        )
        raise ValueError(msg)
    is_divided = entry.folds > 1 or getattr(entry, "n_tests", 1) > 1
    if not is_divided and entry.unknowns != "dealt":
        msg = (
            f"{name}: {path}.unknowns must be left out without folds or test splits, "
            f"got {entry.unknowns!r}"
        )
        raise ValueError(msg)
    for key in DATA_KEYS:
        _check_data(name, f"{path}.{key}", getattr(entry, key, ""))


def _check_data(name: str, path: str, value: str) -> None:
    is_path = "." in value or "/" in value
    if value and not datasets.is_name(value) and not is_path:
        _check.one_of(name, path, value, datasets.names())


def _check_detector(
    name: str, path: str, kind: str, params: dict[str, Any]
) -> Detector:
    with _pointing(name, path):
        detectors.find(kind)
    known = detectors.options(kind)
    for key, value in params.items():
        if key not in known:
            have = ", ".join(known) or "none"
            msg = (
                f"{name}: {path}.{key} must be a parameter of {kind} ({have}), got "
                f"{value!r}"
            )
            raise ValueError(msg)
    with _pointing(name, path):
        return detectors.make(kind, **params)


def _check_methods(name: str, study: Study) -> None:
    if not any(isinstance(model, NetworkModel) for model in study.models):
        return
    _check_negatives(name, study)
    try:
        train = import_module("openset.train")
    except ImportError:
        return  # plans work without torch; running the study reports what is missing
    by_rule = study.calibrate is not None and study.calibrate.objective == PUBLISHED
    by_rule = by_rule and any(one.name == PUBLISHED for one in study.detectors)
    kinds = []
    for i, method in enumerate(study.methods):
        path = f"methods[{i}].name"
        kind = train.methods.find(method.name, caller=name, argument=path)
        if by_rule and not _has_rule(kind):
            raise ValueError(no_rule(name, "calibrate.objective", kind.name))
        kinds.append(kind)
    takers = [one for one in kinds if issubclass(one, train.methods.WithNegatives)]
    _check_use_of_negatives(name, study, takers)


def _networks(study: Study) -> Iterable[tuple[str, NetworkModel]]:
    """Return the networks, each with the path of its negatives in the file."""
    for i, model in enumerate(study.models):
        if isinstance(model, NetworkModel):
            yield f"models[{i}].params.{NEGATIVES}", model


def _check_negatives(name: str, study: Study) -> None:
    """Check the data sets of negatives, and that protocols go with them."""
    for path, model in _networks(study):
        if NEGATIVES not in model.params:
            continue
        given = model.params[NEGATIVES]
        if not isinstance(given, str) or not given:
            rule = f"{OWN_NEGATIVES!r}, or the name or path of a data set"
            msg = _check.must(rule, caller=name, name=path, got=repr(given))
            raise ValueError(msg)
        _check_data(name, path, model.negatives)
        for i, entry in enumerate(study.protocols):
            there = has_negatives(entry, study.base)
            rule = ""
            if entry.folds > 1:
                rule = f"left out, as protocols[{i}] has folds"
            elif not model.negatives and False in there:
                rule = f"a data set, as protocols[{i}] has no negative classes"
            elif model.negatives and True in there:
                rule = f"{OWN_NEGATIVES!r}, as protocols[{i}] has negative classes"
            if rule:
                msg = _check.must(rule, caller=name, name=path, got=repr(given))
                raise ValueError(msg)


def _check_use_of_negatives(name: str, study: Study, takers: list[Any]) -> None:
    """Check that negatives are used if given, and given if needed.

    `takers` are those of the study's methods that are trained with negatives.
    """
    needing = [one.name for one in takers if one.needs_negatives]
    for path, model in _networks(study):
        if NEGATIVES in model.params:
            if not takers:
                rule = "left out, as no method of the study trains with negatives"
                got = repr(model.params[NEGATIVES])
                raise ValueError(_check.must(rule, caller=name, name=path, got=got))
            continue
        for i, entry in enumerate(study.protocols) if needing else ():
            if False in has_negatives(entry, study.base):
                msg = _check.must(
                    f"given for the method {needing[0]!r}",
                    caller=name,
                    name=path,
                    got=f"none, and protocols[{i}] has no negative classes",
                    remedy="Name a data set without samples of the known classes",
                )
                raise ValueError(msg)


def _has_rule(kind: Any) -> bool:
    two = np.array([[0.8, 0.2]])
    return kind.published_margin(two, np.array([0.5])) is not None


def _check_published(name: str, path: str, study: Study) -> None:
    if not any(isinstance(model, NetworkModel) for model in study.models):
        msg = (
            f"{name}: {path} must be a detector where no model is of kind network, "
            f"got {PUBLISHED!r}, the score of a training method"
        )
        raise ValueError(msg)
    wanted = study.calibrate
    if wanted is not None and wanted.surrogate in SYNTHETIC_KINDS:
        msg = (
            f"{name}: calibrate.surrogate must be 'protocol' or 'none' with the "
            f"detector {PUBLISHED!r}, got {wanted.surrogate!r}. Synthetic features "
            "did not pass through a network"
        )
        raise ValueError(msg)


def _check_seeds(name: str, study: Study) -> None:
    for i, seed in enumerate(study.seeds):
        if seed in study.seeds[:i]:
            msg = f"{name}: seeds[{i}] must differ from the others, got {seed} again"
            raise ValueError(msg)


def _check_calibrate(name: str, study: Study) -> None:
    if study.calibrate is None:
        return
    kinds = ["protocol", "none", *SYNTHETIC_KINDS]
    objective, surrogate = study.calibrate.objective, study.calibrate.surrogate
    if objective == PUBLISHED:
        _check_published_rule(name, study)
        return
    options = [*thresholds.objectives(), PUBLISHED]
    _check.one_of(name, "calibrate.objective", objective, options)
    _check.one_of(name, "calibrate.surrogate", surrogate, kinds)
    if surrogate != "protocol":
        return
    for i, entry in enumerate(study.protocols):
        if isinstance(entry, Holdout | Outlier | PublishedSplits) or (
            isinstance(entry, NamedClasses) and not entry.surrogate
        ):
            made_up = ", ".join(map(repr, SYNTHETIC_KINDS))
            msg = (
                f"{name}: calibrate.surrogate must be one of {made_up}, 'none', as "
                f"protocols[{i}] has no surrogate classes, got 'protocol'. Or draw "
                "surrogate classes: kind: operational"
            )
            raise ValueError(msg)


def _check_n_tests(name: str, study: Study) -> None:
    """Test splits are numbered as repeats: all outputs of one name have as many."""
    first: dict[str, int] = {}
    for i, one in enumerate(study.outputs):
        n = first.setdefault(one.name, one.n_tests)
        if one.n_tests != n:
            msg = (
                f"{name}: outputs[{i}].n_tests must be {n}, as in the other outputs "
                f"named {one.name!r}, got {one.n_tests}"
            )
            raise ValueError(msg)


def _check_published_rule(name: str, study: Study) -> None:
    """Check a study in which samples are rejected by published rules."""
    for detector in study.detectors:
        is_method = detector.name == PUBLISHED
        if not is_method and not detectors.find(detector.name).rejects_by_argmax:
            raise ValueError(no_rule(name, "calibrate.objective", detector.name))
    assert study.calibrate is not None  # noqa: S101  # for mypy
    for option in study.calibrate.options:
        _check.one_of(name, "calibrate.options", option, ["epsilon"])
    if study.calibrate.alpha is not None:
        rule = "left out with the objective 'published'"
        got = study.calibrate.alpha
        raise ValueError(
            _check.must(rule, caller=name, name="calibrate.alpha", got=got)
        )
    for i, metric in enumerate([study.headline, *study.metrics]):
        if metrics.get(metric).kind == "operational":
            key = f"metrics[{i - 1}]" if i else "headline"
            rule = "a metric without calibration data where the rule is published"
            raise ValueError(_check.must(rule, caller=name, name=key, got=repr(metric)))


def no_rule(caller: str, name: str, kind: str) -> str:
    """Raise because a method or detector was published without a rule."""
    return _check.must(
        "an objective that chooses a threshold on calibration data",
        caller=caller,
        name=name,
        got=f"'published', but {kind} was published without a rule for rejecting "
        "samples",
        remedy="For example: osa",
    )


def _check_titles(name: str, part: str, titles: list[Any]) -> None:
    for i, title in enumerate(titles):
        if title in titles[:i]:
            msg = (
                f"{name}: {part}[{i}] must have a unique name, got {title!r} twice. "
                "Give it a name (detectors and methods: a label)"
            )
            raise ValueError(msg)


@contextmanager
def _pointing(name: str, path: str) -> Iterator[None]:
    """Turn ``KNN: k must be ...`` into ``study.yaml: detectors[2].k must be ...``."""
    try:
        yield
    except (ValueError, TypeError, ImportError) as error:
        caller, _, rest = str(error).partition(": ")
        rest = rest if rest and " " not in caller else str(error)
        is_key = rest.split(" ")[0].isidentifier() and " must be" in rest
        msg = f"{name}: {path}{'.' if is_key else ': '}{rest}"
        raise ValueError(msg) from error


def classifier(name: str) -> type:
    """Return the scikit-learn classifier of this full name."""
    from sklearn.base import is_classifier  # noqa: PLC0415  # slow to import

    module, _, kind = name.rpartition(".")
    # Only scikit-learn's own: a study file must not import other code.
    found = None
    if module == "sklearn" or module.startswith("sklearn."):
        try:
            found = getattr(import_module(module), kind, None)
        except ImportError:
            found = None
    if not isinstance(found, type) or not is_classifier(found()):
        msg = _check.must(
            "a classifier of scikit-learn by its full name",
            caller="bench",
            name="estimator",
            got=repr(name),
            remedy="For example sklearn.ensemble.RandomForestClassifier",
        )
        raise ValueError(msg)
    return found
