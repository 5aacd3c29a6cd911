"""Read the settings beside the results of a study or of training."""

import json
from pathlib import Path
from typing import Any

from openset._types import ArtefactError


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file of settings holds; nothing if there is no such file."""
    if not path.exists():
        return {}
    try:
        settings = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        msg = f"report: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
    return settings if isinstance(settings, dict) else {}
