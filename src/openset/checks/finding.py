"""`Finding`: the result of one check; `check`: lists a function as one."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from openset.checks.evidence import Evidence

Status = Literal["passed", "finding", "not applicable"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check: its code, a status, what was seen and what to do.

    `status` is ``"passed"``, ``"finding"`` or ``"not applicable"`` (something the check
    needs is missing; the message says what to give). `remedy` is empty unless there is
    a problem. `link` is the page that explains the check.
    """

    code: str = ""
    title: str = ""
    status: Status
    message: str
    remedy: str = ""
    link: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether the check found a problem."""
        return self.status == "finding"

    def to_dict(self) -> dict[str, Any]:
        """Return a plain record, for JSON and tables."""
        return asdict(self)


def passed(message: str) -> Finding:
    """Return a passed check: what was seen."""
    return Finding(status="passed", message=message)


def found(message: str, remedy: str) -> Finding:
    """Return a finding: what is wrong, and what to do about it."""
    return Finding(status="finding", message=message, remedy=remedy)


def not_applicable(message: str) -> Finding:
    """Return a check that could not run, with what it needs."""
    return Finding(status="not applicable", message=message)


Look: TypeAlias = Callable[[Evidence], Finding]


class Check(NamedTuple):
    """A check. If it `reads_scores`, it sees only some sets of a large study."""

    title: str
    look: Look
    reads_scores: bool


CHECKS: dict[str, Check] = {}
"""All checks by code."""


def check(
    code: str, title: str, *, reads_scores: bool = False
) -> Callable[[Look], Look]:
    """Put a function on the list of checks."""

    def listed(look: Look) -> Look:
        CHECKS[code] = Check(title, look, reads_scores)
        return look

    return listed


def findings(study: Evidence) -> list[Finding]:
    """Make all checks, in the order of their codes."""
    made = []
    for code, (title, look, reads_scores) in sorted(CHECKS.items()):
        one = look(study)
        if reads_scores and study.n_left_out and one.status == "passed":
            n = len(study.scores)
            part = f"(a sample: {n:,} of {n + study.n_left_out:,} sets of scores)"
            one = replace(one, message=f"{one.message} {part}")
        link = f"docs/checks.md#{code.lower()}"
        made.append(replace(one, code=code, title=title, link=link))
    return made
