"""Studies and named benchmarks.

A study runs all combinations of protocols, models, detectors and seeds of a file.
:mod:`openset.bench.named` scores outputs of a network on a benchmark such as OpenOOD.

=================  ==================================================================
study.py           `Study`, what is run; `read` a file
plan.py            `plan`: every network and cell, each with a key
run.py             `run` what is not finished, in processes or on a Ray cluster
protocols.py       the classes that are drawn, and the samples of a network
networks.py        networks are trained, and their outputs saved
cells.py           a detector on the outputs of a network: threshold, metrics
dependencies.py    hashes of plug-ins and data files: what changed is done again
named.py           benchmarks by name
definitions.py     what they are
=================  ==================================================================

Needs the extra `bench` (pydantic, pyyaml); a Ray cluster needs `cluster`.
"""

from openset._optional import needs

with needs("bench"):
    from openset.bench import named
    from openset.bench.plan import plan
    from openset.bench.run import Done, run
    from openset.bench.study import Study, parse, read

__all__ = ["Done", "Study", "named", "parse", "plan", "read", "run"]
