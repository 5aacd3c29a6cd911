"""`Study`: what is run, read from a YAML or TOML file."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from openset import _check, _io, _plugins, detectors, thresholds
from openset.bench.protocols import (
    AnyEntry,
    Count,
    Holdout,
    Outlier,
    Part,
    Unknowns,
    Whole,
)
from openset.metrics import Metric, get
from openset.selection import need_use_of_logits

PUBLISHED = "published"
"""Name used instead of a detector, for the published score of a training method, and
instead of an objective, for the rule it was published with."""


def _objective(name: str) -> str:
    options = [*thresholds.objectives(), PUBLISHED]
    return _check.one_of("calibrate", "objective", name, options)


# Names are looked up when a study is read.
MetricName = Annotated[str, AfterValidator(lambda name: get(name) and name)]


class Model(Part):
    """What every model of a study has."""

    kind: str
    name: str = ""
    gpus: Annotated[float, Field(ge=0)] = 0

    @property
    def title(self) -> str:
        """The name, or the kind of model."""
        return self.name or self.kind


def classifier(name: str) -> Any:
    """Return the scikit-learn classifier of this full name."""
    from sklearn.base import is_classifier  # noqa: PLC0415  # slow to import

    module, _, kind = name.rpartition(".")
    # Only scikit-learn's own: a study file must not import other code.
    is_own = module.partition(".")[0] == "sklearn"
    found = getattr(import_module(module), kind, None) if is_own else None
    if not isinstance(found, type) or not is_classifier(found()):
        remedy = "For example sklearn.ensemble.RandomForestClassifier"
        rule = "a classifier of scikit-learn by its full name"
        _check.fail("bench", "estimator", rule, repr(name), remedy)
    return found


class SklearnModel(Model):
    """A classifier of scikit-learn by its full name, or `mlp` or `logistic`.

    `scale` standardises the columns of tables; pixels are only divided by 255.
    """

    kind: Literal["sklearn"]
    estimator: str
    params: dict[str, Any] = {}
    scale: bool = True

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        classifier(self.estimator)(**self.params)
        return self

    @property
    def title(self) -> str:
        """The name, or that of the class."""
        return self.name or self.estimator.rpartition(".")[2]


_MLP = {"hidden_layer_sizes": [64], "max_iter": 200, "alpha": 1e-3}
_SHORT: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("sklearn.neural_network.MLPClassifier", _MLP),
    "logistic": ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
}
_RENAMED = {"hidden": "hidden_layer_sizes", "epochs": "max_iter"}


def _classifier(value: Any) -> Any:
    """Read ``{kind: mlp, hidden: 8}`` as the classifier of scikit-learn it means."""
    if not isinstance(value, dict) or value.get("kind") not in _SHORT:
        return value
    estimator, params = _SHORT[value["kind"]]
    own = {"kind": "sklearn", "name": value["kind"], "estimator": estimator}
    own |= {k: v for k, v in value.items() if k in {"name", "gpus", "scale"}}
    given = {_RENAMED.get(k, k): v for k, v in value.items() if k not in own}
    return own | {"params": params | given}


class NetworkModel(Model):
    """A network trained by `openset.train` with each of the study's methods.

    `together`: how many of them a worker trains at the same time on one device.
    """

    kind: Literal["network"]
    params: dict[str, Any] = {}
    together: Count = 1

    @property
    def negatives(self) -> str:
        """Data set of the negatives; "" for none, or for those of the protocol."""
        given = self.params.get("negatives", "")
        return "" if given == "protocol" else given

    @property
    def settings(self) -> dict[str, Any]:
        """Keywords of `openset.train.fit`: the parameters, but for the negatives."""
        return {key: value for key, value in self.params.items() if key != "negatives"}


AnyModel = Annotated[
    Annotated[SklearnModel | NetworkModel, Field(discriminator="kind")],
    BeforeValidator(_classifier),
]


def _recipe(value: Any) -> Any:
    """Read ``knn``, or ``{name: knn, k: 5, label: five neighbours}``."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and "params" not in value:
        own = {k: v for k, v in value.items() if k in {"name", "label"}}
        return own | {"params": {k: v for k, v in value.items() if k not in own}}
    return value


class Component(Part):
    """A detector or training method with its parameters."""

    name: str
    label: str = ""
    params: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """The label, or the name with the parameters that were given."""
        given = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return self.label or (f"{self.name}({given})" if given else self.name)


def _made(one: Component) -> Component:
    """Make a detector, which raises an error for wrong names and parameters."""
    if one.name != PUBLISHED:
        detectors.make(one.name, **one.params)
    return one


Given = Annotated[Component, BeforeValidator(_recipe)]


class Saved(Part):
    """A folder of saved `Outputs`: train, test, and optionally validation, surrogate.

    Each is a ``.npz`` or a folder of ``.npy`` files. With `n_tests` the test part is
    divided into that many splits.
    """

    name: str
    path: str
    model: str = "saved"
    method: str = ""
    seed: Whole = 0
    repeat: Whole = 0
    n_tests: Count = 1
    unknowns: Unknowns = "dealt"
    rng: Whole = 0


class Calibration(Part):
    """How the threshold of a cell is chosen."""

    objective: Annotated[str, AfterValidator(_objective)] = "osa"
    alpha: Annotated[float, Field(ge=0, le=1)] | Literal["counts"] | None = None
    surrogate: Literal["protocol", "none", "mixup", "left-out"] = "protocol"
    options: dict[str, Any] = {}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _counted(value: Any) -> Any:
    return list(range(value)) if isinstance(value, int) and value > 0 else value


class Study(Part):
    """A study: protocols × models (× training methods) × detectors × seeds.

    Read from a file by :func:`openset.bench.read`, or built in Python.
    """

    name: str = ""
    protocols: list[AnyEntry] = []
    models: list[AnyModel] = []
    methods: Annotated[list[Given], Field(min_length=1)] = [Component(name="softmax")]
    outputs: list[Saved] = []
    detectors: Annotated[
        list[Annotated[Given, AfterValidator(_made)]], Field(min_length=1)
    ]
    seeds: Annotated[list[Whole], BeforeValidator(_counted), Field(min_length=1)] = [0]
    calibrate: Calibration | None = None
    headline: MetricName = "openauc"
    metrics: list[MetricName] = ["openauc", "auroc", "fpr_at_tpr", "accuracy"]
    tuned_on: Annotated[list[str], BeforeValidator(_listed)] = []
    claim: Annotated[float, Field(gt=0)] | None = None
    threads: Count = 1

    _base: Path = pydantic.PrivateAttr(default_factory=Path)

    @model_validator(mode="after")
    def _has_all_it_needs(self) -> Self:
        for part in ("protocols", "models", "methods", "detectors"):
            titles = [one.title for one in getattr(self, part)]
            if len(set(titles)) < len(titles):
                remedy = "Give a name (detectors and methods: a label)"
                _check.fail("bench", part, "of different names", titles, remedy)
        if not self.outputs and not (self.protocols and self.models):
            rule = "given, or else saved outputs"
            _check.fail("bench", "protocols and models", rule, "none")
        kinds = {row.key: row.kind for row in self.rows()}
        chosen = {
            k for k, kind in kinds.items() if kind in {"threshold", "operational"}
        }
        if self.calibrate is None and chosen:
            rule = "metrics without a threshold where calibrate is not given"
            _check.fail("bench", "metrics", rule, ", ".join(chosen))
        return self

    @model_validator(mode="after")
    def _can_choose_thresholds(self) -> Self:
        wanted = self.calibrate or Calibration(surrogate="none")
        is_by_rule = wanted.objective == PUBLISHED
        for option in wanted.options if is_by_rule else ():
            _check.one_of("calibrate", "options", option, ["epsilon"])
        for one in self.detectors:
            if one.name != PUBLISHED:
                made = detectors.make(one.name, **one.params)
                need_use_of_logits("calibrate", made, wanted.surrogate)
                if is_by_rule and not made.rejects_by_argmax:
                    no_rule(one.name)
            elif not any(isinstance(model, NetworkModel) for model in self.models):
                rule = "a detector where no model is a network"
                _check.fail("bench", "name", rule, "the score of a training method")
        lacks = any(isinstance(one, Holdout | Outlier) for one in self.protocols)
        if lacks and wanted.surrogate == "protocol" and not is_by_rule:
            rule = "one of mixup, left-out, none without surrogate classes"
            remedy = "Or draw some: kind: operational"
            _check.fail("calibrate", "surrogate", rule, "'protocol'", remedy)
        return self

    @property
    def base(self) -> Path:
        """Folder of the study file: relative paths in it start here."""
        return self._base

    def rows(self) -> list[Metric]:
        """Return the metrics of the study, the headline first."""
        found = map(get, (self.headline, *self.metrics))
        return list({row.key: row for row in found}.values())

    def at(self, base: Path) -> Self:
        """Return the same study with another base folder."""
        other = self.model_copy()
        other._base = base
        return other


def read(path: str | Path) -> Study:
    """Read a study from a ``.yaml``, ``.yml`` or ``.toml`` file."""
    path = Path(path)
    return parse(path.read_bytes(), path.name, base=path.resolve().parent)


def parse(text: bytes, name: str, *, base: Path | None = None) -> Study:
    """Read the content of a study file of this name.

    Relative paths and modules in it are resolved relative to `base`.

    Examples
    --------
    >>> made = parse(b"{outputs: [{name: a, path: b}], detectors: [msp]}", "study.yaml")
    >>> made.detectors[0].name, made.seeds
    ('msp', [0])
    """
    with _io.naming(Path(name)):
        try:
            is_toml = name.endswith(".toml")
            data = tomllib.loads(text.decode()) if is_toml else yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
        base = base or Path()
        try:
            with _plugins.searching(base):
                return Study.model_validate(data).at(base)
        except ValidationError as error:  # all of them, without addresses and inputs
            found = ((".".join(map(str, e["loc"])), e["msg"]) for e in error.errors())
            lines = (": ".join(filter(None, one)) for one in found)
            raise ValueError("\n".join(lines).replace("Value error, ", "")) from error


def no_rule(kind: str) -> None:
    """Raise because a method or detector was published without a rule."""
    rule = "an objective that chooses a threshold on calibration data, such as osa"
    got = f"'published', but {kind} was published without a rule for rejecting samples"
    _check.fail("calibrate", "objective", rule, got)
