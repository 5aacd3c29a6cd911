"""The page in a real browser: what is dragged is what `evaluate` says."""

import json
import os
from contextlib import contextmanager

import numpy as np
import pytest

from openset import Scores, evaluate, metrics, report, thresholds
from tests.report.studies import scores, write_study

webdriver = pytest.importorskip("selenium.webdriver", reason="drives a browser")
pytest.importorskip("jinja2", reason="the extra report")
from selenium.webdriver.common.by import By  # noqa: E402  # after the guard
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

from tests.browser import (  # noqa: E402
    look_in_all_sizes,
    needs_browser,
    start,
)

pytestmark = needs_browser

SHOWN = {
    "ccr": "ccr",
    "urr": "urr",
    "osa": "osa",
    "f": "f_score",
    "halfpoint": "halfpoint_score",
    "overall": "overall_score",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@contextmanager
def screen(browser, width):
    """Look at pages on a screen of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1}
    size["mobile"] = width < 500
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class Page:
    """What a person does on the page, and sees."""

    def __init__(self, browser, path):
        self.browser = browser
        browser.get_log("performance")
        browser.get_log("browser")
        browser.get(path.resolve().as_uri())

    def find(self, name):
        """Return an element."""
        return self.browser.find_element(By.ID, name)

    def settle(self):
        """Wait for the drawing that the last event asked for."""
        self.browser.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )

    def threshold(self):
        """Return the threshold in force."""
        return float(self.find("x-exact").get_property("value"))

    def alpha(self):
        """Return α as shown."""
        return float(self.find("x-alpha-out").text.split(" ")[0])

    def numbers(self):
        """Return the six numbers."""
        return {name: self.find(f"x-{name}").text for name in SHOWN}

    def matrix(self):
        """Return the counts of the confusion matrix."""
        cells = self.browser.execute_script(
            "return [...document.querySelectorAll('#x-matrix tbody tr')]"
            ".map(r => [...r.querySelectorAll('td')].map(c => c.textContent))"
        )
        return [[int(c.replace(",", "").replace("·", "0")) for c in r] for r in cells]

    def near(self, name):
        """Return the rows just accepted (x-in) or just rejected (x-out)."""
        cells = self.browser.execute_script(
            "return [...document.querySelectorAll('#' + arguments[0] + ' tbody tr')]"
            ".map(r => r.cells[0].textContent)",
            name,
        )
        return [int(cell) for cell in cells]

    def slide(self, name, value):
        """Move a slider as a hand does."""
        self.browser.execute_script(
            "arguments[0].value = arguments[1];"
            "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
            self.find(name),
            str(value),
        )
        self.settle()


def expected(one, threshold, alpha=None):
    found = evaluate(one, threshold)
    values = {name: found[metric] for name, metric in SHOWN.items()}
    if alpha is not None:
        values["osa"] = metrics.osa(one, threshold, alpha=alpha)
    return {name: f"{value:.4f}" for name, value in values.items()}


def agrees(page, one, alpha=None):
    """Compare the page with the library at the threshold the page says."""
    threshold = page.threshold()
    assert page.numbers() == expected(one, threshold, alpha)
    assert page.matrix() == metrics.confusion(one, threshold).matrix.tolist()
    order = np.lexsort((np.arange(len(one)), -one.known))
    k = int(np.count_nonzero(one.known >= threshold))
    assert page.near("x-in") == order[:k][::-1][:6].tolist()
    assert page.near("x-out") == order[k:][:6].tolist()
    return threshold


@pytest.fixture(scope="module")
def lone(tmp_path_factory):
    """Write the page of one file of scores, with ties and infinite scores."""
    folder = tmp_path_factory.mktemp("lone")
    drawn = scores(3, 2000)
    known = drawn.known.copy()
    known[:3] = np.inf, -np.inf, np.inf
    one = drawn.with_known(known)
    one.save(folder / "lone.npz")
    return one, report.write(folder / "lone.npz", folder / "lone.html", threshold=0.917)


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """Write the page of a study of two problems."""
    folder = tmp_path_factory.mktemp("problems")
    return report.write(write_study(folder / "study"), folder / "page.html")


def test_the_numbers_follow_the_threshold_and_equal_evaluate(browser, lone):
    one, path = lone
    page = Page(browser, path)
    assert agrees(page, one) == 0.917
    seen = set()
    for at in (500, 620, 300, 1, 999, 0, 1000, 480):
        page.slide("x-slider", at)
        seen.add(agrees(page, one))
    assert len(seen) == 8
    assert {-np.inf, np.inf} < seen


def test_the_line_is_dragged_with_a_pointer(browser, lone):
    one, path = lone
    page = Page(browser, path)
    plot = page.find("x-plot")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    before = page.threshold()
    hand = webdriver.ActionChains(browser, duration=20)
    hand.move_to_element(plot).click_and_hold()
    for step in (30, -70, 15):
        hand.move_by_offset(step, 0)
    hand.release().perform()
    page.settle()
    assert agrees(page, one) != before


def test_it_moves_by_keys_by_samples_and_to_what_is_typed(browser, lone):
    one, path = lone
    page = Page(browser, path)
    page.find("x-slider").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_UP)
    page.settle()
    first = agrees(page, one)
    assert first > 0.917
    page.find("x-less").send_keys(Keys.ENTER)
    page.settle()
    second = agrees(page, one)
    assert second == one.known[one.known < first].max()
    page.find("x-more").send_keys(Keys.ENTER)
    page.settle()
    assert agrees(page, one) == one.known[one.known > second].min()
    field = page.find("x-exact")
    field.send_keys(Keys.CONTROL, "a")
    for text in ("1.5", ("x", Keys.TAB)):  # nonsense changes nothing
        field.send_keys(*text)
        page.settle()
        assert agrees(page, one) == 1.5


def test_alpha_weighs_osa_and_leads_the_threshold(browser, tmp_path):
    folder = write_study(tmp_path / "study", protocols=("digits",), seeds=1)
    page = Page(browser, report.write(folder, tmp_path / "page.html"))
    documents = [json.loads(p.read_text()) for p in (folder / "cells").iterdir()]
    for place, option in enumerate(Select(page.find("x-cell")).options):
        name = option.text
        Select(page.find("x-cell")).select_by_index(place)
        mine = next(
            d
            for d in documents
            if f"{d['key']['method']} · {d['key']['detector']}" == name
        )
        test = Scores.load(folder / "scores" / f"{mine['id']}.npz")
        calibration = Scores.load(folder / "calibration" / f"{mine['id']}.npz")
        page.find("x-hand").click()
        page.find("x-use").click()
        page.settle()
        assert page.alpha() == 0.5  # what the study reported with
        assert agrees(page, test, 0.5) == mine["threshold"]["value"]
        assert page.numbers()["osa"] == f"{mine['operation']['oosa']:.4f}"
        page.slide("x-alpha", 80)
        assert agrees(page, test, 0.8) == mine["threshold"]["value"]
        page.find("x-calibrated").click()
        page.settle()
        assert agrees(page, test, 0.8) == thresholds.osa(calibration, alpha=0.8).value
        page.find("x-hindsight").click()
        page.slide("x-alpha", 33)
        best = metrics.osa_optimum(test, alpha=0.33)
        assert agrees(page, test, 0.33) == best.threshold
        page.find("x-share").click()
        page.slide("x-slider", 400)
        page.find("x-share").click()
        page.settle()
        agrees(page, test, "counts")


def test_on_paper_it_is_dark_on_light(browser, lone):
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    try:
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": "print", "features": features}
        )
        Page(browser, lone[1])
        style = "return getComputedStyle(document.body).color"
        assert browser.execute_script(style) == "rgb(22, 32, 44)"
        drawing = "return getComputedStyle(document.querySelector('.os-fig text')).fill"
        assert browser.execute_script(drawing) == "rgb(86, 98, 115)"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_no_request_leaves_and_the_console_stays_silent(browser, problems):
    page = Page(browser, problems)
    page.slide("x-slider", 300)
    Select(page.find("view")).select_by_index(2)
    browser.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true })"
    )
    browser.find_element(By.CSS_SELECTOR, ".view:not([hidden]) button.csv").click()
    messages = [
        json.loads(e["message"])["message"] for e in browser.get_log("performance")
    ]
    asked = {
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    }
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {
        problems.resolve().as_uri()
    }
    assert browser.get_log("browser") == []


def test_the_problem_that_is_chosen_is_shown(browser, problems):
    page = Page(browser, problems)

    def shown(part):
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' .view')]"
            ".filter(v => !v.hidden).map(v => v.dataset.view)"
        )
        return browser.execute_script(script, part)

    assert (shown("#leaderboard"), shown("#figures")) == (["all"], ["0"])
    Select(page.find("view")).select_by_visible_text("letters")
    assert shown("#leaderboard") == shown("#figures") == ["1"]
    board = "#leaderboard .view:not([hidden])"
    head = browser.find_element(By.CSS_SELECTOR, f"{board} th:nth-child(2) button")
    for is_falling in (True, False):  # a second click turns the order
        head.click()
        column = browser.execute_script(
            f"return [...document.querySelectorAll('{board} tbody tr')]"
            ".map(r => Number(r.cells[1].dataset.v))"
        )
        assert column == sorted(column, reverse=is_falling)


def test_hostile_names_do_not_run(browser, tmp_path):
    hack = "document.title='hacked'"
    evil = f"<img src=x onerror={hack}></script><script>{hack}</script>"
    write_study(tmp_path / "study", protocols=(evil, "b"), seeds=1, name=evil)
    page = Page(browser, report.write(tmp_path / "study", tmp_path / "page.html"))
    page.slide("x-slider", 500)
    Select(page.find("view")).select_by_index(1)
    assert browser.title == "study · openset report"
    assert evil in page.find("leaderboard").text
    assert browser.get_log("browser") == []


def test_it_fits_a_phone_a_tablet_and_a_desk_in_light_and_dark(
    browser, problems, tmp_path
):
    there = os.environ.get("OPENSET_SCREENSHOTS", str(tmp_path))
    sizes = [(width, 1000) for width in (360, 820, 1400)]
    look_in_all_sizes(browser, lambda: Page(browser, problems), there, "report", sizes)


def test_every_field_has_a_name_for_those_who_cannot_see(browser, lone):
    page = Page(browser, lone[1])
    script = """
        return [...document.querySelectorAll('input, select, button, [role=img]')]
          .filter(e => !(e.labels && e.labels.length) && !e.ariaLabel
                       && !e.textContent.trim())
          .map(e => e.outerHTML.slice(0, 80))"""
    assert browser.execute_script(script) == []
    reached = set()
    for _ in range(25):
        webdriver.ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.add(browser.switch_to.active_element.get_attribute("id"))
    assert {"x-slider", "x-exact", "x-less", "x-alpha", "x-hand"} <= reached
    assert (
        page.find("x-slider").get_attribute("aria-valuetext").startswith("0.917: CCR")
    )


_CLIPPED = """
    return [...document.querySelectorAll('section *, header *')]
      .filter(e => e.clientWidth && !e.closest('svg')
                   && !e.classList.contains('visually-hidden')
                   && !['visible', 'auto'].includes(getComputedStyle(e).overflowX)
                   && e.scrollWidth > e.clientWidth + 1)
      .map(e => e.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("width", [360, 1280])
def test_long_names_and_exact_thresholds_are_not_clipped(browser, tmp_path, width):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(600) < 0.3, -1, rng.integers(0, 30, 600) * 5)
    predicted = np.where(rng.random(600) < 0.7, np.maximum(labels, 0), 7)
    names = [f"a rather long name of class {c}" for c in range(150)]
    known = rng.normal(size=600) + (labels >= 0)
    one = Scores(labels=labels, predicted=predicted, known=known, class_names=names)
    one.save(tmp_path / "many.npz")
    path = report.write(tmp_path / "many.npz", tmp_path / "page.html")
    with screen(browser, width):
        page = Page(browser, path)
        page.settle()
        assert browser.execute_script(_CLIPPED) == []
        heads = browser.execute_script(
            "return [...document.querySelectorAll('#x-matrix tbody th')]"
            ".map(e => e.textContent)"
        )
        assert names[7] not in heads  # predicted often, but no sample is of it
        assert len(heads) > 2
    page.slide("x-slider", 450)  # every sample is counted all the same
    assert page.numbers() == expected(one, page.threshold())
    matrix = np.array(page.matrix())
    rejected = np.count_nonzero(one.known < page.threshold())
    assert (matrix.sum(), matrix[:, -1].sum()) == (len(one), rejected)


def test_it_starts_at_the_threshold_in_use_or_the_oracle(browser, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, -1], [1995, 5])  # the share of known samples rounds to 1
    known = rng.normal(size=2000) + 9 * (labels >= 0)
    one = Scores(labels=labels, predicted=np.zeros(2000, int), known=known)
    path = one.save(tmp_path / "rare.npz")
    used = report.write(path, tmp_path / "used.html", threshold=np.inf)
    page = Page(browser, used)
    assert agrees(page, one) == np.inf
    assert page.find("x-slider").get_property("value") == "1000"
    page = Page(browser, report.write(path, tmp_path / "oracle.html"))
    assert agrees(page, one) == metrics.osa_optimum(one).threshold
    assert page.numbers()["osa"] == f"{evaluate(one)['osa_best']:.4f}"
