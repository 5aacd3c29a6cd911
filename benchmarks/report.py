"""The report: file size, time to write and to open, a folder of ten thousand cells.

    python benchmarks/report.py

Needs the extra `dev`; the times to open a page also Debian's chromium and chromedriver.
Writes its table to benchmarks/README.md.
"""

import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from _measure import machine, put_section, seconds

from openset import Scores, evaluate, report, runs

SIZES = (10_000, 100_000)
CELLS = 10_000
REPEATS = 7


def scores(n: int, seed: int = 0) -> Scores:
    """Draw scores of ten classes and three groups of unknowns."""
    rng = np.random.default_rng(seed)
    is_unknown = rng.random(n) < 0.4
    labels = np.where(is_unknown, -1, rng.integers(0, 10, n))
    guess = rng.integers(0, 10, n)
    predicted = np.where(is_unknown | (rng.random(n) < 0.15), guess, labels)
    return Scores(
        labels=labels,
        predicted=predicted,
        known=rng.normal(size=n) + np.where(is_unknown, 0.0, 2.0),
        groups=np.where(is_unknown, rng.choice(["a", "b", "c"], n), "test"),
    )


def write_cells(folder: Path) -> None:
    """Write ten thousand finished cells: 20 problems, 20 methods, 25 seeds."""
    test = scores(500)
    found = evaluate(test, 1.0)
    rng = np.random.default_rng(0)
    for i in range(CELLS):
        key = {
            "protocol": f"problem {i % 20}",
            "repeat": 0,
            "model": "mlp",
            "method": "",
            "detector": f"detector {i // 20 % 20}",
            "seed": i // 400,
        }
        rows = [
            {
                "metric": name,
                "value": value + float(rng.normal()) / 100,
                "low": None,
                "high": None,
                "n": 500,
            }
            for name, value in found.values_.items()
        ]
        keep = i // 400 == 0  # scores of the first seed
        runs.Cell(key=key, rows=rows).save(folder, scores=test if keep else None)


def opened(path: Path) -> str:
    """Time a fresh load until the explorer shows its numbers, and one move of it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    driver = shutil.which("chromedriver")
    if not options.binary_location or driver is None:
        return "no browser | no browser"
    with tempfile.TemporaryDirectory() as profile:
        for flag in ("--headless", "--no-sandbox", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            loads, moves = [], []
            for _ in range(REPEATS):
                browser.get("about:blank")
                browser.get(path.resolve().as_uri())
                # From the request to the end of our script, by the browser's clock.
                timing = "return performance.getEntriesByType('navigation')[0].duration"
                loads.append(browser.execute_script(timing))
                move = """
                    const s = document.getElementById('x-slider'), done = arguments[0];
                    s.value = s.value > 500 ? 100 : 900;
                    const start = performance.now();
                    s.dispatchEvent(new Event('input'));
                    requestAnimationFrame(() => done(performance.now() - start));"""
                moves.append(browser.execute_async_script(move))
        finally:
            browser.quit()
    load, move = statistics.median(loads), statistics.median(moves)
    return f"{load:.0f} ms ({min(loads):.0f} – {max(loads):.0f}) | {move:.0f} ms"


def main() -> None:
    """Measure and put the section into benchmarks/README.md."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in SIZES:
            scores(n).save(folder / "scores.npz")
            start = time.perf_counter()
            path = report.write(
                folder / "scores.npz", folder / "page.html", threshold=1
            )
            took = time.perf_counter() - start
            size = path.stat().st_size / 1e6
            lines.append(
                f"| {n:,} | {seconds(took)} | {size:.2f} MB | {opened(path)} |"
            )
        write_cells(folder / "study")
        start = time.perf_counter()
        found = runs.results(folder / "study")
        reading = time.perf_counter() - start
        start = time.perf_counter()
        path = report.write(folder / "study", folder / "study.html")
        writing = time.perf_counter() - start
        size = path.stat().st_size / 1e6
        rows = len(found)
    table = "\n".join(lines)
    put_section(
        "report",
        f"""## Report

`python benchmarks/report.py` on {machine()}.

One file of scores, ten classes; opened from disk in headless Chromium {REPEATS} times,
median (fastest – slowest) until the page has run its script. Then the threshold jumps
from one end to the other, until numbers, matrix and examples are updated.

| samples | to write | file | to open | to update |
|---|---|---|---|---|
{table}

A folder of {CELLS:,} cells ({rows:,} numbers) is read into `Results` in
{seconds(reading)} and reported (read, aggregated, checked, drawn) in
{seconds(writing)}; the page has {size:.2f} MB.""",
    )


if __name__ == "__main__":
    main()
