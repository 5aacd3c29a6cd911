"""OSR010: the claimed difference is smaller than its uncertainty."""

from operator import attrgetter

from openset._types import UndefinedMetricError
from openset.checks._evidence import Claim, Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import row_of
from openset.metrics import Interval
from openset.results import Result, Results
from openset.scores import Scores, seems_reordered
from openset.stats import compare, paired_t

LEVEL = 0.95
RESAMPLES = 500


def look(evidence: Evidence) -> Outcome:
    """Compare the claimed difference with the interval of the measured one."""
    if evidence.claim is None:
        return not_applicable("no difference claimed")
    claim = evidence.claim
    metric = claim.metric or evidence.headline
    if not metric:
        return not_applicable("the claim names no metric, and there is no headline")
    interval = _from_results(evidence, claim, metric)
    if isinstance(interval, str):
        why, interval = interval, _from_scores(evidence, claim, metric)
        if isinstance(interval, str):
            return not_applicable(f"{why}; {interval}")
    margin = (interval.high - interval.low) / 2
    seen = (
        f"{metric}: {claim.difference:g} claimed, {LEVEL:.0%} interval of the "
        f"difference {interval.low:.4f} to {interval.high:.4f} ({interval.method})"
    )
    # Absolute values: some metrics fall with quality. The claim may be rounded.
    least, most = sorted((abs(interval.low), abs(interval.high)))
    is_beyond = 0.0 not in interval and least >= claim.difference
    if not is_beyond and (margin >= claim.difference or 0.0 in interval):
        return found(
            seen,
            "Measure on more runs or samples, or say that the methods cannot be told "
            "apart",
        )
    if claim.difference > 1.1 * most:
        return found(f"{seen}: smaller than claimed", "Claim what was measured")
    return passed(seen)


def _pair(claim: Claim, names: list[str]) -> tuple[str, str] | None:
    if claim.better and claim.worse:
        is_there = claim.better in names and claim.worse in names
        return (claim.better, claim.worse) if is_there else None
    return (names[0], names[1]) if len(names) == 2 else None


def _from_results(evidence: Evidence, claim: Claim, metric: str) -> Interval | str:
    """Return the interval of the paired test over independent runs, or why not."""
    if evidence.results is None:
        return "no results"
    rows = evidence.results.where(metric=metric)
    found = _columns(rows, claim)
    if len(found) != 1:
        why = "no two methods to compare" if not found else "several ways to compare"
        return f"results hold {why} in {metric}; name two: Claim(better=, worse=)"
    ((by, pair),) = found.items()
    two = [row for row in rows if getattr(row, by) in pair]
    # What else was varied, such as the detector, is averaged as test splits are.
    of_row = attrgetter("split", *({"method", "detector", "model"} - {by}))
    places = sorted(set(map(of_row, two)))
    alike = [
        Result(
            protocol=row.protocol,
            repeat=row.repeat,
            split=places.index(of_row(row)),
            seed=row.seed,
            detector=getattr(row, by),
            metric=metric,
            value=row.value,
        )
        for row in two
    ]
    try:
        (test,) = paired_t(Results(alike), against=pair[0], level=LEVEL, pool=True)
    except ValueError as error:  # runs are missing
        return str(error)
    if test.n < 2:
        return f"results hold one run of {metric} only ({test.over})"
    # None: the same difference in all runs.
    low = test.difference if test.low is None else test.low
    high = test.difference if test.high is None else test.high
    told = f"paired t, {test.over}"
    told += ": other classes may differ more" if "one draw" in told else ""
    return Interval(low, high, LEVEL, told)


def _columns(rows: Results, claim: Claim) -> dict[str, tuple[str, str]]:
    """Return the columns that hold the two names of a claim, or just two names."""
    found = {}
    for by in ("method", "detector", "model"):
        names = list(dict.fromkeys(getattr(row, by) for row in rows))
        pair = _pair(claim, names)
        if pair is not None:
            found[by] = pair
    return found


def _from_scores(evidence: Evidence, claim: Claim, metric: str) -> Interval | str:
    """Return the interval of `stats.compare` on two sets of scores, or why not."""
    pair = _pair(claim, list(evidence.scores))
    if pair is None:
        return "no two sets of scores to compare"
    row = row_of(metric)
    if row is None or row.key != metric or row.kind in {"curve", "operational"}:
        return f"no interval is known for {metric!r} from scores"
    a, b = (evidence.scores[which] for which in pair)
    if trouble := _not_paired(pair, a, b):
        return trouble
    at = None
    if row.kind == "threshold":
        of_a, of_b = (evidence.threshold_of(which) for which in pair)
        if of_a is None or of_b is None:
            return f"{metric} needs a threshold of {pair[0 if of_a is None else 1]!r}"
        at = of_a.value, of_b.value
    try:
        done = compare(a, b, metric, level=LEVEL, threshold=at, resamples=RESAMPLES)
    except UndefinedMetricError as error:
        return str(error)
    return done.interval


def _not_paired(pair: tuple[str, str], a: Scores, b: Scores) -> str:
    """Say why two sets of scores cannot be compared, if they cannot."""
    both = f"the scores {pair[0]!r} and {pair[1]!r}"
    if not (a.n_known and a.n_unknown):
        return f"{both} are not of known and unknown samples"
    try:
        b = b.in_order_of(a)
    except ValueError as error:
        return f"{both} are not of the same samples ({error})"
    if seems_reordered(b, a):
        return f"{both} seem to have their samples in different orders"
    return ""


CHECK = Check(
    "OSR010", "Interval wider than the claimed difference", look, reads_scores=True
)
