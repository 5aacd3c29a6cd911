"""Studies and named benchmarks.

A study runs all combinations of protocols, models, detectors and seeds of a file.
:mod:`openset.bench.named` scores outputs of a network on a benchmark such as OpenOOD.

Needs the extra `bench` (pydantic, pyyaml); a Ray cluster needs `cluster`.
"""

from openset import _extras

with _extras.importing("openset.bench", "bench"):
    from openset.bench import named
    from openset.bench._estimate import Estimate, estimate, n_workers
    from openset.bench._models import fit as fit_model
    from openset.bench._plan import Plan, plan
    from openset.bench._progress import live_progress
    from openset.bench._provenance import Provenance
    from openset.bench._read import parse, read
    from openset.bench._run import Done, NoGPUError, run
    from openset.bench._study import MLPModel, Study
    from openset.bench._test_splits import of_labels as test_splits

__all__ = [
    "Done",
    "Estimate",
    "MLPModel",
    "NoGPUError",
    "Plan",
    "Provenance",
    "Study",
    "estimate",
    "fit_model",
    "live_progress",
    "n_workers",
    "named",
    "parse",
    "plan",
    "read",
    "run",
    "test_splits",
]
