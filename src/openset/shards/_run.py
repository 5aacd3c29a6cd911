"""`run`: do a job for every shard, here or on a cluster; resumable by shard."""

import json
import os
import secrets
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from openset import _backends, _check
from openset._types import ArtefactError
from openset.shards._shards import Shard, at_hand, find
from openset.shards._stores import Folder, Store, store

_JOB, _FAILED = "job.json", "failed"
INVALID = "invalid"
"""Folder in which a job writes how many invalid samples a shard has."""

_FRUITLESS = 3  # times in a row that workers die without finishing a shard


class NotRecordedError(Exception):
    """A shard failed, and its failure could not be written: the disk is full."""


class Job(Hashable, Protocol):
    """What is done with a shard; it is sent to workers, so it has plain values only.

    `caller` names the command in errors; `identity` is what the results depend on.
    """

    @property
    def caller(self) -> str:
        """The command, for errors."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the results depend on, as JSON values."""

    def files(self, shard: Shard, out: Path) -> list[Path]:
        """Return the result files of a shard."""

    def open(self) -> Callable[[Shard, Path], None]:
        """Load what is needed, once per worker; return what writes the files."""


@dataclass(frozen=True)
class Done:
    """Result of a run: numbers of all shards, of those done now, and what failed.

    `invalid` has an entry for every shard with invalid samples, also of earlier runs:
    its name, their number `n`, and row (and id) of the first.
    """

    folder: Path | str
    n_shards: int
    n_run: int
    failed: tuple[dict[str, str], ...]
    seconds: float
    invalid: tuple[dict[str, Any], ...] = ()

    @property
    def n_invalid(self) -> int:
        """Number of invalid samples in all shards."""
        return sum(one["n"] for one in self.invalid)

    def __str__(self) -> str:
        finished = self.n_shards - len(self.failed)
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return (
            f"{finished} of {self.n_shards} shards in {self.folder} "
            f"({self.n_run} run now, {self.seconds:.1f} s{failed})"
        )


def run(
    job: Job,
    shards: Sequence[Shard] | str | Path,
    out: str | Path,
    *,
    backend: str = "loky",
    address: str | None = None,
    jobs: int = -1,
    gpus: float = 0,
) -> Done:
    """Do a job for every shard whose files are not in `out` yet.

    Each file is written under a temporary name and renamed, or uploaded as a whole; its
    name is that of the shard. So a shard is finished completely or not at all; if a
    worker or node dies, only its current shard is lost, and computed again by another
    one.

    Parameters
    ----------
    job
        What to do: :class:`Predict`, :class:`Score`, or your own class.
    shards
        The shards, or the folder they are in (:func:`find`).
    out
        Folder of the results, or a URL such as ``s3://bucket/results``; every worker
        must have access to it and to the shards.
    backend, address, jobs
        As in :func:`openset.bench.run`.
    gpus
        Number of GPUs per worker on a Ray cluster.
    """
    start = time.perf_counter()
    caller = job.caller
    _backends.check(backend, jobs, address, caller=caller)
    if isinstance(shards, str | Path):
        shards = find(shards, caller=caller)
    place = store(out, caller=caller)
    _need_another_folder(place, shards, caller)
    busy = (
        f"{caller}: {place} must not be in use, got another run that writes to it. "
        "Wait until it ends, or choose another --out"
    )
    with (
        _backends.connected(backend, address, caller=caller) as connection,
        place.locked(busy),
    ):
        _adopt(place, job, shards)
        place.remove(_FAILED)
        work = _Work(
            place,
            f"{_FAILED}/{secrets.token_hex(4)}",
            _backends.main_process(backend),
            json.dumps(job.identity),
        )
        place.write(work.begun, b"")
        is_there = place.holding()
        left = [shard for shard in shards if not _is_done(job, shard, is_there)]
        n_open = len(left)

        def pool() -> _backends.Pool:
            return _backends.pool(backend, jobs, connection, gpus=gpus, caller=caller)

        _settle(pool, job, left, work)
        failed = [json.loads(place.read(n) or b"") for n in place.names(work.failures)]
        if not failed:
            place.remove(_FAILED)
        names = {f"{INVALID}/{shard.name}.json" for shard in shards}
        found = [name for name in place.names(INVALID) if name in names]
        invalid = [json.loads(place.read(name) or b"") for name in found]
    return Done(
        folder=place.path if isinstance(place, Folder) else place.url,
        n_shards=len(shards),
        n_run=n_open - len(failed),
        failed=tuple(failed),
        seconds=time.perf_counter() - start,
        invalid=tuple(invalid),
    )


@dataclass(frozen=True)
class _Work:
    """Where a worker writes results and failures, and whom it works for.

    `main` is the main process, and `content` what the job's files hold: a worker may
    outlive several runs.
    """

    out: Store
    failures: str
    main: int
    content: str

    @property
    def begun(self) -> str:
        """A file that is there as long as the run owns the place."""
        return f"{self.failures}/begun"

    def failure(self, shard: Shard) -> str:
        """Return the file that says why a shard failed."""
        return f"{self.failures}/{shard.name}.json"


def _need_another_folder(out: Store, shards: Sequence[Shard], caller: str) -> None:
    """Refuse to write results next to the shards, where they look like shards."""
    here = {shard.path.parent for shard in shards if shard.remote is None}
    if isinstance(out, Folder) and out.path in here:
        rule = "another folder than that of the shards"
        _check.fail(caller, "--out", rule, str(out))


def _is_done(job: Job, shard: Shard, is_there: Callable[[str], bool]) -> bool:
    return all(is_there(path.as_posix()) for path in job.files(shard, Path()))


def _adopt(out: Store, job: Job, shards: Sequence[Shard]) -> None:
    """Write what the results come from; refuse a folder of another job or other data.

    Shards may be added later, and those without results be replaced.
    """
    contents = {shard.name: shard.content for shard in shards}
    now = {"job": json.loads(json.dumps(job.identity)), "shards": contents}
    text = out.read(_JOB)
    if text is not None:
        try:
            old = json.loads(text)
            was, before = old["job"], dict(old["shards"])
        except (ValueError, LookupError, TypeError) as error:
            what = f"{out}/{_JOB} is damaged ({error!r})"
            msg = f"{job.caller}: {what}. Choose another --out"
            raise ArtefactError(msg) from error
        is_there = out.holding()
        changed = [
            shard.name
            for shard in shards
            if before.get(shard.name, contents[shard.name]) != contents[shard.name]
            and _is_done(job, shard, is_there)
        ]
        if was != now["job"] or changed:
            what = f"results of another {changed[0]}" if changed else "another job"
            rule = "new, or have results of the same job and shards"
            _check.fail(
                job.caller, "--out", rule, f"{out} with {what}", "Choose another folder"
            )
        now["shards"] = before | contents
    out.write(_JOB, json.dumps(now, indent=1).encode())
    out.tidy()


def _settle(
    make_pool: Callable[[], _backends.Pool],
    job: Job,
    shards: Sequence[Shard],
    work: _Work,
) -> None:
    left, fruitless = list(shards), 0
    while left:
        error = None
        try:
            pool = make_pool()
            n = pool.items_per_call(len(left))
            groups = [left[i : i + n] for i in range(0, len(left), n)]
            pool(_work, [(job, group, work) for group in groups])
        except NotRecordedError as full:  # nothing can be written: nobody should retry
            msg = f"{job.caller}: {full}. The same command continues"
            raise OSError(msg) from full
        except Exception as caught:  # workers catch their errors: processes died
            error = caught
        before, is_there = len(left), work.out.holding()
        left = [
            shard
            for shard in left
            if not _is_done(job, shard, is_there) and not is_there(work.failure(shard))
        ]
        fruitless = fruitless + 1 if len(left) == before else 0
        if left and (error is None or fruitless == _FRUITLESS):
            names = ", ".join(shard.name for shard in left[:5])
            msg = (
                f"{job.caller}: workers died {_FRUITLESS} times in a row with "
                f"{len(left)} shards left ({names}): {error}. They may have run "
                "out of memory: make smaller shards, or use fewer --jobs"
            )
            raise RuntimeError(msg) from error


@lru_cache(maxsize=1)
def _opened(job: Job, content: str) -> Callable[[Shard, Path], None]:
    """Keep rejector, detectors or network of this process from shard to shard."""
    opened = job.open()
    if json.dumps(job.identity) != content:
        msg = (
            f"{job.caller}: the rejector, detectors or network were replaced during "
            "the run. To use the new ones, start again with another --out"
        )
        raise ArtefactError(msg)
    return opened


def _work(job: Job, shards: Sequence[Shard], work: _Work) -> None:
    _backends.follow(work.main)
    for shard in shards:
        _work_on(job, shard, work)


def _work_on(job: Job, shard: Shard, work: _Work) -> None:
    try:
        if not _is_done(job, shard, work.out.has):
            write = _opened(job, work.content)
            with at_hand(shard) as here, work.out.filling() as folder:
                write(here, folder)
    except Exception as error:  # recorded; the other shards go on
        record = {
            "shard": shard.name,
            "error": f"{type(error).__name__}: {error}",
            "traceback": traceback.format_exc(),
            "process": str(os.getpid()),
        }
        try:
            if work.out.has(work.begun):
                text = json.dumps(record, indent=1)
                work.out.write(work.failure(shard), text.encode())
        except FileNotFoundError:
            pass  # of a run that was killed: its folder of failures is gone
        except OSError:
            raise NotRecordedError(str(error)) from error
