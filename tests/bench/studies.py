"""Small studies for the tests: digits, cells of milliseconds."""

from dataclasses import replace

from openset.bench import parse
from openset.runs import read_cells

SMALL = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, repeats: 2,
             validation: 0.2, max_train: 200, max_test: 200}]
models: [{kind: mlp, hidden: 8, epochs: 5}]
detectors: [msp, energy, {name: knn, k: 3}]
calibrate: {surrogate: mixup}
"""


def small(*changes):
    """Return a study of six cells on two networks, with changes of its text."""
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def contents(folder):
    """Return all cells of a folder without their births."""
    cells = [replace(cell, provenance={}) for cell in read_cells(folder)]
    return {cell.id: cell.to_json() for cell in cells}


def fatal(*ends):
    """Return the study with more detectors, which end their processes.

    Each is what ends, and its mark or "": see :mod:`tests.bench.fatal`.
    """
    name = "tests.bench.fatal:Fatal"
    listed = (
        f'{{name: "{name}", label: fatal {i}, end: {end}, mark: "{mark}"}},'
        for i, (end, mark) in enumerate(ends)
    )
    return small((b"[msp,", "".join(["[", *listed, "msp,"]).encode()))
