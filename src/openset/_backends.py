"""Where work runs: processes of this machine, a Ray cluster, or one by one."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from openset import _check
from openset._optional import optional

BACKENDS = ("loky", "ray", "sequential")

_RETRIES = 5  # times Ray runs a task again whose worker or node is lost
_AT_ONCE = 1000  # tasks given to Ray at a time, unless jobs says how many


def cores() -> int:
    """Return how many cores this process may use.

    A container or a batch system may leave it fewer than the machine has.
    """
    import joblib  # noqa: PLC0415  # not for `import openset`

    return int(joblib.cpu_count())


class Outcome(NamedTuple):
    """What became of a call: its value, or the error (and traceback) it ended with."""

    number: int
    value: Any = None
    error: str = ""
    traceback: str = ""


def run(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    jobs: int = -1,
    backend: str = "loky",
    n_gpus: float = 0,
) -> Iterator[Outcome]:
    """Call a function with each of these arguments; yield outcomes as they come.

    An error is the outcome of its call and stops no other. So is the death of its
    process: what ran when a process died is run again, alone; on a Ray cluster Ray
    itself runs again what a lost node had.

    Parameters
    ----------
    function, calls
        A function, and the arguments of each call. For other processes they are
        pickled, and so are values.
    jobs
        Calls at the same time; -1 for all cores, of this machine or the cluster.
    backend
        ``"loky"`` (processes of this machine), ``"ray"`` (a cluster that is running:
        the one this process is connected to, or that of ``RAY_ADDRESS``, or the one
        on this machine) or ``"sequential"`` (one by one in this process).
    n_gpus
        GPUs that Ray reserves for each call, or a share of one. Processes of this
        machine see all GPUs.

    Examples
    --------
    >>> outcomes = run(divmod, [(7, 2), (1, 0)], backend="sequential")
    >>> [one.value or one.error for one in outcomes]
    [(3, 1), 'ZeroDivisionError: integer division or modulo by zero']
    """
    check(backend, jobs)
    if backend == "ray":
        return _on_ray(function, calls, jobs, n_gpus)
    if backend == "loky":
        return _in_processes(function, calls, jobs)
    return (_called(function, i, call) for i, call in enumerate(calls))


def _called(
    function: Callable[..., Any], number: int, call: tuple[Any, ...], main: int = 0
) -> Outcome:
    if main:  # the process that waits for the outcome
        _end_with(main)
    try:
        return Outcome(number, function(*call))
    except Exception as error:  # the others go on
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        return Outcome(number, None, "\n".join(lines), traceback.format_exc())


def _in_processes(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[Outcome]:
    import joblib  # noqa: PLC0415  # not for `import openset`

    left, begun = dict(enumerate(calls)), set[int]()

    def begin(indices: Iterable[int]) -> Iterator[Any]:
        for i in indices:
            begun.add(i)
            yield joblib.delayed(_called)(function, i, left[i], os.getpid())

    def in_pool(indices: list[int], n_jobs: int) -> Iterator[Outcome]:
        # One call at a time for each process: who died can only have had these.
        options = {"backend": "loky", "return_as": "generator_unordered"}
        pool = joblib.Parallel(n_jobs, batch_size=1, pre_dispatch="n_jobs", **options)
        yield from pool(begin(indices))

    while left:
        begun.clear()
        try:
            for outcome in in_pool(list(left), jobs):
                del left[outcome.number]
                yield outcome
        except BrokenExecutor:
            for i in begun & left.keys():
                try:
                    (outcome,) = in_pool([i], 2)  # with one job: in this process
                except BrokenExecutor as error:
                    why = f"its process died, twice: {error}"
                    outcome = Outcome(i, error=f"{type(error).__name__}: {why}")
                del left[i]
                yield outcome


@cache  # once in a process
def _end_with(main: int) -> None:
    """End this worker as soon as the process that started it is gone.

    It would otherwise finish its call, for hours perhaps, and write to a folder that
    the next run works in.
    """
    loky: Any = sys.modules.get("joblib.externals.loky.process_executor")
    if hasattr(loky, "_USE_PSUTIL"):
        # With psutil, loky replaces workers that have grown by 300 MB, as the import of
        # torch does; now and then the pool then waits for ever. No public switch.
        loky._USE_PSUTIL = False

    def look() -> None:
        while os.getppid() == main:
            time.sleep(0.2)
        os._exit(1)  # at once, whatever the other thread is doing

    if main != os.getpid():  # with one job, joblib starts no process
        threading.Thread(target=look, daemon=True).start()


def _on_ray(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    jobs: int,
    n_gpus: float,
) -> Iterator[Outcome]:
    ray: Any = optional("ray", "cluster")
    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    resources = {"num_cpus": 1, "scheduling_strategy": "SPREAD"}
    if n_gpus:
        resources["num_gpus"] = n_gpus
    # Not by .options(): given here, Ray ends the process of a task that had a GPU. One
    # that stayed would keep its memory there.
    task = ray.remote(max_retries=_RETRIES, **resources)(_called)
    waiting = iter(enumerate(calls))
    running: dict[Any, int] = {}
    try:
        while True:
            room = (jobs if jobs > 0 else _AT_ONCE) - len(running)
            for i, call in islice(waiting, room):
                running[task.remote(function, i, call)] = i
            if not running:
                return
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            i = running.pop(done)
            try:
                outcome = ray.get(done)
            except ray.exceptions.RayError as error:  # it lost its process every time
                outcome = Outcome(i, error=f"{type(error).__name__}: {error}")
            yield outcome
    finally:
        for one in running:
            ray.cancel(one, force=True)
        if is_ours:
            ray.shutdown()


def check(backend: str, jobs: int, *, caller: str = "backends") -> None:
    """Check the options before anything is planned or started."""
    _check.one_of(caller, "backend", backend, BACKENDS)
    if jobs != -1:
        remedy = "-1 means all cores"
        _check.integer(caller, "jobs", jobs, low=1, remedy=remedy)
