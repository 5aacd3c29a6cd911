"""README.md as PyPI shows it: with links to the repository. Run by each build."""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(!?)(\[[^\]]*\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")


def absolute(text: str, repository: str, tag: str) -> str:
    """Return Markdown with links to files of the repository, as of a tag.

    Examples
    --------
    >>> absolute("[start](docs/a.md#b)", "https://host/us", "v1")
    '[start](https://host/us/blob/v1/docs/a.md#b)'
    """

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        address = f"{repository.rstrip('/')}/{kind}/{tag}/{found[3]}"
        return f"{found[1]}{found[2]}{address}{found[4]}"

    return _LINK.sub(link, text)


def get_metadata_hook() -> type:
    """Return the hook of the build, under the name that hatchling looks for."""
    # Imported here: only builds have it.
    from hatchling.metadata.plugin.interface import MetadataHookInterface  # noqa: PLC0415

    class Readme(MetadataHookInterface):
        """Without an address of the repository, the text stays as it is."""

        def update(self, metadata: dict[str, Any]) -> None:
            """Set the field `readme`."""
            text = (Path(self.root) / "README.md").read_text("utf-8")
            repository = metadata.get("urls", {}).get("Repository")
            if repository:
                text = absolute(text, repository, f"v{metadata['version']}")
            metadata["readme"] = {"content-type": "text/markdown", "text": text}

    return Readme
