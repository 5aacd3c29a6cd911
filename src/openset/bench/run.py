"""`run`: run the unfinished cells of a study.

Each network and each cell is named by the hash of its key and written in one step;
that its file exists means that it is finished. So a run can be stopped, resumed,
extended and divided among machines without any other record.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from openset import _backends, _check, _io, datasets, runs
from openset._optional import optional
from openset._progress import bar
from openset.bench import cells, networks, protocols
from openset.bench.networks import Place, Task, grouped
from openset.bench.plan import plan
from openset.bench.study import Study, read
from openset.protocols import Draws


@dataclass(frozen=True)
class Done:
    """Result of a run: numbers of all cells, of those run now, and the failed ones.

    `again` says which code or data changed, for how many of the cells.
    """

    folder: Path
    n_cells: int
    n_run: int
    failed: tuple[dict[str, Any], ...]
    again: str = ""

    def __str__(self) -> str:
        finished = self.n_cells - len(self.failed)
        failed = f", {len(self.failed)} failed" if self.failed else ""
        text = f"{finished} of {self.n_cells} cells in {self.folder}"
        return f"{text} ({self.n_run} run now{failed}){self.again}"


def run(
    study: Study | str | Path,
    out: str | Path,
    *,
    backend: str = "loky",
    jobs: int = -1,
    root: str | Path | None = None,
    shard: tuple[int, int] = (1, 1),
) -> Done:
    """Run a study; cells finished in `out` are not run again.

    Networks come first, each trained once and kept in ``networks/``; then the cells,
    one detector each. A cell that fails is recorded in ``failed/`` and does not stop
    the others. A worker that dies is replaced; its cells are run again, alone, and
    count as failed if it dies again. Cells whose code or data changed since (a plug-in,
    a file, the version of openset) are done again.

    Parameters
    ----------
    study
        A study, or the path of its file.
    out
        The run folder (:mod:`openset.runs`); every worker must have access to it.
    backend
        ``"loky"`` (processes of this machine), ``"ray"`` (a running cluster, that of
        ``RAY_ADDRESS``) or ``"sequential"``.
    jobs
        Number of workers; -1 for all cores of this machine or of the cluster.
    root
        Folder of the data sets; by default `datasets.default_root`.
    shard
        Run only this part of the study: (3, 8) is the third of eight. Shards write to
        the same folder and may run at the same time; a run without `shard` then runs
        what is left and writes the results.

    Examples
    --------
    >>> import tempfile
    >>> from openset.bench import parse
    >>> study = parse('''
    ... protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
    ... models: [{kind: logistic}]
    ... detectors: [msp, energy]''')
    >>> with tempfile.TemporaryDirectory() as out:
    ...     first = run(study, out, backend="sequential")
    ...     again = run(study, out, backend="sequential")
    ...     first.n_run, again.n_run, len(runs.results(out).where(metric="auroc"))
    (2, 0, 2)
    """
    _backends.check(backend, jobs)
    if isinstance(study, Study):
        content = study.model_dump(mode="json", exclude_defaults=True)
        text = yaml.safe_dump(content, sort_keys=False).encode()
    else:
        text, study = Path(study).read_bytes(), read(study)
    base, root = study.base.resolve(), Path(root or datasets.default_root()).resolve()
    place = Place(
        study=study.model_copy(update={"base": base}),
        drawn={one.title: protocols.draw(one, base, root) for one in study.protocols},
        run=Path(out).resolve(),
        root=root,
        here=Path.cwd(),
    )
    every = plan(place.study)
    mine = _part(every, shard)
    with _owned(place.run, shard):
        with _io.locked(place.run / ".lock"):  # other shards may begin as well
            again = _adopt(place, every)
            _io.put(place.run / "study.yaml", text)
        done = runs.finished(place.run)
        left = [task for task in mine if task.id not in done]
        for task in left:
            place.file("failed", task).unlink(missing_ok=True)
        where = {"backend": backend, "jobs": jobs}
        _train(left, place, where)
        able = [task for task in left if not place.file("failed", task).exists()]
        fits = grouped(
            able, lambda task: (place.folder(task.network), task.detector.title)
        )
        _each(cells.make, fits, place, place.is_finished, **where)
        if shard == (1, 1):
            _conclude(place)
    ids = {task.id for task in left}
    failed = tuple(one for one in runs.failures(place.run) if one["id"] in ids)
    return Done(place.run, len(mine), len(left) - len(failed), failed, again)


def _part(every: list[Task], shard: tuple[int, int]) -> list[Task]:
    """Return the cells of one shard: with their networks, so that each has one owner.

    Cells on saved outputs need no network, and are dealt one by one.
    """
    number, n = shard
    if not 1 <= number <= n:
        _check.fail("bench", "shard", "i/n with 1 <= i <= n", f"{number}/{n}")
    units = grouped(every, lambda one: one.id if one.network.saved else one.network.id)
    return list(chain(*units[number - 1 :: n]))


@contextmanager
def _owned(run: Path, shard: tuple[int, int]) -> Iterator[None]:
    """Lock one shard of the run folder, or the whole, against a second run."""
    number, n = shard
    busy = f"bench: {run} is in use by another run. Wait, or choose another --out"
    with _io.locked(run / ".locks" / f"{number}-of-{n}", busy=busy):
        for path in (run / ".locks").glob("*-of-*"):
            if not path.name.endswith(f"-of-{n}"):
                with _io.locked(path, busy=busy):
                    pass
        yield


def _adopt(place: Place, every: list[Task]) -> str:
    """Write the protocols; remove cells whose code or data changed.

    A study may grow. A folder with other cells is refused. Returns what changed.
    """
    planned = {_lasting(task.key): task for task in every}
    old, ids = place.run / "cells", {task.id for task in every}
    found = runs.read_cells(place.run) if old.is_dir() else []
    found = [cell for cell in found if cell.id not in ids]
    n_lost = sum(_lasting(cell.key) not in planned for cell in found)
    if n_lost:
        rule, got = "new or the folder of this study", f"{n_lost} cells of another"
        _check.fail("bench", str(place.run), rule, got, "Choose another --out")
    changed = set()
    for cell in found:
        new, was = planned[_lasting(cell.key)].key["needs"], cell.key["needs"]
        changed |= {name for name, _ in new.items() ^ was.items()}
        for folder in ("calibration", "scores", "cells"):
            for path in (place.run / folder).glob(f"{cell.id}.*"):
                path.unlink(missing_ok=True)  # another shard may do so, too
    drawn = [one for some in place.drawn.values() for one in some]
    if drawn:
        Draws(tuple(drawn)).save(place.run / "protocols.json")
    names = ", ".join(sorted(changed))
    return f", {len(found)} again because of a change of {names}" if found else ""


def _lasting(key: Mapping[str, Any]) -> str:
    """Return the id of a key without what may change from run to run."""
    return runs.identity({n: key[n] for n in key if n != "needs"})


def _train(tasks: list[Task], place: Place, where: Mapping[str, Any]) -> None:
    """Train the networks that cells need; if one fails, so do its cells."""
    missing = [task for task in tasks if not place.is_trained(task)]
    for model in place.study.models:
        mine = [task for task in missing if task.network.model is model]
        if mine and model.gpus and where["backend"] != "ray":
            _need_gpu(model.gpus)
        some, n = grouped(mine, lambda task: task.network.id), model.together
        groups = [list(chain(*some[i : i + n])) for i in range(0, len(some), n)]
        how = {"n_gpus": model.gpus, **where}
        _each(networks.make, groups, place, place.is_trained, **how)


def _need_gpu(gpus: float) -> None:
    """Refuse to train networks on the CPU that ask for a GPU: it would take days."""
    if not optional("torch", "torch").cuda.is_available():
        rule = "0 on a machine where torch finds no GPU"
        remedy = "To train on the CPU all the same, take gpus out of the study file"
        _check.fail("bench", "gpus", rule, f"{gpus:g}", remedy)


def _each(
    make: Callable[[Sequence[Task], Place], None],
    groups: Sequence[Sequence[Task]],
    place: Place,
    is_done: Callable[[Task], bool],
    **where: Any,
) -> None:
    """Call a function for every group; what a process leaves when it dies, failed."""
    if not groups:
        return
    every = _backends.run(make, [(group, place) for group in groups], **where)
    title = make.__module__.rpartition(".")[2]
    for done in bar(every, title, total=len(groups)):
        place.settle([one for one in groups[done.number] if not is_done(one)], done)


def _conclude(place: Place) -> None:
    """Write results.csv, and study.json for the checks and the report."""
    run, study = place.run, place.study
    for path in [*run.rglob(".*.????????")]:  # of a run that was killed while it wrote
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (run / "cells").mkdir(exist_ok=True)
    runs.results(run).save(run / "results.csv")
    rows = study.rows()
    metrics = {row.key: {"label": row.short, "better": row.better} for row in rows}
    said = {"headline": rows[0].key, "metrics": metrics}
    said |= {key: getattr(study, key) for key in ("name", "claim", "tuned_on")}
    document = {key: value for key, value in said.items() if value}
    _io.put(run / "study.json", json.dumps(document, indent=1))
