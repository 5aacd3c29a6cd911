"""`Finding`: the result of one check; `check`: lists a function as one."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

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


@dataclass(frozen=True)
class Check:
    """One evaluation check.

    `guidelines` are the numbers of the guidelines of the class-imbalance paper (2024),
    in the order of its conclusions, that the check covers. `reads_scores` tells whether
    it reads sets of scores: of a large study, it then sees only some of them.
    """

    code: str
    title: str
    look: Callable[[Evidence], Finding]
    guidelines: tuple[int, ...] = ()
    reads_scores: bool = False

    def finding(self, evidence: Evidence) -> Finding:
        """Look at the evidence, and say which check it was."""
        one = self.look(evidence)
        seen, n_left_out = len(evidence.scores), evidence.n_left_out
        if self.reads_scores and n_left_out and one.status == "passed":
            part = f"(a sample: {seen:,} of {seen + n_left_out:,} sets of scores)"
            one = replace(one, message=f"{one.message} {part}")
        link = f"docs/checks.md#{self.code.lower()}"
        return replace(one, code=self.code, title=self.title, link=link)


CHECKS: dict[str, Check] = {}
"""All checks by code."""


def check(
    code: str, title: str, *guidelines: int, reads_scores: bool = False
) -> Callable[[Callable[[Evidence], Finding]], Callable[[Evidence], Finding]]:
    """Put a function on the list of checks."""

    def listed(look: Callable[[Evidence], Finding]) -> Callable[[Evidence], Finding]:
        CHECKS[code] = Check(code, title, look, guidelines, reads_scores)
        return look

    return listed
