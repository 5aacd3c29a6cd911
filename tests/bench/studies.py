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


def fatal(*, mark="", node=False):
    """Return the study with one more detector, which kills its process.

    With a `mark` only the first of them: see :mod:`tests.bench.fatal`. With `node` the
    Ray node of the process, too.
    """
    label = "fatal node" if node else "fatal"
    more = f'label: {label}, mark: "{mark}", node: {str(node).lower()}'
    one = f'{{name: "tests.bench.fatal:Fatal", {more}}}'
    return small((b"[msp,", b"[msp, " + one.encode() + b","))
