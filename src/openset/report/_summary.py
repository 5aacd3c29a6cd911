"""Sentences on top of the page: what came out, and whether it is more than chance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

from openset._types import UndefinedMetricError
from openset.report import _leaderboard
from openset.report._figures import View, has_both
from openset.report._leaderboard import Board
from openset.report._report_data import Material, Run
from openset.report._svg import readable
from openset.scores import Scores
from openset.stats import compare, paired_t


def counts(material: Material, boards: Mapping[str, Board]) -> list[str]:
    """Say how much was run."""
    methods = {run.method for run in material.runs}
    of_each = Counter((run.method, run.protocol) for run in material.runs)
    said = [_plural(len(methods), "method"), _plural(len(boards), "problem")]
    if material.folder is None:
        run = material.runs[0]
        return [f"{run.n:,} samples"]
    if max(of_each.values()) > 1:
        # Repeats times seeds; a study may have more of them on one problem.
        most = _plural(max(of_each.values()), "run")
        said.append(most if len(set(of_each.values())) == 1 else f"up to {most}")
        said[-1] += " of each"
    said.append(_plural(len(material.runs), "finished cell"))
    if material.n_failed:
        said.append(f"{material.n_failed:,} failed")
    return said


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def sentences(
    material: Material,
    loaded: Mapping[str, Sequence[tuple[Run, Scores]]],
    boards: Mapping[str, Board],
    headline: str,
    views: Sequence[View],
) -> list[tuple[str, str, str]]:
    """Say what came out: texts, with a name to stress in each."""
    said: list[tuple[str, str, str]] = []
    name = material.headings.text(headline)
    if len(boards) > 1:
        whole = _leaderboard.overview(boards, headline)
        best = whole.methods[0]
        rank = whole.mean_rank[best]
        place = "" if rank is None else f", mean rank {rank:.2f}"
        said.append(
            (
                f"Over {len(boards)} problems, by {name}, ",
                best,
                f" leads: {whole.mean[best]:.4f} on average{place}.",
            )
        )
    else:
        one = next(iter(boards.values()))
        best = one.methods[0]
        top = one.scores[best][headline]
        if len(one.methods) == 1:
            said.append(("", best, f" reaches {name} {_with_spread(top)}."))
        else:
            said.append((f"By {name}, ", best, f" leads with {_with_spread(top)}."))
            second = one.methods[1]
            behind = one.scores[second].get(headline)
            if behind is not None:
                said.append(("Next is ", second, f" with {_with_spread(behind)}."))
    # Of one run each, of differences that are all the same, no test can be made.
    with suppress(UndefinedMetricError):
        said += _lead(material, loaded, best, headline)
    done = [
        run.operation
        for run in material.runs
        if run.method == best
        and run.operation is not None
        and {"oosa", "oracle"} <= set(run.operation)
    ]
    if done:
        reached, oracle = (
            fmean(float(one[name]) for one in done) for name in ("oosa", "oracle")
        )
        over = "" if len(done) == 1 else f" (means of {len(done)} runs)"
        said.append(
            (
                "In operation the threshold of ",
                best,
                f" reaches an open-set accuracy of {reached:.4f}; the best in "
                f"hindsight has {oracle:.4f}{over}.",
            )
        )
    if not any(view.figures for view in views):
        said.append(("No test scores were kept, so there are no figures.", "", ""))
    return said


def _lead_over_runs(
    material: Material, leader: str, headline: str, n_runs: int
) -> list[tuple[str, str, str]]:
    """Test the leader against all others over the runs they share."""
    values: dict[str, dict[tuple[Any, ...], float]] = {}
    for run in material.runs:
        if headline in run.values:
            of_method = values.setdefault(run.method, {})
            of_method[run.protocol, run.repeat] = run.values[headline].value
    order = sorted(values.get(leader, {}))
    table = {
        method: [of_method[at] for at in order]
        for method, of_method in values.items()
        if set(order) <= set(of_method)
    }
    if len(order) < 3 or len(table) < 2:
        return []
    tests = paired_t(table, "holm", against=leader)
    equal = [test.b for test in tests if not test.p_corrected < 0.05]
    how = f"(paired t-tests over {len(order)} of {n_runs} runs, Holm's correction)"
    if not equal:
        return [
            (f"The lead over every other method is more than chance {how}.", "", "")
        ]
    names = ", ".join(readable(name, 40) for name in equal[:4])
    more = f" and {len(equal) - 4} more" if len(equal) > 4 else ""
    return [("The lead over ", f"{names}{more}", f" may be chance {how}.")]


def _lead(
    material: Material,
    loaded: Mapping[str, Sequence[tuple[Run, Scores]]],
    leader: str,
    headline: str,
) -> list[tuple[str, str, str]]:
    """Say whether the lead is more than chance."""
    repeats = {(run.protocol, run.repeat) for run in material.runs}
    if len(repeats) > 1:
        return _lead_over_runs(material, leader, headline, len(repeats))
    pairs = next(iter(loaded.values()), [])[:2]
    if len(pairs) < 2 or headline not in {"openauc", "auroc"}:
        return []
    (_, first), (_, second) = pairs
    is_paired = len(first) == len(second) and (first.labels == second.labels).all()
    if not (is_paired and has_both(first)):
        return []
    found = compare(first, second, headline)
    span = found.interval
    verdict = "" if found.p_value < 0.05 else ": no more than chance would give"
    ends = f"{span.low:+.4f} to {span.high:+.4f}".replace("-", "\N{MINUS SIGN}")
    text = (
        f"On the same samples the lead is {found.difference:.4f} (95 % interval "
        f"{ends}, p = {found.p_value:.2g}){verdict}."
    )
    return [(text, "", "")]


def _with_spread(score: _leaderboard.Score) -> str:
    if score.spread is not None:
        return f"{score.mean:.4f} ± {score.spread:.4f} ({score.n} runs)"
    if score.low is not None and score.high is not None:
        return f"{score.mean:.4f} (95 % interval {score.low:.4f} – {score.high:.4f})"
    return f"{score.mean:.4f}"
