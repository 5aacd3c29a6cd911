"""Headings of metrics: their labels, and whether higher or lower is better."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openset import _check
from openset.metrics import table
from openset.metrics.counts import ALPHA


@dataclass(frozen=True)
class Heading:
    """Label of a metric, and whether higher or lower is better."""

    text: str
    better: str  # "higher", "lower" or "neither"


class Headings(dict[str, Heading]):
    """Headings of metrics by key, in the order of the leaderboard.

    They come from the table of metrics. A study may have metrics that are not installed
    here: its ``study.json`` describes them, ``{"metrics": {"nll": {"label": "NLL",
    "better": "lower"}}}``.
    """

    def __init__(self, settings: Any = None) -> None:
        super().__init__({row.key: Heading(row.short, row.better) for row in table()})
        for key, one in settings.items() if isinstance(settings, Mapping) else ():
            if key not in self and isinstance(one, Mapping):
                better = one.get("better", "neither")
                options = ["higher", "lower", "neither"]
                _check.one_of("report", f"better of {key!r}", better, options)
                self[key] = Heading(str(one.get("label", key)), better)

    def name_alphas(self, alphas: set[float | None]) -> None:
        """Say with which α the operational accuracy was reported, if not with 0.5."""
        told = sorted(alpha for alpha in alphas if alpha is not None)
        if told and told != [ALPHA]:
            weight = " or ".join(f"{alpha:g}" for alpha in told)
            self["oosa"] = Heading(f"OOSA (α = {weight})", self["oosa"].better)

    def text(self, key: str) -> str:
        """Return the label of a metric."""
        return self[key].text if key in self else key.replace("_", " ")

    def sign(self, key: str) -> int:
        """Return -1 if higher values are better, 1 if lower ones are."""
        better = self[key].better if key in self else "neither"
        if better == "neither":
            entry = {"metrics": {key: {"better": "lower"}}}
            msg = _check.must(
                "known",
                caller="report",
                name=f"the direction of {key!r}",
                got="a metric without a direction",
                remedy=f"Install the package it comes from, or add to study.json: "
                f"{json.dumps(entry)}",
            )
            raise ValueError(msg)
        return -1 if better == "higher" else 1
