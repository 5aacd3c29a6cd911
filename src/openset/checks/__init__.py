"""Coded checks for mistakes that make the numbers of an evaluation meaningless.

>>> from openset import checks
>>> [f.status for f in checks.run(headline="openauc") if f.code == "OSR005"]
['passed']
"""

from openset.checks.evidence import TUNED_ON as TUNED_ON
from openset.checks.evidence import Claim as Claim
from openset.checks.finding import Finding as Finding
from openset.checks.run import run as run
from openset.checks.run import run_folder as run_folder
