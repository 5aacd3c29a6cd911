"""`Study`: what is run, read from a YAML file."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from openset import _check, _io, _plugins, detectors, thresholds
from openset.bench.protocols import AnyEntry, Count, Drawn, Part, Unknowns, Whole
from openset.metrics import Metric, get
from openset.selection import need_use_of_logits

PUBLISHED = "published"
"""Name used instead of a detector, for the published score of a training method, and
instead of an objective, for the rule it was published with."""


def _objective(text: str) -> str:
    options = [*thresholds.objectives(), PUBLISHED]
    _check.one_of("calibrate", "objective", text.partition(":")[0], options)
    return text


# Names are looked up when a study is read.
MetricName = Annotated[str, AfterValidator(lambda name: get(name) and name)]


class Recipe(Part):
    """A part with parameters: keys that it does not know are some of them."""

    name: str = ""
    params: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, value: Any) -> Any:
        """Read ``knn``, or ``{name: knn, k: 5, label: five neighbours}``."""
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict) or "params" in value:
            return value
        own = {k: v for k, v in value.items() if k in cls.model_fields}
        return own | {"params": {k: v for k, v in value.items() if k not in own}}


_MLP = {"hidden_layer_sizes": [64], "max_iter": 200, "alpha": 1e-3}
_SHORT: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("sklearn.neural_network.MLPClassifier", _MLP),
    "logistic": ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
}
_RENAMED = {"hidden": "hidden_layer_sizes", "epochs": "max_iter"}


class Model(Recipe):
    """A network of `openset.train`, or a classifier of scikit-learn.

    A network is trained with each of the study's methods. Its parameters are keywords
    of `openset.train.fit`, but for `negatives`: a data set of negatives.
    `together`: how many of them a worker trains at the same time on one device. A
    classifier is an `estimator` by its full name, or `mlp` or `logistic`.
    """

    kind: Literal["network", "sklearn", "mlp", "logistic"]
    estimator: str = ""
    gpus: Annotated[float, Field(ge=0)] = 0
    together: Count = 1

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        if not self.is_network:
            self.classifier()
        return self

    @property
    def is_network(self) -> bool:
        """Whether it is a network of `openset.train`."""
        return self.kind == "network"

    @property
    def title(self) -> str:
        """The name, or that of the class, or the kind of model."""
        return self.name or self.estimator.rpartition(".")[2] or self.kind

    @property
    def negatives(self) -> str:
        """Data set of the negatives; "" for none, or for those of the protocol."""
        return self.params.get("negatives", "") if self.is_network else ""

    def classifier(self) -> Any:
        """Make the classifier of scikit-learn."""
        name, usual = _SHORT.get(self.kind, (self.estimator, {}))
        module, _, kind = name.rpartition(".")
        if module.partition(".")[0] != "sklearn":
            rule = "a classifier of scikit-learn by its full name"
            remedy = "For example sklearn.ensemble.RandomForestClassifier"
            _check.fail("bench", "estimator", rule, repr(name), remedy)
        given = {_RENAMED.get(key, key): one for key, one in self.params.items()}
        return getattr(import_module(module), kind)(**usual | given)


class Component(Recipe):
    """A detector or training method with its parameters."""

    label: str = ""

    @property
    def title(self) -> str:
        """The label, or the name with the parameters that were given."""
        given = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return self.label or (f"{self.name}({given})" if given else self.name)

    def detector(self) -> detectors.Detector | None:
        """Make the detector; None if it is the published score of a method."""
        is_own = self.name == PUBLISHED
        return None if is_own else detectors.make(self.name, **self.params)


Components = Annotated[list[Component], Field(min_length=1)]


class Saved(Part):
    """A folder of saved `Outputs`: train, test, and optionally validation, surrogate.

    Each is a ``.npz`` or a folder of ``.npy`` files; they may have other names.
    `unknown` has more test samples, all of them unknown, whatever their labels. With
    `n_tests` the test samples are divided into that many splits.
    """

    name: str
    path: str
    model: str = "saved"
    method: str = ""
    seed: Whole = 0
    repeat: Whole = 0
    test: str = "test"
    unknown: str = ""
    validation: str = "validation"
    surrogate: str = "surrogate"
    n_tests: Count = 1
    unknowns: Unknowns = "dealt"


Weight = Annotated[float, Field(ge=0, le=1)] | Literal["counts"] | None


class Calibration(Part):
    """How the threshold of a cell is chosen; `alpha_test`: another α to report with.

    `epsilon` has the smallest probability that a detector accepts by its published
    rule, for each number of known classes; without it there is none.
    """

    objective: Annotated[str, AfterValidator(_objective)] = "osa"
    alpha: Weight = None
    alpha_test: Weight = None
    surrogate: Literal["protocol", "none", "mixup", "left-out"] = "protocol"
    epsilon: dict[int, float] = {}

    @property
    def needs_surrogates(self) -> bool:
        """Whether it needs the surrogate classes of the protocol."""
        return self.surrogate == "protocol" and self.objective != PUBLISHED


def _counted(value: Any) -> Any:
    return list(range(value)) if isinstance(value, int) and value > 0 else value


class Study(Part):
    """A study: protocols × models (× training methods) × detectors × seeds.

    Read from a file by :func:`openset.bench.read`, or built in Python. Relative paths
    start at `base`, the folder of the file.
    """

    name: str = ""
    protocols: list[AnyEntry] = []
    models: list[Model] = []
    methods: Annotated[list[Component], Field(min_length=1)] = [
        Component(name="softmax")
    ]
    outputs: list[Saved] = []
    detectors: Annotated[list[Component], Field(min_length=1)]
    seeds: Annotated[list[Whole], BeforeValidator(_counted), Field(min_length=1)] = [0]
    calibrate: Calibration | None = None
    headline: MetricName = "openauc"
    metrics: list[MetricName] = ["openauc", "auroc", "fpr_at_tpr", "accuracy"]
    tuned_on: str | list[str] = []
    claim: Annotated[float, Field(gt=0)] | None = None
    threads: Count = 1
    base: Path = Field(default=Path(), exclude=True)

    @model_validator(mode="after")
    def _has_all_it_needs(self) -> Self:
        for part in ("protocols", "models", "methods", "detectors"):
            titles = [one.title for one in getattr(self, part)]
            if len(set(titles)) < len(titles):
                remedy = "Give a name (detectors and methods: a label)"
                _check.fail("bench", part, "of different names", titles, remedy)
        wanted = self.calibrate or Calibration(surrogate="none")
        for one in self.detectors:  # refused before a network is trained
            if (made := one.detector()) is not None:
                need_use_of_logits("calibrate", made, wanted.surrogate)
                if wanted.objective == PUBLISHED and not made.rejects_by_argmax:
                    no_rule(one.name)
        at = ("threshold", "operational")
        chosen = [row.key for row in self.rows() if row.kind in at]
        if self.calibrate is None and chosen:
            rule = "metrics without a threshold where calibrate is not given"
            _check.fail("bench", "metrics", rule, ", ".join(chosen))
        drawn = [one for one in self.protocols if isinstance(one, Drawn)]
        lacks = any(one.surrogate is None for one in drawn)
        if lacks and wanted.needs_surrogates:
            rule = "one of mixup, left-out, none without surrogate classes"
            remedy = "Or draw some: kind: operational"
            _check.fail("calibrate", "surrogate", rule, "'protocol'", remedy)
        return self

    def rows(self) -> list[Metric]:
        """Return the metrics of the study, the headline first."""
        found = map(get, (self.headline, *self.metrics))
        return list({row.key: row for row in found}.values())


def read(path: str | Path) -> Study:
    """Read a study from a YAML file."""
    path = Path(path)
    with _io.naming(Path(path.name)):
        return parse(path.read_bytes(), base=path.resolve().parent)


def parse(text: str | bytes, base: Path = Path()) -> Study:
    """Read the content of a study file.

    Relative paths and modules in it are resolved relative to `base`.

    Examples
    --------
    >>> made = parse("{outputs: [{name: a, path: b}], detectors: [msp]}")
    >>> made.detectors[0].name, made.seeds
    ('msp', [0])
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    try:
        with _plugins.searching(base.resolve()):
            return Study.model_validate(data).model_copy(update={"base": base})
    except ValidationError as error:  # all of them, without addresses and inputs
        found = ((".".join(map(str, e["loc"])), e["msg"]) for e in error.errors())
        lines = (": ".join(filter(None, one)) for one in found)
        raise ValueError("\n".join(lines).replace("Value error, ", "")) from error


def no_rule(name: str) -> NoReturn:
    """Raise because a detector or method was published without a rule."""
    rule = "an objective that chooses a threshold, such as osa"
    got = f"{PUBLISHED!r}, but {name} was published without a rule to reject by"
    _check.fail("calibrate", "objective", rule, got)
