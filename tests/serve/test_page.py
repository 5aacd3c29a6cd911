"""The page at /, in a real browser, with a real server behind it."""

import json

import pytest
from tests.serve.live import serving
from tests.waiting import PATIENCE

webdriver = pytest.importorskip("selenium.webdriver", reason="drives a browser")
from selenium.webdriver.common.by import By  # noqa: E402  # after the guard
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402
from tests.browser import look_in_all_sizes, needs_browser, start  # noqa: E402


@needs_browser
def test_a_person_tries_the_rejector(logits_folder, by_logits, test_split, tmp_path):
    with serving(logits_folder) as live, start(tmp_path / "browser") as browser:
        _walk(browser, live, by_logits, test_split.take(slice(0, 9)), tmp_path)


def _walk(browser, live, rejector, outputs, tmp_path):
    def find(name):
        return browser.find_element(By.ID, name)

    def wait(condition):
        WebDriverWait(browser, PATIENCE).until(lambda _: condition())

    def paste(text):
        script = "arguments[0].value = arguments[1]"
        browser.execute_script(script, find("text"), text)
        find("send").click()

    def visit():
        browser.get(live.url)
        wait(lambda: "msp" in find("about").text)

    visit()
    assert "cat, dog, eel" in find("about").text
    find("example").click()
    find("send").click()
    wait(lambda: "of 2 unknown" in find("sum").text)
    # The table says what Python says.
    paste(json.dumps({"logits": outputs.logits.tolist()}))
    decided = rejector.decide(outputs)
    wait(lambda: f"{decided.n_rejected} of 9 unknown" in find("sum").text)
    rows = [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in browser.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]
    for row, label, known in zip(rows, decided.labels, decided.known, strict=True):
        assert row[1] == rejector.name_of(label)
        assert float(row[3]) == pytest.approx(known, rel=1e-3)
    # A threshold of one's own; a file; mistakes in words.
    find("threshold").send_keys("1000")
    find("send").click()
    wait(lambda: "9 of 9 unknown" in find("sum").text)
    find("threshold").clear()
    find("files").send_keys(str(outputs.save(tmp_path / "outputs.npz")))
    find("send").click()
    wait(lambda: f"{decided.n_rejected} of 9 unknown" in find("sum").text)
    visit()
    for text, words in {"[[1, 2": "must be JSON", "[[1]]": "must be 3"}.items():
        paste(text)
        wait(lambda words=words: words in find("error").text)
    sizes = [(360, 740), (1200, 800)]
    look_in_all_sizes(browser, visit, tmp_path, "serve", sizes)
    loud = [one for one in browser.get_log("browser") if "422" not in one["message"]]
    assert not loud
