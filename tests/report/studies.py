"""Small studies to report on, and a reader of pages."""

import json
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from openset import Scores, evaluate, report, thresholds
from openset.runs import Cell

CLASSES = ("cat", "dog", "eel")


def scores(seed=0, n=400, *, gap=2.0, n_classes=3):
    """Draw scores with two groups of unknowns, and some equal values."""
    rng = np.random.default_rng(seed)
    is_unknown = rng.random(n) < 0.4
    labels = np.where(is_unknown, -1, rng.integers(0, n_classes, n))
    guess = rng.integers(0, n_classes, n)
    predicted = np.where(is_unknown | (rng.random(n) < 0.15), guess, labels)
    groups = np.where(is_unknown, rng.choice(["near", "far"], n), "test")
    shift = np.where(is_unknown, np.where(groups == "near", 0.5, -1.0), gap)
    known = (rng.normal(size=n) + shift).round(3)
    return Scores(
        labels=labels,
        predicted=predicted,
        known=known,
        groups=groups,
        n_classes=n_classes,
    )


def cell(seed, detector, protocol, *, gap, method="", classes=CLASSES):
    """Make one cell with its scores."""
    calibration, test = scores(seed + 500, 300, gap=gap), scores(seed, gap=gap)
    done = thresholds.operate(calibration, test, alpha=0.5)
    found = evaluate(test, done.threshold.value).rows()
    oosa = {"metric": "oosa", "value": done.oosa}
    oosa |= {"low": done.interval.low, "high": done.interval.high}
    names = ("metric", "value", "low", "high")
    rows = [{k: row[k] for k in names} | {"n": len(test)} for row in [*found, oosa]]
    key = {"protocol": protocol, "repeat": 0, "model": "mlp", "method": method}
    key |= {"detector": detector, "seed": seed}
    made = Cell(
        key=key,
        rows=rows,
        threshold=done.threshold.to_dict(),
        operation=done.to_dict() | {"alpha": done.alpha_test},
        classes=classes,
        curve=[{"epoch": i, "outer_score": 0.5 + 0.1 * i} for i in (1, 2, 3)],
        provenance={"machine": "here", "started": 1.0},
    )
    return made, test, calibration


def write_study(folder, *, protocols=("digits", "letters"), seeds=2, name="openauc"):
    """Write a run folder: two problems, two detectors, λ of two values."""
    for p, protocol in enumerate(protocols):
        for seed in range(seeds):
            for detector, gap in (("msp", 1.4), ("postmax", 2.2)):
                for lam in (0.1, 1.0):
                    made, test, calibration = cell(
                        10 * seed + p,
                        detector,
                        protocol,
                        gap=gap + lam / 5,
                        method=f"{name}(lambda={lam})",
                    )
                    made.save(folder, scores=test, calibration=calibration)
    said = {"headline": "openauc", "tuned_on": ["validation"]}
    (folder / "study.json").write_text(json.dumps(said))
    return folder


class Reader(HTMLParser):
    """A page: its source, elements, attributes and visible text."""

    def __init__(self, source):
        super().__init__()
        self.source, self.tags, self.attributes, self.texts = source, [], [], []
        self.feed(source)
        self.text = "".join(self.texts)

    def handle_starttag(self, tag, attrs):
        """Remember an element."""
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        """Remember a text."""
        self.texts.append(data)

    def cells(self):
        """Return the cells of the explorer."""
        data = self.source.partition('id="data">')[2].partition("</script>")[0]
        return json.loads(data)["cells"]

    def rows(self, caption):
        """Return the cells of the table that follows a caption."""
        text = self.source[self.source.index(caption) :]
        body = text.partition("<tbody>")[2].partition("</tbody>")[0]
        cells = [re.findall(r"<td[^>]*>([^<]*)", row) for row in body.split("</tr>")]
        return [one for one in cells if one]


def render(source, **options):
    """Write a page into a folder of its own, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = report.write(source, Path(folder, "page.html"), **options)
        return Reader(path.read_text("utf-8"))
