"""Rejectors on the Hugging Face hub, through its public client."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openset import _extras
from openset.rejector._places import MANIFEST

CARD = "README.md"
_STATES = "state*.npz"


def push(
    folder: Path,
    repo: str,
    *,
    token: str | None,
    private: bool | None,
    revision: str | None,
    message: str,
) -> str:
    """Upload a folder as one commit; return its address."""
    hub = _extras.optional("Rejector.push_to_hub", "huggingface_hub", name="hub")
    api = hub.HfApi(token=token)
    name = api.create_repo(repo, private=private, exist_ok=True).repo_id
    done = api.upload_folder(
        repo_id=name,
        folder_path=folder,
        revision=revision,
        commit_message=message,
        allow_patterns=[MANIFEST, CARD, _STATES],
        delete_patterns=[_STATES],  # the arrays of the rejector it replaces
    )
    return str(done.commit_url)


@contextmanager
def fetched(repo: str, *, token: str | None, revision: str | None) -> Iterator[Path]:
    """Yield a folder with the files of a repository of the hub."""
    hub = _extras.optional("Rejector.from_hub", "huggingface_hub", name="hub")
    kept = hub.snapshot_download(
        repo,
        token=token,
        revision=revision,
        allow_patterns=[MANIFEST, _STATES],
    )
    with tempfile.TemporaryDirectory() as temporary:
        # The cache holds links to its files, and links are refused in a rejector.
        folder = Path(temporary) / "rejector"
        shutil.copytree(kept, folder)
        yield folder
