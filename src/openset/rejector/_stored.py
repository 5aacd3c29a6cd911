"""`Stored`: what a rejector is made of, how it is saved and how it is shared."""

import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

from openset import _io
from openset._types import Array
from openset.detectors import Fitted
from openset.rejector import _artefact, _card, _hub
from openset.rejector._parts import Features, Reference
from openset.rejector._places import place_of
from openset.rejector._sets import SetRule
from openset.thresholds import Report, Threshold


class Stored:
    """The parts of a rejector, in memory or on disk."""

    def __init__(
        self,
        fitted: Fitted | Callable[[], Fitted],
        threshold: Threshold,
        *,
        classes: tuple[str, ...] = (),
        reference: Reference | Callable[[], Reference],
        report: Report,
        features: Features | Callable[[], Features] = None,
        sets: SetRule | None = None,
        input_step: str = "",
    ) -> None:
        self._fitted = fitted
        self._reference = reference
        self._features = features
        self.threshold = threshold
        self.classes = tuple(classes)
        self.report = report
        self.sets = sets
        self.input_step = input_step

    def __getstate__(self) -> dict[str, Any]:
        # Other processes get the arrays themselves, not a way to read the file.
        arrays = {
            "_fitted": self.fitted,
            "_reference": self.reference,
            "_features": self.reference_features,
        }
        return {**self.__dict__, **arrays}

    @cached_property
    def fitted(self) -> Fitted:
        """The fitted detector; of a loaded rejector, read from disk on first use."""
        return self._fitted if isinstance(self._fitted, Fitted) else self._fitted()

    def __repr__(self) -> str:
        return f"Rejector({self.fitted.detector!r}, threshold {self.threshold})"

    @cached_property
    def reference(self) -> Reference:
        """Evenly spaced quantiles of the calibration scores, smallest first.

        At most 1025 for the known samples (key ``"known"``), and as many for the
        unknown ones if there are any (key ``"unknown"``).
        """
        return self._reference() if callable(self._reference) else self._reference

    @cached_property
    def reference_features(self) -> Features:
        """Features of known calibration samples, to compare new ones with.

        At most 256 of them, drawn at random; None if the calibration had no features,
        or too few samples.
        """
        return self._features() if callable(self._features) else self._features

    def to(self, like: Array) -> Self:
        """Move the detector to the library and device of an array."""
        return type(self)(
            self.fitted.to(like),
            self.threshold,
            classes=self.classes,
            reference=self.reference,
            report=self.report,
            features=self.reference_features,
            sets=self.sets,
            input_step=self.input_step,
        )

    @overload
    def save(self, folder: Path, *, key: bytes | None = None) -> Path: ...
    @overload
    def save(self, folder: str, *, key: bytes | None = None) -> Path | str: ...
    def save(self, folder: str | Path, *, key: bytes | None = None) -> Path | str:
        """Write a folder with ``manifest.json`` and one ``.npz``. No pickle.

        An existing rejector is replaced in one step: a process that loads it meanwhile,
        or after a crash, gets either the old one or the new one. The folder may be in
        an object store, named by its URL (extra ``cloud``): the manifest is uploaded
        last, and the arrays of earlier rejectors stay there.

        The hashes in the manifest detect accidental damage; someone who changes a file
        on purpose can also write new hashes. With a secret `key` of at least 16 bytes
        the manifest is also signed (HMAC-SHA256), and :meth:`load` with that key
        accepts only rejectors signed with it.
        """
        place = place_of(folder, caller="Rejector.save")
        _artefact.write(
            place,
            fitted=self.fitted,
            threshold=self.threshold,
            classes=self.classes,
            reference=self.reference,
            features=self.reference_features,
            report=self.report,
            sets=self.sets,
            input_step=self.input_step,
            key=key,
        )
        return place

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        plugins: Sequence[str] = (),
        key: bytes | None = None,
    ) -> Self:
        """Open what :meth:`save` wrote; the arrays are read on first use.

        Raises `ArtefactError` if the folder is damaged, truncated, changed since it was
        saved, or written by a newer version; the message says which. From a URL the
        arrays are read at once, and nothing is kept on disk.

        Parameters
        ----------
        folder
            What :meth:`save` wrote; or the URL of such a folder, ``s3://...``,
            ``https://...`` or another one that fsspec knows (extra ``cloud``).
        plugins
            Detectors from outside the package that may be imported, each as
            ``"package.module:Class"``. The file does not decide what is imported: only
            detectors that come with openset, that are registered already, that an
            installed package offers, or that are named here are used.
        key
            The key it was saved with: a rejector that was not signed with it is
            refused, and the arrays are read at once. Without a key, signatures are not
            checked.
        """
        parts = _artefact.read(place_of(folder), plugins=plugins, key=key)
        return cls(**vars(parts))

    def model_card(self, repo: str = "") -> str:
        """Return a model card in Markdown: detector, threshold, calibration, usage.

        Parameters
        ----------
        repo
            Name on the hub, for the title and the example.
        """
        return _card.card(
            self.fitted, self.threshold, self.report, classes=self.classes, repo=repo
        )

    def save_for_hub(
        self, folder: str | Path, *, repo: str = "", key: bytes | None = None
    ) -> Path:
        """Write what :meth:`push_to_hub` uploads: the rejector and its model card.

        The folder is also one that :meth:`load` and the command line open.
        """
        folder = self.save(Path(folder), key=key)
        _io.put(folder / _hub.CARD, self.model_card(repo))
        return folder

    def push_to_hub(
        self,
        repo: str,
        *,
        token: str | None = None,
        private: bool | None = None,
        revision: str | None = None,
        message: str = "Upload a rejector of openset",
        key: bytes | None = None,
    ) -> str:
        """Upload to the Hugging Face hub (extra ``hub``), with a model card.

        Parameters
        ----------
        repo
            ``owner/name``; created if it does not exist.
        token
            Of the hub; by default that of ``hf auth login``.
        private
            Whether a new repository is private; by default as the owner has set.
        revision
            Branch to commit to; by default ``main``.
        message
            Message of the commit.
        key
            Sign it, as in :meth:`save`.

        Returns
        -------
        str
            Address of the commit.
        """
        with tempfile.TemporaryDirectory() as temporary:
            folder = self.save_for_hub(Path(temporary) / "rejector", repo=repo, key=key)
            return _hub.push(
                folder,
                repo,
                token=token,
                private=private,
                revision=revision,
                message=message,
            )

    @classmethod
    def from_hub(
        cls,
        repo: str | Path,
        *,
        token: str | None = None,
        revision: str | None = None,
        plugins: Sequence[str] = (),
        key: bytes | None = None,
    ) -> Self:
        """Open what :meth:`push_to_hub` uploaded, or a folder of that form.

        Parameters
        ----------
        repo
            ``owner/name`` on the Hugging Face hub, or a folder on this machine.
        token
            Of the hub, for private repositories.
        revision
            Branch, tag or commit.
        plugins, key
            As in :meth:`load`.
        """
        if Path(repo).is_dir():
            return cls.load(repo, plugins=plugins, key=key)
        with _hub.fetched(str(repo), token=token, revision=revision) as folder:
            opened = cls.load(folder, plugins=plugins, key=key)
            # Read now: the folder does not stay.
            _ = opened.fitted, opened.reference, opened.reference_features
            return opened
