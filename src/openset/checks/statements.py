"""OSR001–003, 005, 010, 011: what a study varies, reports and claims."""

import warnings
from collections.abc import Iterable, Mapping

from openset import _check
from openset._types import PairingWarning
from openset.checks.evidence import ABOUT, TUNED_ON, Claim, Evidence, row_of
from openset.checks.finding import Seen, check
from openset.metrics import Interval, table
from openset.results import Results
from openset.stats import compare, paired_t
from openset.stats.same_runs import names_of, who

# CCR is the Halfpoint score with accuracy as its base.
_HALFPOINT = frozenset({"halfpoint_score", "ccr"})

_AVOID: Mapping[str, str] = ABOUT["OSR005"]["avoid"]

_LEVEL = 0.95
_RESAMPLES = 500


@check("OSR001")
def one_openness(study: Evidence) -> Seen:
    """Count the different values of openness."""
    values = [*_draws(study)]
    if len(values) == 1:
        n = len(study.protocols)
        return "finding", f"all {n} protocols have openness {values[0]:.3f}"
    return "passed", f"{len(values)} values, {values[0]:.3f} to {values[-1]:.3f}"


@check("OSR002")
def one_draw(study: Evidence) -> Seen:
    """Count the different class draws at each openness."""
    numbers = {openness: len(draws) for openness, draws in _draws(study).items()}
    single = [f"{openness:.3f}" for openness, n in numbers.items() if n < 2]
    if single:
        return "finding", f"one class draw at openness {', '.join(single)}"
    fewest = min(numbers.values())
    seen = f"at least {fewest} class draws at {len(numbers)} values of openness"
    return "passed", seen


def _draws(study: Evidence) -> dict[float, set[object]]:
    """Return the different draws of the classes at each openness, in ascending order.

    Other surrogate classes do not make another draw.
    """
    found: dict[float, set[object]] = {}
    for p in sorted(study.protocols, key=lambda one: one.openness):
        sides = frozenset(p.known), frozenset(p.unknown)
        # Nine digits: (4, 3) and (8, 6) have one openness, whatever the rounding.
        draws = found.setdefault(round(p.openness, 9), set())
        draws.add((p.source, sides, p.source_of("unknown")))
    return found


@check("OSR003")
def no_joint_metric(study: Evidence) -> Seen:
    """Look for metrics that are reported without the one that completes them."""
    rows = study.metrics
    names = {row.name for row in rows}
    if not rows:
        return "not applicable", "no metrics named; give results or a headline"
    if "inner_score" in names and not names & _HALFPOINT:
        seen = "Inner without Halfpoint score: rejecting known samples costs nothing"
        return "finding", seen
    joint = sorted({row.name for row in rows if row.errors == "both"})
    detection = {row.name for row in rows if row.errors == "detection"}
    apart = ", ".join(sorted(detection | names & {"accuracy"}))
    if apart and not joint:
        seen = f"only {apart}: none counts both wrong classes and wrong rejections"
        return "finding", seen
    return "passed", f"reported together: {', '.join(joint) or 'none'}"


@check("OSR005")
def misleading_headline(study: Evidence) -> Seen:
    """Look at the headline metric."""
    row = row_of(study.headline)
    if row is None:
        return "not applicable", f"{study.headline!r} is not a metric of this package"
    if row.name in _AVOID:
        return "finding", f"the headline {study.headline!r} {_AVOID[row.name]}"
    return "passed", f"the headline is {study.headline!r}"


@check("OSR011")
def tuned_on_test(study: Evidence) -> Seen:
    """Look at what hyper-parameters were chosen on."""
    leaks = [TUNED_ON[origin] for origin in study.tuned_on if TUNED_ON[origin]]
    if leaks:
        return "finding", f"hyper-parameters were chosen on {' and '.join(leaks)}"
    seen = f"hyper-parameters were chosen on: {', '.join(study.tuned_on)}"
    return "passed", seen


@check("OSR010")
def claim_within_noise(study: Evidence) -> Seen:
    """Compare the claimed difference with the interval of the measured one."""
    claim: Claim = study.claim  # type: ignore[assignment]  # the check needs it
    metric = claim.metric or study.headline
    why = ["the claim names no metric, and there is no headline"] * (not metric)
    for source in (_from_results, _from_scores) if metric else ():
        try:
            interval = source(study, claim, metric)
            break
        except (ValueError, PairingWarning) as error:  # runs or samples are missing
            why.append(str(error))
    else:
        return "not applicable", "; ".join(why)
    seen = (
        f"{metric}: {claim.difference:g} claimed, {_LEVEL:.0%} interval of the "
        f"difference {interval.low:.4f} to {interval.high:.4f} ({interval.method})"
    )
    # Absolute values: some metrics fall with quality. The claim may be rounded.
    least, most = sorted((abs(interval.low), abs(interval.high)))
    is_wide = (interval.high - interval.low) / 2 >= claim.difference > least
    if 0.0 in interval or is_wide:
        return "finding", seen
    if claim.difference > 1.1 * most:
        return "finding", f"{seen}: smaller than claimed"
    return "passed", seen


def _pair(claim: Claim, names: Iterable[str]) -> list[str]:
    """Return the names of the two methods that are compared; raise if there are not."""
    have = [*names]
    pair = [claim.better, claim.worse] if claim.better and claim.worse else have
    if len(pair) != 2 or not {*pair} <= {*have}:
        got = f"a study of {', '.join(have) or 'nothing'}"
        _check.fail("Claim", "better and worse", "of two of the methods", got)
    return pair


def _from_results(study: Evidence, claim: Claim, metric: str) -> Interval:
    """Return the interval of the paired test over independent runs."""
    rows = study.results.where(metric=metric)
    names = names_of(rows)
    pair = _pair(claim, names.values())
    (test,) = paired_t(
        Results(row for row in rows if names[who(row)] in pair), pool=True
    )
    if test.n < 2:
        _check.fail("OSR010", "results", "of several runs", test.over)
    told = f"paired t, {test.over}"
    told += ": other classes may differ more" if "one draw" in told else ""
    if test.low is None or test.high is None:  # the same difference in all runs
        return Interval(test.difference, test.difference, _LEVEL, told)
    return Interval(test.low, test.high, _LEVEL, told)


def _from_scores(study: Evidence, claim: Claim, metric: str) -> Interval:
    """Return the interval of `stats.compare` on two sets of scores."""
    pair = _pair(claim, study.scores)
    # Names in a file must not make `compare` import code.
    _check.one_of("OSR010", "metric", metric, [row.key for row in table()])
    a, b = (study.sets[name] for name in pair)
    both = [one.threshold.value for one in (a, b) if one.threshold is not None]
    at = (both[0], both[1]) if len(both) == 2 else None
    with warnings.catch_warnings():
        warnings.simplefilter("error", PairingWarning)
        found = compare(a.scores, b.scores, metric, threshold=at, resamples=_RESAMPLES)
    return found.interval
