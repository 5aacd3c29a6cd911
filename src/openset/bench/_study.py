"""`Study`: the content of a study file."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)

from openset.metrics import Metric, get

Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Classes = Literal["all"] | list[int | str]
Unknowns = Literal["dealt", "shared"]


class _Part(BaseModel):
    """A part of a study: immutable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _ProtocolEntry(_Part):
    name: str = ""
    validation: Share = 0.0
    max_train: Count | None = None
    max_test: Count | None = None
    folds: Count = 1
    unknowns: Unknowns = "dealt"

    @property
    def recipe(self) -> dict[str, Any]:
        """What determines the samples, without the name."""
        found = self.model_dump(exclude={"name"})
        # If nothing is divided these say nothing: ids of cells stay as they were.
        is_divided = self.folds > 1 or found.get("n_tests", 1) > 1
        return {
            key: value
            for key, value in found.items()
            if is_divided or key not in {"folds", "unknowns", "n_tests"}
        }

    @property
    def title(self) -> str:
        """The name; by default derived from the other keys."""
        return self.name or self._title()

    def _title(self) -> str:
        raise NotImplementedError


class Holdout(_ProtocolEntry):
    """Known and unknown classes drawn from one data set, `repeats` times."""

    kind: Literal["holdout"]
    data: str
    known: Count
    unknown: Count
    repeats: Count = 1
    rng: Annotated[int, Field(ge=0)] = 0

    def _title(self) -> str:
        return f"{self.data} {self.known}/{self.unknown}"


class Outlier(_ProtocolEntry):
    """Known classes of one data set, unknown classes of another."""

    kind: Literal["outlier"]
    data: str
    unknown_data: str
    known: Count | None = None
    unknown: Count | None = None
    repeats: Count = 1
    rng: Annotated[int, Field(ge=0)] = 0

    def _title(self) -> str:
        return f"{self.data} → {self.unknown_data}"


class Operational(_ProtocolEntry):
    """Like `Holdout`, with surrogate classes to choose the threshold on.

    The test part is divided into `n_tests` splits; each is a repeat of its own.
    """

    kind: Literal["operational"]
    data: str
    known: Count
    surrogate: Count
    unknown: Count
    repeats: Count = 1
    rng: Annotated[int, Field(ge=0)] = 0
    validation: Share = 0.2
    n_tests: Count = 5

    def _title(self) -> str:
        return f"{self.data} {self.known}/{self.surrogate}/{self.unknown}"


class PublishedSplits(_ProtocolEntry):
    """Published splits; each is a repeat."""

    kind: Literal["published"]
    split_of: str
    data: str = ""
    unknown_data: str = ""
    splits: Literal["all"] | list[int | str] = "all"

    def _title(self) -> str:
        return self.split_of


class NamedClasses(_ProtocolEntry):
    """Classes by name or number, or "all" of them."""

    kind: Literal["classes"]
    data: str
    known: Classes
    unknown: Classes
    surrogate: list[int | str] = []
    unknown_data: str = ""
    rng: Annotated[int, Field(ge=0)] = 0

    def _title(self) -> str:
        return self.data


class ProtocolFile(_ProtocolEntry):
    """A protocol, or several, in a JSON file."""

    kind: Literal["file"]
    path: str
    data: str
    unknown_data: str = ""
    negative_data: str = ""
    surrogate_data: str = ""

    def _title(self) -> str:
        return Path(self.path).stem


ProtocolEntry = Annotated[
    Holdout | Outlier | Operational | PublishedSplits | NamedClasses | ProtocolFile,
    Field(discriminator="kind"),
]


class _Model(_Part):
    name: str = ""
    gpus: Annotated[float, Field(ge=0)] = 0

    @property
    def title(self) -> str:
        """The name, or the kind of model."""
        return self.name or self.kind  # type: ignore[attr-defined]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, int) else value


class MLPModel(_Model):
    """A small network of scikit-learn; its last hidden layer gives the features.

    `scale` standardises the columns of tables; pixels are only divided by 255.
    """

    kind: Literal["mlp"]
    hidden: Annotated[list[Count], BeforeValidator(_listed), Field(min_length=1)] = [64]
    epochs: Count = 200
    alpha: Annotated[float, Field(ge=0)] = 1e-3
    scale: bool = True


class LogisticModel(_Model):
    """Logistic regression: a linear head on the inputs, which are the features."""

    kind: Literal["logistic"]
    C: Annotated[float, Field(gt=0)] = 1.0
    scale: bool = True


class SklearnModel(_Model):
    """Any classifier of scikit-learn by its full name."""

    kind: Literal["sklearn"]
    estimator: str
    params: dict[str, Any] = {}
    scale: bool = True

    @property
    def title(self) -> str:
        """The name, or that of the class."""
        return self.name or self.estimator.rpartition(".")[2]


NEGATIVES = "negatives"
"""Parameter of a network: the data set of its negatives."""

OWN_NEGATIVES = "protocol"
"""Value of it: the negative classes of the protocol."""


class NetworkModel(_Model):
    """A network trained by `openset.train` with each of the study's methods.

    `together`: how many of them a worker trains at the same time on one device.
    """

    kind: Literal["network"]
    params: dict[str, Any] = {}
    together: Count = 1

    @property
    def negatives(self) -> str:
        """Data set of the negatives; "" for none, or for those of the protocol."""
        given = self.params.get(NEGATIVES, "")
        return "" if given == OWN_NEGATIVES else given

    @property
    def settings(self) -> dict[str, Any]:
        """Keywords of `openset.train.fit`: the parameters, but for the negatives."""
        return {key: self.params[key] for key in self.params if key != NEGATIVES}


Model = Annotated[
    MLPModel | LogisticModel | SklearnModel | NetworkModel, Field(discriminator="kind")
]


DATA_KEYS = ("data", "unknown_data", "negative_data", "surrogate_data")
"""Keys of a protocol entry that name a data set."""

PUBLISHED = "published"
"""Name used instead of a detector, for the published score of a training method, and
instead of an objective, for the rule it was published with."""


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


Given = Annotated[Component, BeforeValidator(_recipe)]


class Saved(_Part):
    """A folder of saved `Outputs`: train, test, and optionally validation, surrogate.

    Each is a ``.npz`` or a folder of ``.npy`` files. With `n_tests` the test part is
    divided into that many splits, each a repeat of its own.
    """

    name: str
    path: str
    model: str = "saved"
    method: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    repeat: Annotated[int, Field(ge=0)] = 0
    n_tests: Count = 1
    unknowns: Unknowns = "dealt"
    rng: Annotated[int, Field(ge=0)] = 0


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
    protocols: list[ProtocolEntry] = []
    models: list[Model] = []
    methods: Annotated[list[Given], Field(min_length=1)] = [Component(name="softmax")]
    outputs: list[Saved] = []
    detectors: Annotated[list[Given], Field(min_length=1)]
    seeds: Annotated[
        list[Annotated[int, Field(ge=0)]],
        BeforeValidator(_counted),
        Field(min_length=1),
    ] = [0]
    calibrate: Calibration | None = None
    headline: str = "openauc"
    metrics: Annotated[list[str], Field(min_length=1)] = [
        "openauc",
        "auroc",
        "fpr_at_tpr",
        "accuracy",
    ]
    tuned_on: list[str] = []
    claim: Annotated[float, Field(gt=0)] | None = None
    threads: Count = 1

    _base: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="before")
    @classmethod
    def _as_lists(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("tuned_on"), str):
            data = data | {"tuned_on": [data["tuned_on"]]}
        return data

    @property
    def base(self) -> Path:
        """Folder of the study file: relative paths in it start here."""
        return self._base

    def rows(self) -> list[Metric]:
        """Return the metrics of the study, the headline first."""
        return [get(name) for name in (self.headline, *self.metrics)]

    def at(self, base: Path) -> Self:
        """Return the same study with another base folder."""
        other = self.model_copy()
        other._base = base
        return other
