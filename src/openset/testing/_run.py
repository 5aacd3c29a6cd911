"""Running checks, and saying which of them failed."""

from collections.abc import Callable, Mapping, Sequence


def run_checks(
    caller: str,
    title: str,
    checks: Mapping[str, Callable[[], None]],
    *,
    skip: Sequence[str],
) -> list[str]:
    """Run all checks but those to skip; raise AssertionError with every failure."""
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
        except Exception as error:  # whatever a guest raises
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
