"""`run`: do a job for every shard of a folder or object store; resumable by shard."""

import json
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from openset import _backends, _check, _io
from openset._optional import optional
from openset._progress import bar
from openset._types import ArtefactError
from openset.outputs import is_outputs

ENDINGS = (".npz", ".parquet", "")
"""Of shards with outputs; "" stands for a folder of ``.npy`` files."""

_LIKE_SHARDS = {".npz", ".parquet", ".npy", ".pq", ".parq"}
_JOB = "job.json"


class Job(Hashable, Protocol):
    """What is done with a shard; it is sent to workers, so it has plain values only."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the results depend on, as JSON values."""

    def files(self, name: str) -> list[str]:
        """Return the names of the result files of a shard."""

    def load(self) -> Any:
        """Load what is needed, once per worker."""

    def do(self, loaded: Any, shard: Path, results: list[Path]) -> int:
        """Write each result in one step; return how many samples are invalid."""


@dataclass(frozen=True)
class Done:
    """Result of a run: numbers of all shards, of those done now, and what failed.

    `failed` has the errors, with their tracebacks, and `invalid` the number of invalid
    samples of the shards done now that have some, both by the name of the shard.
    """

    folder: str
    n_shards: int
    n_run: int
    failed: Mapping[str, str]
    invalid: Mapping[str, int]

    def __str__(self) -> str:
        n, failed = len(self.failed), f", {len(self.failed)} failed" * bool(self.failed)
        done = f"{self.n_shards - n} of {self.n_shards} shards in {self.folder}"
        return f"{done} ({self.n_run} run now{failed})"


def run(
    job: Job,
    shards: Mapping[str, str] | str | Path,
    out: str | Path,
    *,
    backend: str = "loky",
    jobs: int = -1,
    n_gpus: float = 0,
) -> Done:
    """Do a job for every shard whose files are not in `out` yet.

    A shard that cannot be done stops no other, and is tried again by the next run. If a
    worker or node dies, only its current shard is lost, and another one does it. In
    folders of this machine, a shard that was changed since is done again.

    Parameters
    ----------
    job
        What to do: :class:`Predict`, :class:`Score`, or your own class.
    shards
        The folder of the shards, or what :func:`find` returned.
    out
        Folder of the results, or a URL such as ``s3://bucket/results``; every worker
        must have access to it and to the shards.
    backend
        ``"loky"`` (processes of this machine), ``"ray"`` (a running cluster) or
        ``"sequential"``.
    jobs
        Number of workers; -1 for all cores of this machine or the cluster.
    n_gpus
        Number of GPUs per worker on a Ray cluster.
    """
    if isinstance(shards, str | Path):
        shards = find(shards)
    fs, root = store(out)
    fs.invalidate_cache()  # others write there, too
    place, identity = _place(out), json.dumps(job.identity, indent=1).encode()
    if any(shard.rpartition("/")[0] == place for shard in shards.values()):
        rule = "another folder than that of the shards"
        _check.fail("shards.run", "out", rule, place)
    found = fs.cat_file(f"{root}/{_JOB}") if fs.exists(f"{root}/{_JOB}") else None
    if found not in {None, identity}:
        rule, got = "new, or have results of the same job", f"{place} with another job"
        _check.fail("shards.run", "out", rule, got, "Choose another folder")
    with _filling(place, [_JOB]) as (path,):
        _io.put(path, identity)
    there = set(fs.find(root))

    def is_done(name: str, shard: str) -> bool:
        files = [f"{root}/{file}" for file in job.files(name)]
        if not there.issuperset(files):
            return False
        if _io.is_url(place) or _io.is_url(shard):  # they have clocks of their own
            return True
        changed, *done = (Path(one).stat().st_mtime for one in (shard, *files))
        return changed <= min(done)

    left = [one for one in shards.items() if not is_done(*one)]
    calls = [(job, identity, *one, place) for one in left]
    failed, invalid = {}, {}
    outcomes = _backends.run(_do, calls, jobs=jobs, backend=backend, n_gpus=n_gpus)
    for number, n_invalid, error, trace in bar(outcomes, "shards", total=len(left)):
        name, _ = left[number]
        if error:
            failed[name] = f"{error}\n{trace}"
        elif n_invalid:
            invalid[name] = n_invalid
    return Done(place, len(shards), len(left) - len(failed), failed, invalid)


def store(place: str | Path) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path in it."""
    fs, path = optional("fsspec", "cloud").url_to_fs(str(place))
    return fs, path.rstrip("/")


def _is_local(fs: Any) -> bool:
    return "file" in fs.protocol


def _place(given: str | Path) -> str:
    """Return a path that is the same in every process, or the URL."""
    fs, path = store(given)
    return path if _is_local(fs) else str(given).rstrip("/")


def _do(job: Job, identity: bytes, name: str, shard: str, out: str) -> int:
    loaded = _loaded(job, identity)
    with _at_hand(shard) as path, _filling(out, job.files(name)) as results:
        return job.do(loaded, path, results)


@lru_cache(maxsize=1)
def _loaded(job: Job, identity: bytes) -> Any:
    """Keep rejector, detectors or network of this process from shard to shard."""
    loaded = job.load()
    if json.dumps(job.identity, indent=1).encode() != identity:
        msg = "shards: what the job loads was replaced during the run. Start again"
        raise ArtefactError(msg)
    return loaded


@contextmanager
def _at_hand(shard: str) -> Iterator[Path]:
    """Give the path of a shard, or of a copy on this machine."""
    fs, path = store(shard)
    if _is_local(fs):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="openset-shard-") as folder:
        copy = Path(folder, path.rpartition("/")[2])
        if fs.isdir(path):  # of the web, too, where a recursive get finds nothing
            fs.get(fs.ls(path, detail=False), f"{copy}/")
        else:
            fs.get_file(path, str(copy))
        yield copy


@contextmanager
def _filling(out: str, files: list[str]) -> Iterator[list[Path]]:
    """Give the paths of the result files; if `out` is a store, upload them then."""
    fs, root = store(out)
    if _is_local(fs):
        yield [Path(root, file) for file in files]
        return
    with tempfile.TemporaryDirectory(prefix="openset-results-") as folder:
        yield [Path(folder, file) for file in files]
        fs.put(f"{folder}/", f"{root}/", recursive=True)


def is_folder_of_shards(place: str | Path) -> bool:
    """Return whether this is a folder of outputs, or a URL, not outputs themselves."""
    path = Path(place)
    return _io.is_url(place) or (
        path.is_dir() and not is_outputs(one.name for one in path.iterdir())
    )


def find(folder: str | Path, *, endings: Sequence[str] = ENDINGS) -> dict[str, str]:
    """Return the shards of a folder, or of a URL: the place of each by its name.

    `endings` are those of their files. What only looks like a shard is refused.
    """
    fs, root = store(folder)
    fs.invalidate_cache()
    found: dict[str, str] = {}
    problem = ""
    for one in sorted(fs.ls(root, detail=True), key=lambda one: str(one["name"])):
        place = Path(one["name"])
        if place.name.startswith("."):
            continue
        names, name = [place.name], place.stem
        is_shard = place.suffix != "" and place.suffix in endings
        if one["type"] == "directory":
            names = [Path(path).name for path in fs.ls(one["name"], detail=False)]
            name, is_shard = place.name, "" in endings and is_outputs(names)
        if is_shard and name not in found:
            found[name] = f"{_place(folder)}/{place.name}"
        elif is_shard or any(Path(n).suffix.lower() in _LIKE_SHARDS for n in names):
            problem = f"{place.name} beside them"
    if problem or not found:
        kinds = ", ".join(one or "folders of .npy files" for one in endings)
        rule = f"a folder of shards of different names ({kinds})"
        _check.fail("shards.find", str(folder), rule, problem or "none")
    return found
