"""`Study`: what is run, read from a YAML or TOML file."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from openset import _check, _io, _plugins, datasets, detectors, thresholds
from openset.checks import TUNED_ON
from openset.metrics import Metric, get
from openset.selection import SYNTHETIC_KINDS, need_use_of_logits

Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Classes = Literal["all"] | list[int | str]
Unknowns = Literal["dealt", "shared"]

DATA_KEYS = ("data", "unknown_data", "negative_data", "surrogate_data")
"""Keys of a protocol entry that name a data set."""

PUBLISHED = "published"
"""Name used instead of a detector, for the published score of a training method, and
instead of an objective, for the rule it was published with."""


class _Part(BaseModel):
    """A part of a study: immutable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def recipe(self, *without: str) -> dict[str, Any]:
        """Return what determines the numbers: all but names and where it runs."""
        return self.model_dump(exclude={"name", "label", "gpus", "together", *without})


class Entry(_Part):
    """What every protocol of a study has."""

    usual_title: ClassVar[str] = "{one.data}"
    kind: str
    name: str = ""
    data: str = ""
    unknown_data: str = ""
    validation: Share = 0.0
    max_train: Count | None = None
    max_test: Count | None = None
    folds: Count = 1
    unknowns: Unknowns = "dealt"

    @property
    def title(self) -> str:
        """The name; by default derived from the other keys."""
        return self.name or self.usual_title.format(one=self)


class Drawn(Entry):
    """Classes drawn at random `repeats` times."""

    usual_title = "{one.data} {one.known}/{one.unknown}"
    data: str
    repeats: Count = 1
    rng: Whole = 0


class Holdout(Drawn):
    """Known and unknown classes of one data set."""

    kind: Literal["holdout"]
    known: Count
    unknown: Count


class Outlier(Drawn):
    """Known classes of one data set, unknown classes of another."""

    usual_title = "{one.data} → {one.unknown_data}"
    kind: Literal["outlier"]
    unknown_data: str
    known: Count | None = None
    unknown: Count | None = None


class Operational(Drawn):
    """Like `Holdout`, with surrogate classes to choose the threshold on.

    With `n_tests` the test part is divided into that many splits.
    """

    usual_title = "{one.data} {one.known}/{one.surrogate}/{one.unknown}"
    kind: Literal["operational"]
    known: Count
    surrogate: Count
    unknown: Count
    validation: Share = 0.2
    n_tests: Count = 1


class PublishedSplits(Entry):
    """Published splits; each is a repeat."""

    usual_title = "{one.split_of}"
    kind: Literal["published"]
    split_of: str
    splits: Literal["all"] | list[int | str] = "all"


class NamedClasses(Entry):
    """Classes by name or number, or "all" of them."""

    kind: Literal["classes"]
    data: str
    known: Classes
    unknown: Classes
    surrogate: list[int | str] = []
    rng: Whole = 0


class ProtocolFile(Entry):
    """A protocol, or several, in a JSON file."""

    usual_title = "{one.stem}"
    kind: Literal["file"]
    path: str
    data: str
    negative_data: str = ""
    surrogate_data: str = ""

    @property
    def stem(self) -> str:
        """Name of the file."""
        return Path(self.path).stem


AnyEntry = Annotated[
    Holdout | Outlier | Operational | PublishedSplits | NamedClasses | ProtocolFile,
    Field(discriminator="kind"),
]


class Model(_Part):
    """What every model of a study has."""

    kind: str
    name: str = ""
    gpus: Annotated[float, Field(ge=0)] = 0

    @property
    def title(self) -> str:
        """The name, or the kind of model."""
        return self.name or self.kind


class SklearnModel(Model):
    """Any classifier of scikit-learn by its full name.

    `scale` standardises the columns of tables; pixels are only divided by 255.
    """

    kind: Literal["sklearn"]
    estimator: str
    params: dict[str, Any] = {}
    scale: bool = True

    @property
    def title(self) -> str:
        """The name, or that of the class."""
        return self.name or self.estimator.rpartition(".")[2]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, int | str) else value


class MLPModel(Model):
    """A small network of scikit-learn; its last hidden layer gives the features."""

    estimator: ClassVar[str] = "sklearn.neural_network.MLPClassifier"
    kind: Literal["mlp"]
    hidden: Annotated[list[Count], BeforeValidator(_listed), Field(min_length=1)] = [64]
    epochs: Count = 200
    alpha: Annotated[float, Field(ge=0)] = 1e-3
    scale: bool = True

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the classifier."""
        sizes = {"hidden_layer_sizes": tuple(self.hidden), "max_iter": self.epochs}
        return sizes | {"alpha": self.alpha}


class LogisticModel(Model):
    """Logistic regression: a linear head on the inputs, which are the features."""

    estimator: ClassVar[str] = "sklearn.linear_model.LogisticRegression"
    kind: Literal["logistic"]
    C: Annotated[float, Field(gt=0)] = 1.0
    scale: bool = True

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the classifier."""
        return {"C": self.C, "max_iter": 1000}


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
    MLPModel | LogisticModel | SklearnModel | NetworkModel, Field(discriminator="kind")
]


def _recipe(value: Any) -> Any:
    """Read ``knn``, or ``{name: knn, k: 5, label: five neighbours}``."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and "params" not in value:
        own = {k: v for k, v in value.items() if k in {"name", "label"}}
        return own | {"params": {k: v for k, v in value.items() if k not in own}}
    return value


class Component(_Part):
    """A detector or training method with its parameters."""

    name: str
    label: str = ""
    params: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """The label, or the name with the parameters that were given."""
        given = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return self.label or (f"{self.name}({given})" if given else self.name)

    def recipe(self, *without: str) -> dict[str, Any]:
        """Return what determines the numbers."""
        return self.model_dump(exclude={"label", *without})


Given = Annotated[Component, BeforeValidator(_recipe)]


class Saved(_Part):
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

    @property
    def title(self) -> str:
        """What distinguishes it from others."""
        return f"{self.name}, {self.model}, {self.method}, {self.seed}, {self.repeat}"


class Calibration(_Part):
    """How the threshold of a cell is chosen."""

    objective: str = "osa"
    alpha: Annotated[float, Field(ge=0, le=1)] | Literal["counts"] | None = None
    surrogate: str = "protocol"
    options: dict[str, Any] = {}


def _counted(value: Any) -> Any:
    return list(range(value)) if isinstance(value, int) and value > 0 else value


class Study(_Part):
    """A study: protocols × models (× training methods) × detectors × seeds.

    Read from a file by :func:`openset.bench.read`, or built in Python.
    """

    name: str = ""
    protocols: list[AnyEntry] = []
    models: list[AnyModel] = []
    methods: Annotated[list[Given], Field(min_length=1)] = [Component(name="softmax")]
    outputs: list[Saved] = []
    detectors: Annotated[list[Given], Field(min_length=1)]
    seeds: Annotated[list[Whole], BeforeValidator(_counted), Field(min_length=1)] = [0]
    calibrate: Calibration | None = None
    headline: str = "openauc"
    metrics: list[str] = ["openauc", "auroc", "fpr_at_tpr", "accuracy"]
    tuned_on: Annotated[list[str], BeforeValidator(_listed)] = []
    claim: Annotated[float, Field(gt=0)] | None = None
    threads: Count = 1

    _base: Path = PrivateAttr(default_factory=Path)

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
        study = Study.model_validate(data).at(base or Path())
        check(study)
        return study


def check(study: Study) -> None:
    """Look up every name of a study, before anything runs."""
    if study.calibrate is not None:
        wanted = study.calibrate
        rules = [*thresholds.objectives(), PUBLISHED]
        _check.one_of("calibrate", "objective", wanted.objective, rules)
        kinds = ["protocol", "none", *SYNTHETIC_KINDS]
        _check.one_of("calibrate", "surrogate", wanted.surrogate, kinds)
        for option in wanted.options if wanted.objective == PUBLISHED else ():
            _check.one_of("calibrate", "options", option, ["epsilon"])
    with _plugins.searching(study.base):
        for i, detector in enumerate(study.detectors):
            with noting(f"detectors[{i}]"):
                _check_detector(study, detector)
        for i, model in enumerate(study.models):
            with noting(f"models[{i}]"):
                if isinstance(model, SklearnModel):
                    classifier(model.estimator)(**model.params)
        for i, entry in enumerate(study.protocols):
            with noting(f"protocols[{i}]"):
                _check_entry(study, entry)
        for row in study.rows():
            if study.calibrate is None and row.kind in {"threshold", "operational"}:
                rule = "metrics without a threshold where calibrate is not given"
                _check.fail("bench", "metrics", rule, row.key)
    for origin in study.tuned_on:
        _check.one_of("bench", "tuned_on", origin, TUNED_ON)
    for part in ("protocols", "models", "methods", "detectors", "outputs"):
        titles = [one.title for one in getattr(study, part)]
        if len(set(titles)) < len(titles):
            remedy = "Give a name (detectors and methods: a label)"
            _check.fail("bench", part, "of different names", titles, remedy)
    if not study.outputs and not (study.protocols and study.models):
        rule = "given, or else saved outputs"
        _check.fail("bench", "protocols and models", rule, "none")


def _check_detector(study: Study, one: Component) -> None:
    wanted = study.calibrate
    if one.name == PUBLISHED:
        if not any(isinstance(model, NetworkModel) for model in study.models):
            rule = "a detector where no model is a network"
            _check.fail("bench", "name", rule, "the score of a training method")
        return
    made = detectors.make(one.name, **one.params)
    if wanted is not None:
        need_use_of_logits("calibrate", made, wanted.surrogate)
        if wanted.objective == PUBLISHED and not made.rejects_by_argmax:
            no_rule(one.name)


def _check_entry(study: Study, entry: Entry) -> None:
    for name in data_of(entry):
        if not datasets.is_name(name) and not {".", "/"} & set(name):
            _check.one_of("bench", "data", name, datasets.names())
    wanted, lacks = study.calibrate, isinstance(entry, Holdout | Outlier)
    if wanted is None or wanted.objective == PUBLISHED:
        return
    if wanted.surrogate == "protocol" and (
        lacks or getattr(entry, "surrogate", 1) == []
    ):
        rule = f"one of {', '.join(SYNTHETIC_KINDS)}, none: it has no surrogate classes"
        remedy = "Or draw surrogate classes: kind: operational"
        _check.fail("calibrate", "surrogate", rule, "'protocol'", remedy)


def no_rule(kind: str) -> None:
    """Raise because a method or detector was published without a rule."""
    rule = "an objective that chooses a threshold on calibration data, such as osa"
    got = f"'published', but {kind} was published without a rule for rejecting samples"
    _check.fail("calibrate", "objective", rule, got)


def data_of(entry: Entry) -> list[str]:
    """Return the data sets that an entry names."""
    return [name for key in DATA_KEYS if (name := getattr(entry, key, ""))]


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Say in errors which entry of a study they are about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {place}")
        raise


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
