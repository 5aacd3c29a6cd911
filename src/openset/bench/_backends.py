"""Where cells run: the backends of joblib."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import joblib

from openset import _check, _io

BACKENDS = ("loky", "ray", "dask", "sequential")


class Pool:
    """Runs a function for many arguments; results are written to disk, not returned."""

    def __init__(self, backend: str, jobs: int, options: dict[str, Any]) -> None:
        self.backend, self.jobs, self._options = backend, jobs, options

    def __call__(
        self, function: Callable[..., None], calls: Sequence[tuple[Any, ...]]
    ) -> None:
        """Run every call; raise only if the pool itself fails."""
        # With one job joblib stays in this process, even on Ray; but a cell may need
        # the only GPU of a cluster.
        if self.backend == "ray" and self.jobs == 1:
            pool = _io.optional(
                "bench", "ray.util.multiprocessing", name="cluster"
            ).Pool
            with pool(1, **self._options) as actors:
                actors.starmap(function, calls, chunksize=1)
            return
        with joblib.parallel_config(self.backend, n_jobs=self.jobs, **self._options):
            joblib.Parallel()(joblib.delayed(function)(*call) for call in calls)

    def alone(self, function: Callable[..., None], call: tuple[Any, ...]) -> None:
        """Run one call in its own process, while no other is running."""
        if self.backend == "loky":
            joblib.Parallel(n_jobs=2, backend="loky")([joblib.delayed(function)(*call)])
        else:
            self(function, [call])


def check(backend: str, jobs: int) -> None:
    """Check the options before anything is planned or started."""
    _check.one_of("bench", "backend", backend, BACKENDS)
    if jobs != -1:
        remedy = "-1 means all cores"
        _check.integer("bench", "jobs", jobs, low=1, remedy=remedy)


@contextmanager
def connected(backend: str, address: str | None) -> Iterator[Any]:
    """Keep a connection to the cluster, if the backend has one."""
    if address is not None and backend not in {"ray", "dask"}:
        rule = "left out: only ray and dask take an address"
        raise ValueError(
            _check.must(rule, caller="bench", name="address", got=repr(address))
        )
    if backend == "ray":
        with _ray(address) as ray:
            yield ray
    elif backend == "dask":
        distributed = _io.optional("bench", "distributed", name="cluster")
        if address is None:
            rule = "that of a running scheduler"
            remedy = "For example --address tcp://10.0.0.1:8786"
            raise ValueError(
                _check.must(
                    rule, caller="bench", name="address", got=None, remedy=remedy
                )
            )
        with distributed.Client(address, set_as_default=True) as client:
            yield client
    else:
        yield None


@contextmanager
def _ray(address: str | None) -> Iterator[Any]:
    ray = _io.optional("bench", "ray", name="cluster")
    _io.optional("bench", "ray.util.joblib", name="cluster").register_ray()
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
                f"bench: address must be that of a running Ray cluster, got "
                f"{address or 'auto'} ({error}). Start one with: ray start --head"
            )
            raise ConnectionError(msg) from error
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()


def pool(backend: str, jobs: int, connection: Any, *, gpus: float = 0) -> Pool:
    """Make a pool of `jobs` workers (-1: all cores), each with `gpus` GPUs.

    On one machine GPUs are not assigned: every cell sees all of them.
    """
    if backend == "ray":
        return _ray_pool(jobs, connection, gpus)
    if backend == "dask":
        options: dict[str, Any] = {"resources": {"GPU": gpus}} if gpus else {}
        return Pool("dask", jobs, options)
    if backend == "sequential":
        return Pool("sequential", 1, {})
    return Pool("loky", os.cpu_count() or 1 if jobs == -1 else jobs, {})


def _ray_pool(jobs: int, ray: Any, gpus: float) -> Pool:
    there = ray.cluster_resources()
    most = int(there.get("CPU", 0))
    if gpus:
        most = min(most, int(there.get("GPU", 0) / gpus))
    if most < 1:
        what = f"{gpus:g} GPUs and a CPU" if gpus else "a CPU"
        got = f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
        msg = _check.must(
            f"one with {what}", caller="bench", name="the Ray cluster", got=got
        )
        raise ValueError(msg)
    # An actor without a CPU might be placed on a machine that is already full.
    arguments: dict[str, Any] = {"num_cpus": 1, "scheduling_strategy": "SPREAD"}
    if gpus:
        arguments["num_gpus"] = gpus
    jobs = most if jobs == -1 else min(jobs, most)
    return Pool("ray", jobs, {"ray_remote_args": arguments})
