"""`Finding`: the result of one check; `check`: makes a function one."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from openset.checks.evidence import ABOUT, Evidence

Status = Literal["passed", "finding", "not applicable"]

Seen: TypeAlias = tuple[Status, str]
"""What a check returns: its status, and what it saw or what it lacks."""

Look: TypeAlias = Callable[[Evidence], Seen]


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
    remedy: str
    link: str

    @property
    def is_finding(self) -> bool:
        """Whether the check found a problem."""
        return self.status == "finding"

    def to_dict(self) -> dict[str, Any]:
        """Return a plain record, for JSON and tables."""
        return asdict(self)


_CHECKS: dict[str, Look] = {}


def check(code: str) -> Callable[[Look], Look]:
    """Make a function the check of this code in ``checks.toml``."""

    def listed(look: Look) -> Look:
        _CHECKS[code] = look
        return look

    return listed


def findings(study: Evidence) -> list[Finding]:
    """Make all checks, in the order of their codes."""
    made = []
    for code, about in ABOUT.items():
        needs = about.get("needs", "")
        status: Status = "not applicable"
        if needs and not getattr(study, needs):
            message = f"no {needs} given"
        else:
            status, message = _CHECKS[code](study)
        if study.n_left_out and status == "passed" and "reads_scores" in about:
            n = len(study.scores)
            message += f" (a sample: {n:,} of {n + study.n_left_out:,} sets of scores)"
        finding = Finding(
            code=code,
            title=about["title"],
            status=status,
            message=message,
            remedy=about["remedy"] if status == "finding" else "",
            link=f"docs/checks.md#{code.lower()}",
        )
        made.append(finding)
    return made
