"""OSR009: the same problem, sample or result counted twice."""

import hashlib
from itertools import combinations

import numpy as np

from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.protocols import Draws
from openset.scores import Scores


def look(evidence: Evidence) -> Outcome:
    """Look for equal protocols, samples in two parts, and equal sets of scores."""
    if len(evidence.protocols) + len(evidence.scores) + len(evidence.parts) < 2:
        return not_applicable("nothing to compare: give protocols, parts or scores")
    for one, other in combinations(evidence.parts, 2):
        both = np.intersect1d(evidence.parts[one], evidence.parts[other])
        if both.size:
            return found(
                f"{both.size} samples are in {one} and in {other}, {both[0]!s} first",
                "Divide the data once, with datasets.cut or datasets.folds, and "
                "train, calibrate and test on different parts",
            )
    listed = evidence.protocols
    repeated = Draws(listed).duplicates if listed else ()
    if repeated:
        n_repeats = sum(len(places) - 1 for places in repeated)
        shown = ", ".join(
            " = ".join(evidence.protocols[i].name or str(i) for i in places)
            for places in repeated[:3]
        )
        return found(
            f"{n_repeats} of {len(listed)} protocols repeat another ({shown})",
            "Remove the repeated ones: a standard deviation over equal splits is too "
            "small",
        )
    seen: dict[bytes, str] = {}
    for name, scores in evidence.scores.items():
        first = seen.setdefault(_digest(scores), name)
        if first != name:
            return found(
                f"the scores {first!r} and {name!r} are the same, sample by sample",
                "Look for a file that was saved twice, a detector that falls back on "
                "another one, or a model that does not depend on its seed",
            )
    return passed("no protocol, sample or set of scores occurs twice")


def _digest(scores: Scores) -> bytes:
    digest = hashlib.sha256()
    # + 0.0: the two zeros are one score.
    for column in (scores.known + 0.0, scores.labels, scores.predicted):
        digest.update(column.tobytes())
    return digest.digest()


CHECK = Check(
    "OSR009",
    "Duplicate splits or samples across parts",
    look,
    guidelines=(2,),
    reads_scores=True,
)
