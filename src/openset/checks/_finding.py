"""`Finding`: what one check says about a study; `Check`: how it gets there."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from openset.checks._evidence import Evidence

Status = Literal["passed", "finding", "not applicable"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check says: its code, a status, what was seen and what to do.

    `status` is ``"passed"``, ``"finding"`` or ``"not applicable"`` (the study does not
    hold what the check looks at; the message says what to give). `remedy` is empty
    unless there is something to mend. `link` is the page that explains the check.
    """

    code: str
    title: str
    status: Status
    message: str
    remedy: str = ""
    link: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether there is something to mend."""
        return self.status == "finding"

    def to_dict(self) -> dict[str, Any]:
        """Return a plain record, for JSON and tables."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """What a check found out, before it is given its code and title."""

    status: Status
    message: str
    remedy: str = ""


def passed(message: str) -> Outcome:
    """Say what was seen, and that it is in order."""
    return Outcome("passed", message)


def found(message: str, remedy: str) -> Outcome:
    """Say what is wrong and what to do about it."""
    return Outcome("finding", message, remedy)


def not_applicable(message: str) -> Outcome:
    """Say what the check would have to be given."""
    return Outcome("not applicable", message)


@dataclass(frozen=True)
class Check:
    """One evaluation check.

    `guidelines` are the numbers, in the order of its conclusions, of those guidelines
    of the class-imbalance paper (2024) that the check covers. `reads_scores` tells
    whether it looks at sets of scores, of which a large study has more than are read.
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
