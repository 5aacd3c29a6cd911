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
        return f"{self.folder.name}: {self.n_cells} cells{failed}."


def study_text(name: str) -> bytes:
    """Return the study file ``studies/NAME.yaml`` of this package."""
    path = resources.files("openset.reproduce") / "studies" / f"{name}.yaml"
    return path.read_bytes()


def run_study(name: str, settings: Settings, *, folder: str = "study") -> StudyRun:
    """Run a study file of this package in a folder of the item.

    Finished cells are not run again. The study file is copied into the folder: it can
    be run with ``openset bench`` as well.
    """
    from openset import bench  # noqa: PLC0415  # the extra may be missing

    path = settings.out / f"{name}.yaml"
    _io.write(path, lambda stream: stream.write(study_text(name)))
    out = settings.out / folder
    done = bench.run(
        path,
        out,
        backend=settings.backend,
        address=settings.address,
        jobs=settings.jobs,
        root=settings.root,
        watch=settings.watch,
    )
    return StudyRun(out, runs.results(out), done.n_cells, len(done.failed))
