"""Coded checks for mistakes that make the numbers of an evaluation meaningless.

>>> from openset import checks
>>> [f.status for f in checks.run(headline="openauc") if f.code == "OSR005"]
['passed']
"""

from openset.checks.evidence import TUNED_ON, Claim
from openset.checks.finding import Finding
from openset.checks.folder import LIMIT
from openset.checks.run import run, run_folder

__all__ = ["LIMIT", "TUNED_ON", "Claim", "Finding", "run", "run_folder"]
