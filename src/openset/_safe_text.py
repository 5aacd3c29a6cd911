"""Text of others, safe to show in a terminal or to open in a spreadsheet."""

import re
from typing import Any

# Terminals act on control characters (C0 and C1, but for tab and newline), and text
# is shown in another order after a bidirectional override.
_CONTROL = re.compile(r"[^\n\t -~\xa0-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str) -> str:
    r"""Replace characters that a terminal would act on instead of showing them.

    Examples
    --------
    >>> visible("\x1b[2Jcat")
    '�[2Jcat'
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def csv_cell(value: Any) -> Any:
    """Return a cell of a CSV file, safe to open in a spreadsheet.

    Text that would be taken for a formula gets a "'" in front. Numbers, and text that
    is one, stay as they are.

    Examples
    --------
    >>> csv_cell("=HYPERLINK(1)"), csv_cell("-1.5"), csv_cell(-1.5), csv_cell("cat")
    ("'=HYPERLINK(1)", '-1.5', -1.5, 'cat')
    """
    if not isinstance(value, str):
        return value
    if value.startswith(_FORMULA) and not _is_number(value):
        value = f"'{value}"
    return visible(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
