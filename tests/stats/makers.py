"""Results of several runs."""

import numpy as np

from openset.results import Result, Results


def over(*, draws=1, splits=1, seeds=1, gap=0.02, spread=0.03, noise=1e-3, by="method"):
    """Two methods; draws differ by `spread`, repeats of one by `noise`."""
    rng = np.random.default_rng(1)
    rows = []
    for draw in range(draws):
        of_draw = gap + spread * rng.normal()
        for seed in range(seeds):
            of_network = of_draw + noise * rng.normal()
            for split in range(splits):
                for name, more in (("openauc", of_network), ("softmax", 0.0)):
                    value = 0.7 + more + noise * rng.normal()
                    at = {"repeat": draw, "seed": seed, "split": split}
                    at |= {"detector": "msp", by: name}
                    rows.append(Result(metric="oscr", value=value, **at))
    return Results(rows)
