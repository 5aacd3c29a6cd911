"""Studies: run all combinations of protocols, models, detectors and seeds of a file.

Needs the extra `bench` (pydantic, pyyaml); a Ray cluster needs `cluster`.
"""

from openset import _io

with _io.importing("openset.bench", "bench"):
    from openset.bench._estimate import Estimate, estimate, n_workers
    from openset.bench._plan import Plan, plan
    from openset.bench._progress import live_progress
    from openset.bench._read import parse, read
    from openset.bench._run import Done, run
    from openset.bench._study import Study

__all__ = [
    "Done",
    "Estimate",
    "Plan",
    "Study",
    "estimate",
    "live_progress",
    "n_workers",
    "parse",
    "plan",
    "read",
    "run",
]
