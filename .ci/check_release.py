"""Refuse to build a release from files that do not agree with its tag.

    python .ci/check_release.py v0.1.0
    python .ci/check_release.py          # the tag of this commit; without one: nothing

The version is written in src/openset/_version.py, not taken from the tag: a shallow
clone and an archive of the sources have no tags, and must still know their version.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what keeps these files from being released under a tag."""
    found = []
    (version,) = re.findall(
        r'^__version__ = "(.+)"$',
        (root / "src/openset/_version.py").read_text("utf-8"),
        re.MULTILINE,
    )
    if tag != f"v{version}":
        found.append(f"the tag must be v{version}, as src/openset/_version.py says")
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## {re.escape(version)}\b", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md must have a section {version}")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    if not project.get("urls", {}).get("Repository", "").startswith("https://"):
        found.append(
            "pyproject.toml must have the address of the repository, or the links of "
            'README.md lead nowhere on PyPI: [project.urls] Repository = "https://…"'
        )
    return found


def tags_of_this_commit() -> list[str]:
    """Return its tags that name a version; none outside a repository."""
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "--list", "v*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.split()


if __name__ == "__main__":
    for one in sys.argv[1:] or tags_of_this_commit():
        listed = problems(one)
        if listed:
            sys.exit("\n".join([f"{one} cannot be released:", *listed]))
        print(f"{one}: good")
