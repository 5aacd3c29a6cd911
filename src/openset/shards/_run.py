"""`run`: do a job for every shard, here or on a cluster; resumable by shard."""

import json
import os
import secrets
import shutil
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from openset import _backends, _check, _io
from openset._types import ArtefactError
from openset.shards._shards import Shard, find

_JOB, _FAILED = "job.json", "failed"
_FRUITLESS = 3  # times in a row that workers die without finishing a shard


class Job(Hashable, Protocol):
    """What is done with a shard; sent to workers, so frozen and made of plain values.

    `caller` is the command for errors, and `identity` what the results depend on.
    """

    @property
    def caller(self) -> str:
        """The command, for errors."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the results depend on, as JSON values."""

    def files(self, shard: Shard, out: Path) -> list[Path]:
        """Return the files that a shard gives."""

    def open(self) -> Callable[[Shard, Path], None]:
        """Load what is needed, once per worker; return what writes the files."""


@dataclass(frozen=True)
class Done:
    """Result of a run: numbers of all shards, of those done now, and what failed."""

    folder: Path
    n_shards: int
    n_run: int
    failed: tuple[dict[str, str], ...]
    seconds: float

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

    Each file is written under a temporary name and renamed; its name is that of the
    shard. So a shard is done completely or not at all, and a worker or node that dies
    loses only what it was working on, which another one does again.

    Parameters
    ----------
    job
        What to do: :class:`Predict`, :class:`Score`, or one of your own.
    shards
        The shards, or the folder they are in (:func:`find`).
    out
        Folder of the results; every worker must have access to it and to the shards.
    backend, address, jobs
        As in :func:`openset.bench.run`.
    gpus
        GPUs of a worker on a Ray cluster.
    """
    start = time.perf_counter()
    caller = job.caller
    _backends.check(backend, jobs, caller=caller)
    if isinstance(shards, str | Path):
        shards = find(shards, caller=caller)
    out = Path(out).resolve()
    busy = f"{caller}: {out} must be free, got another run that writes to it"
    with (
        _io.locked(out / ".lock", busy=busy),
        _backends.connected(backend, address, caller=caller) as connection,
    ):
        _adopt(out, job, shards)
        failures = out / _FAILED / secrets.token_hex(4)
        shutil.rmtree(out / _FAILED, ignore_errors=True)
        failures.mkdir(parents=True)
        content = json.dumps(job.identity)
        place = _Place(out, failures, _backends.main_process(backend), content)
        left = [shard for shard in shards if not _is_done(job, shard, out)]
        n_open = len(left)

        def pool() -> _backends.Pool:
            return _backends.pool(backend, jobs, connection, gpus=gpus, caller=caller)

        _settle(pool, job, left, place)
        failed = [json.loads(p.read_bytes()) for p in sorted(failures.glob("*.json"))]
        if not failed:
            shutil.rmtree(out / _FAILED)
    return Done(
        folder=out,
        n_shards=len(shards),
        n_run=n_open - len(failed),
        failed=tuple(failed),
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True)
class _Place:
    """Where a worker writes results and failures, and whom it works for.

    `main` is the main process, and `content` what the job's files hold: a worker may
    outlive several runs.
    """

    out: Path
    failures: Path
    main: int
    content: str


def _is_done(job: Job, shard: Shard, out: Path) -> bool:
    return all(path.exists() for path in job.files(shard, out))


def _adopt(out: Path, job: Job, shards: Sequence[Shard]) -> None:
    """Write what the results come from; refuse a folder of another job or other data.

    Shards may be added later.
    """
    path = out / _JOB
    sizes = {shard.name: shard.n_bytes for shard in shards}
    now = {"job": json.loads(json.dumps(job.identity)), "shards": sizes}
    if path.exists():
        try:
            old = json.loads(path.read_bytes())
            was, before = old["job"], dict(old["shards"])
        except (ValueError, LookupError, TypeError) as error:
            msg = f"{job.caller}: {path} is damaged ({error!r}). Choose another --out"
            raise ArtefactError(msg) from error
        changed = [
            name for name in sizes if before.get(name, sizes[name]) != sizes[name]
        ]
        if was != now["job"] or changed:
            what = f"{changed[0]} of another size" if changed else "another job"
            rule = "new, or hold results of the same job and shards"
            raise ValueError(
                _check.must(
                    rule,
                    caller=job.caller,
                    name="--out",
                    got=f"{out} with {what}",
                    remedy="Choose another folder",
                )
            )
        now["shards"] = before | sizes
    text = json.dumps(now, indent=1)
    _io.write(path, lambda stream: stream.write(text.encode()))
    for left in [*out.glob(".*.*"), *out.glob("*/.*.*")]:  # of a run that was killed
        if left.is_file():
            left.unlink(missing_ok=True)


def _settle(
    make_pool: Callable[[], _backends.Pool],
    job: Job,
    shards: Sequence[Shard],
    place: _Place,
) -> None:
    left, fruitless = list(shards), 0
    while left:
        error = None
        try:
            pool = make_pool()
            n = pool.items_per_call(len(left))
            groups = [left[i : i + n] for i in range(0, len(left), n)]
            pool(_work, [(job, group, place) for group in groups])
        except Exception as caught:  # workers catch their errors: processes died
            error = caught
        before = len(left)
        left = [
            shard
            for shard in left
            if not _is_done(job, shard, place.out)
            and not _failure(place, shard).exists()
        ]
        fruitless = fruitless + 1 if len(left) == before else 0
        if left and (error is None or fruitless == _FRUITLESS):
            names = ", ".join(shard.name for shard in left[:5])
            msg = (
                f"{job.caller}: workers died {_FRUITLESS} times in a row with "
                f"{len(left)} shards left ({names}): {error}. Their memory may not "
                "suffice: make smaller shards, or use fewer --jobs"
            )
            raise RuntimeError(msg) from error


def _failure(place: _Place, shard: Shard) -> Path:
    return place.failures / f"{shard.name}.json"


@lru_cache(maxsize=1)
def _opened(job: Job, _content: str) -> Callable[[Shard, Path], None]:
    """Keep rejector, detectors or network of this process from shard to shard."""
    return job.open()


def _work(job: Job, shards: Sequence[Shard], place: _Place) -> None:
    _backends.follow(place.main)
    for shard in shards:
        _work_on(job, shard, place)


def _work_on(job: Job, shard: Shard, place: _Place) -> None:
    try:
        if not _is_done(job, shard, place.out):
            _opened(job, place.content)(shard, place.out)
    except Exception as error:  # recorded; the other shards go on
        record = {
            "shard": shard.name,
            "error": f"{type(error).__name__}: {error}",
            "traceback": traceback.format_exc(),
            "process": str(os.getpid()),
        }
        text = json.dumps(record, indent=1)
        # Of a run that was killed: its folder of failures is gone.
        with suppress(FileNotFoundError):
            if place.failures.is_dir():
                path = _failure(place, shard)
                _io.write(path, lambda stream: stream.write(text.encode()))
