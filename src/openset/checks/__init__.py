"""Is this evaluation worth anything? Coded checks, each with a page of its own.

>>> from openset import checks
>>> [f.status for f in checks.run(headline="openauc") if f.code == "OSR005"]
['passed']
"""

from openset.checks._finding import Check, Finding
from openset.checks._folder import LIMIT, read_study
from openset.checks._run import REGISTRY, run, run_folder
from openset.checks._study import ORIGINS, Claim, Study

__all__ = [
    "LIMIT",
    "ORIGINS",
    "REGISTRY",
    "Check",
    "Claim",
    "Finding",
    "Study",
    "read_study",
    "run",
    "run_folder",
]
