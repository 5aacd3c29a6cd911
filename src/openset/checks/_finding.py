"""`Finding`: the result of one check; `Check`: a check."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from openset.checks._evidence import Evidence

Status = Literal["passed", "finding", "not applicable"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check: its code, a status, what was seen and what to do.

    `status` is ``"passed"``, ``"finding"`` or ``"not applicable"`` (something the check
    needs is missing; the message says what to give). `remedy` is empty unless there is
    a problem. `link` is the page that explains the check.
    """

    code: str
    title: str
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


@dataclass(frozen=True)
class Outcome:
    """The result of a check, without the check's code and title."""

    status: Status
    message: str
    remedy: str = ""


def passed(message: str) -> Outcome:
    """Return a passed check: what was seen."""
    return Outcome("passed", message)


def found(message: str, remedy: str) -> Outcome:
    """Return a finding: what is wrong, and what to do about it."""
    return Outcome("finding", message, remedy)


def not_applicable(message: str) -> Outcome:
    """Return a check that could not run, with what it needs."""
    return Outcome("not applicable", message)


@dataclass(frozen=True)
class Check:
    """One evaluation check.

    `guidelines` are the numbers of the guidelines of the class-imbalance paper (2024),
    in the order of its conclusions, that the check covers. `reads_scores` tells whether
    it reads sets of scores: of a large study, it then sees only a sample of them.
    """

    code: str
    title: str
    look: Callable[[Evidence], Outcome]
    guidelines: tuple[int, ...] = ()
    reads_scores: bool = False

    @property
    def link(self) -> str:
        """The page that explains the check."""
        return f"docs/checks/{self.code}.md"

    def __call__(self, evidence: Evidence) -> Finding:
        outcome = self.look(evidence)
        message = outcome.message
        if self.reads_scores and evidence.n_left_out and outcome.status == "passed":
            n = len(evidence.scores)
            message += (
                f" (a sample: {n:,} of {n + evidence.n_left_out:,} sets of scores)"
            )
        return Finding(
            code=self.code,
            title=self.title,
            status=outcome.status,
            message=message,
            remedy=outcome.remedy,
            link=self.link,
        )
