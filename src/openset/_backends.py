"""Where work runs: processes on this machine, a Ray or Dask cluster, or one by one."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple, Protocol

from openset import _check, _extras
from openset._optional import optional

BACKENDS = ("loky", "ray", "dask", "sequential")

_RETRIES = 5  # times Ray runs a task again whose worker or node is lost
_AHEAD = 2  # tasks per CPU given to Ray at a time, so that no CPU waits for the next
_CALLS = 4  # calls for each GPU, at least, if calls take several items
_AT_ONCE = 1000  # tasks given to Ray at a time, unless jobs says how many
_LOOK = 10.0  # seconds between looks at a cluster that finishes nothing
_EMPTY_LOOKS = 30  # looks at a cluster without a free place before giving up


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
    function: Callable[..., Any], number: int, call: tuple[Any, ...]
) -> Outcome:
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
            yield joblib.delayed(_called)(function, i, left[i])

    def in_pool(indices: list[int], n_jobs: int) -> Iterator[Outcome]:
        # One call at a time for each process: who died can only have had these.
        pool = joblib.Parallel(
            n_jobs,
            backend="loky",
            batch_size=1,
            pre_dispatch="n_jobs",
            return_as="generator_unordered",
        )
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


class Pool(Protocol):
    """Runs a function for many arguments; results are written to disk, not returned."""

    jobs: int

    def __call__(
        self, function: Callable[..., None], calls: Sequence[tuple[Any, ...]]
    ) -> None:
        """Run every call; raise only if the pool itself fails."""

    def alone(self, function: Callable[..., None], call: tuple[Any, ...]) -> None:
        """Run one call in its own process, while no other is running."""

    def items_per_call(self, n: int) -> int:
        """Return how many of `n` short items to put into one call."""


class _JoblibPool:
    """Processes of this machine, a Dask cluster, or this process."""

    def __init__(self, backend: str, jobs: int, options: dict[str, Any]) -> None:
        self.backend, self.jobs, self._options = backend, jobs, options

    def __call__(
        self, function: Callable[..., None], calls: Sequence[tuple[Any, ...]]
    ) -> None:
        import joblib  # noqa: PLC0415  # not for `import openset`

        with joblib.parallel_config(self.backend, n_jobs=self.jobs, **self._options):
            joblib.Parallel()(joblib.delayed(function)(*call) for call in calls)

    def alone(self, function: Callable[..., None], call: tuple[Any, ...]) -> None:
        import joblib  # noqa: PLC0415

        if self.backend == "loky":
            joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(function)(*call)])
        else:
            self(function, [call])

    def items_per_call(self, n: int) -> int:
        return 1  # processes stay


class _RayPool:
    """Plain tasks of a Ray cluster: Ray runs those of a lost worker or node again.

    Not a pool of actors: after a node is lost, its actors keep their CPUs while the
    error lives, and the next pool waits for them for good.
    """

    def __init__(self, ray: Any, jobs: int, resources: dict[str, Any]) -> None:
        self._ray, self.jobs, self.resources = ray, jobs, resources

    def __call__(
        self, function: Callable[..., None], calls: Sequence[tuple[Any, ...]]
    ) -> None:
        self._run(function, calls, retries=_RETRIES)

    def alone(self, function: Callable[..., None], call: tuple[Any, ...]) -> None:
        self._run(function, [call], retries=0)

    def _run(
        self,
        function: Callable[..., None],
        calls: Sequence[tuple[Any, ...]],
        *,
        retries: int,
    ) -> None:
        ray = self._ray
        # Not by .options(): given here, Ray ends the process of a task that had a GPU.
        # One that stayed would keep its memory there and, once CUDA has started, use
        # that GPU for a task that was given another one.
        task = ray.remote(max_retries=retries, **self.resources)(function)
        waiting = iter(calls)
        running: list[Any] = []
        lost: Exception | None = None
        empty = 0
        try:
            while True:
                # Asked again each time: nodes come and go.
                room = self._room() - len(running)
                more = islice(waiting, max(room, 0))
                running += [task.remote(*call) for call in more]
                if not running:
                    break
                done, running = ray.wait(running, num_returns=1, timeout=_LOOK)
                empty = 0 if done or self._places() else empty + 1
                if empty == _EMPTY_LOOKS:
                    raise ConnectionError(self._no_place())
                for one in done:
                    try:
                        ray.get(one)
                    except ray.exceptions.RayTaskError:
                        raise  # of the function itself: the others would fail alike
                    except ray.exceptions.RayError as error:
                        lost = lost or error  # its process died too often; go on
        finally:
            for one in running:
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(one, force=True)
        if lost is not None:
            raise lost

    def items_per_call(self, n: int) -> int:
        if "num_gpus" not in self.resources:
            return 1
        # A process ends with its call; some calls for each place, so that none waits.
        return max(1, n // (_CALLS * max(self._places(), 1)))

    def _places(self) -> int:
        """How many tasks the nodes that are there can run at the same time."""
        return _ray_places(self._ray, self.resources.get("num_gpus", 0))

    def _room(self) -> int:
        return self.jobs if self.jobs > 0 else max(_AHEAD * self._places(), 1)

    def _no_place(self) -> str:
        return (
            "bench: the Ray cluster must have a node that can run a task "
            f"({self.resources}), got none for {_LOOK * _EMPTY_LOOKS:.0f} s. "
            "Start nodes and run the same command again: finished tasks are kept"
        )


def check(
    backend: str, jobs: int, address: str | None = None, *, caller: str = "bench"
) -> None:
    """Check the options before anything is planned or started."""
    _check.one_of(caller, "backend", backend, BACKENDS)
    if address is not None and backend not in {"ray", "dask"}:
        rule = "left out, except for the backends ray and dask"
        _check.fail(caller, "address", rule, repr(address))
    if jobs != -1:
        remedy = "-1 means all cores"
        _check.integer(caller, "jobs", jobs, low=1, remedy=remedy)


@contextmanager
def connected(
    backend: str, address: str | None, *, caller: str = "bench"
) -> Iterator[Any]:
    """Keep a connection to the cluster, if the backend has one."""
    if backend == "ray":
        with _ray(address, caller) as ray:
            yield ray
    elif backend == "dask":
        distributed = _extras.library(caller, "distributed")
        if address is None:
            rule = "that of a running scheduler"
            remedy = "For example --address tcp://10.0.0.1:8786"
            _check.fail(caller, "address", rule, None, remedy)
        with distributed.Client(address, set_as_default=True) as client:
            yield client
    else:
        yield None


@contextmanager
def _ray(address: str | None, caller: str) -> Iterator[Any]:
    ray = _extras.optional(caller, "ray", name="cluster")
    is_ours = not ray.is_initialized()
    if is_ours:
        try:
            ray.init(
                address=address or "auto",
                log_to_driver=False,
                logging_level="ERROR",
            )
        except ConnectionError as error:
            msg = (
                f"{caller}: address must be that of a running Ray cluster, got "
                f"{address or 'auto'} ({error}). Start one with: ray start --head"
            )
            raise ConnectionError(msg) from error
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()


def pool(
    backend: str,
    jobs: int,
    connection: Any,
    *,
    gpus: float = 0,
    caller: str = "bench",
) -> Pool:
    """Make a pool of `jobs` workers (-1: all cores), each with `gpus` GPUs.

    On one machine GPUs are not assigned: every cell sees all of them.
    """
    if backend == "ray":
        return _ray_pool(jobs, connection, gpus, caller)
    if backend == "dask":
        options: dict[str, Any] = {"resources": {"GPU": gpus}} if gpus else {}
        return _JoblibPool("dask", jobs, options)
    if backend == "sequential":
        return _JoblibPool("sequential", 1, {})
    return _JoblibPool("loky", cores() if jobs == -1 else jobs, {})


def _ray_places(ray: Any, gpus: float) -> int:
    """How many tasks can run at the same time, each on one of the nodes."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(_places_of(node, gpus) for node in alive)


def _places_of(node: dict[str, float], gpus: float) -> int:
    most, cards = int(node.get("CPU", 0)), node.get("GPU", 0)
    if not gpus:
        return most
    # A task has whole GPUs, or a share of one.
    return min(most, int(cards // gpus) if gpus >= 1 else int(cards) * int(1 / gpus))


def _ray_pool(jobs: int, ray: Any, gpus: float, caller: str) -> Pool:
    if gpus > 1 and gpus % 1:
        rule = "a whole number, or a share of one GPU"
        _check.fail(caller, "gpus", rule, f"{gpus:g}")
    if _ray_places(ray, gpus) < 1:
        there = ray.cluster_resources()
        what = f"{gpus:g} GPUs and a CPU on one node" if gpus else "a CPU"
        got = f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs in all"
        _check.fail(caller, "the Ray cluster", f"one with {what}", got)
    # A task without a CPU might be placed on a machine that is already full.
    resources: dict[str, Any] = {"num_cpus": 1, "scheduling_strategy": "SPREAD"}
    if gpus:
        resources["num_gpus"] = gpus
    return _RayPool(ray, jobs, resources)


_OFTEN = 0.2  # seconds between two looks at the main process
_followed: set[int] = set()


def main_process(backend: str) -> int:
    """Return what :func:`follow` takes in workers of this process; 0: nothing."""
    # Ray and Dask end the workers of a driver that is gone by themselves.
    return os.getpid() if backend == "loky" else 0


def _stay() -> None:
    """Keep loky from replacing this worker because it has grown.

    With psutil installed, loky ends a worker that holds 300 MB more than after its
    first task, which importing torch does; now and then the pool then waits for good.
    """
    loky: Any = sys.modules.get("joblib.externals.loky.process_executor")
    if hasattr(loky, "_USE_PSUTIL"):
        loky._USE_PSUTIL = False  # there is no public switch


def follow(main: int) -> None:
    """End this worker process once the process `main`, its parent, is gone.

    A worker would otherwise finish its task, for hours perhaps, and write to a folder
    that the next run works in. On Windows it does: there, a process does not see that
    its parent is gone.
    """
    if main in {0, os.getpid()} | _followed:
        return
    _followed.add(main)
    _stay()

    def look() -> None:
        while os.getppid() == main:
            time.sleep(_OFTEN)
        # At once, whatever the other thread is doing; Windows has no SIGKILL.
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    threading.Thread(target=look, daemon=True, name="follow").start()
