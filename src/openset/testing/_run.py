"""Run checks and report which of them failed."""

from collections.abc import Callable, Mapping, Sequence


def run_checks(
    caller: str,
    title: str,
    checks: Mapping[str, Callable[[], None]],
    *,
    skip: Sequence[str],
) -> list[str]:
    """Run the checks, except those to skip; raise AssertionError with all failures."""
    unknown = sorted(set(skip) - set(checks))
    if unknown:
        msg = f"{caller}: skip must be among {', '.join(checks)}, got {unknown}"
        raise ValueError(msg)
    passed, failed = [], []
    for name, check in checks.items():
        if name in skip:
            continue
        try:
            check()
        except Exception as error:  # a plug-in may raise anything
            failed.append(f"{name}: {type(error).__name__}: {error}")
        else:
            passed.append(name)
    if failed:
        count = f"{len(failed)} of {len(failed) + len(passed)}"
        msg = "\n- ".join([f"{caller}: {title} fails {count} checks", *failed])
        raise AssertionError(msg)
    return passed


def require(holds: bool, sentence: str) -> None:  # noqa: FBT001  # reads as one
    """Raise AssertionError with this sentence unless it holds."""
    if not holds:
        raise AssertionError(sentence)
