"""Coded checks for mistakes that make the numbers of an evaluation meaningless.

>>> from openset import checks
>>> [f.status for f in checks.run(headline="openauc") if f.code == "OSR005"]
['passed']
"""

from openset.checks._evidence import TUNED_ON, Claim
from openset.checks._finding import Finding
from openset.checks._run import run, run_folder
from openset.checks._study_folder import LIMIT

__all__ = ["LIMIT", "TUNED_ON", "Claim", "Finding", "run", "run_folder"]
