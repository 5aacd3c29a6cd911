"""Items that are studies: a file of this package, run by `openset.bench`."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from openset import _io, runs
from openset.reproduce._item import Settings
from openset.results import Results


@dataclass(frozen=True, eq=False)
class StudyRun:
    """A finished study: its folder, its results, and how many cells failed."""

    folder: Path
    results: Results
    n_cells: int
    n_failed: int

    @property
    def note(self) -> str:
        """A sentence about the cells, for the page."""
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        return f"{self.n_cells} cells{failed}; study file and all cells: study/."


def study_text(name: str) -> bytes:
    """Return the study file ``studies/NAME.yaml`` of this package."""
    path = resources.files("openset.reproduce") / "studies" / f"{name}.yaml"
    return path.read_bytes()


def run_study(name: str, settings: Settings) -> StudyRun:
    """Run a study file of this package in the folder ``study`` of an item.

    Finished cells are not run again. The study file is copied into the folder: it can
    be run with ``openset bench`` as well.
    """
    from openset import bench  # noqa: PLC0415  # the extra may be missing

    path = settings.out / f"{name}.yaml"
    _io.write(path, lambda stream: stream.write(study_text(name)))
    folder = settings.out / "study"
    done = bench.run(
        path,
        folder,
        backend=settings.backend,
        address=settings.address,
        jobs=settings.jobs,
        root=settings.root,
        watch=settings.watch,
    )
    return StudyRun(folder, runs.results(folder), done.n_cells, len(done.failed))
