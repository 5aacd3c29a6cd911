"""The runs of a report: their numbers, and where their scores were saved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openset import runs
from openset._types import ArtefactError
from openset.magnitudes import FeatureMagnitudes
from openset.report._headings import Headings
from openset.scores import Scores
from openset.thresholds import Threshold

HEADLINE = "openauc"


@dataclass(frozen=True)
class Value:
    """A measured number with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One cell: one run of a method on a protocol."""

    method: str
    family: str = ""  # the method without its parameters
    trained: str = ""  # how the network was trained, without the detector
    protocol: str = ""
    repeat: tuple[int, int] = (0, 0)  # of the draw, and of the training: the seed
    split: int = 0  # of the test samples of one network
    values: Mapping[str, Value]
    n: int = 0
    scores_path: Path | None = None
    calibration_path: Path | None = None
    threshold: Threshold | float | None = None
    operation: Mapping[str, Any] | None = None
    classes: tuple[str, ...] = ()
    curve: Sequence[Mapping[str, Any]] | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    network: tuple[str, str] = ("", "")  # model and training method
    read: Callable[[Path], Scores] = runs.read_scores

    @property
    def place(self) -> tuple[str, int, int, int]:
        """Which run it is, as :mod:`openset.stats` counts runs."""
        return (self.protocol, self.repeat[0], self.split, self.repeat[1])

    @property
    def has_scores(self) -> bool:
        """Whether its test scores were saved."""
        return self.scores_path is not None and self.scores_path.exists()

    @property
    def alpha(self) -> float | None:
        """The α with which its operation was reported, if any."""
        done = self.operation or {}
        found = done.get("alpha_test", done.get("alpha"))
        return None if found is None else float(found)

    def scores(self) -> Scores:
        """Read its test scores."""
        if self.scores_path is None:
            msg = f"report: {self.method} must have scores, got none"
            raise ArtefactError(msg)
        return self.read(self.scores_path)

    def calibration(self) -> Scores | None:
        """Read the scores its threshold was chosen on, if they were saved."""
        path = self.calibration_path
        if path is None or not path.exists():
            return None
        return self.read(path)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportData:
    """All runs of a study, with its title, headings and findings."""

    title: str
    runs: tuple[Run, ...]
    headline: str = HEADLINE
    headings: Headings = field(default_factory=Headings)
    n_failed: int = 0
    folder: Path | None = None

    def magnitudes(self, run: Run) -> FeatureMagnitudes | None:
        """Return the feature magnitudes of a run's network, if they were saved.

        If there are several (draws, seeds), those of the first.
        """
        found = []
        for path in self._magnitude_files:
            one, key = FeatureMagnitudes.load(path)
            whose = tuple(key.get(name) for name in ("protocol", "model", "method"))
            if whose == (run.protocol, *run.network):
                found.append(((key.get("repeat", 0), key.get("seed", 0)), one))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    @property
    def _magnitude_files(self) -> list[Path]:
        folder = self.folder
        return [] if folder is None else sorted(folder.glob("magnitudes/*.npz"))
