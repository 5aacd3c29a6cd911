"""The page at /, in a real browser, with a real server behind it."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from openset import Outputs
from tests.serve.live import serving
from tests.serve.test_images import picture, png
from tests.waiting import PATIENCE

webdriver = pytest.importorskip("selenium.webdriver", reason="drives a browser")
from selenium.webdriver.common.by import By  # noqa: E402  # after the guard
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from tests.browser import (  # noqa: E402
    look_in_all_sizes,
    needs_browser,
    start,
)

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def by_logits_live(logits_folder):
    with serving(logits_folder) as server:
        yield server


class Page:
    """What a person does on the page, and sees."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.get_log("performance")
        browser.get_log("browser")
        browser.get(url)
        self.wait(lambda: "threshold" in self.text("about"))

    def wait(self, condition):
        """Wait until something is so."""
        WebDriverWait(self.browser, PATIENCE).until(lambda _: condition())

    def find(self, name):
        """Return an element."""
        return self.browser.find_element(By.ID, name)

    def text(self, name):
        """Return what is written there."""
        return self.find(name).text

    def paste(self, text):
        """Paste, and press Ctrl + Enter."""
        field = self.find("text")
        self.browser.execute_script("arguments[0].value = arguments[1]", field, text)
        field.send_keys(Keys.CONTROL, Keys.ENTER)

    def counts(self):
        """Return samples, accepted, unknown."""
        names = ("n", "n-known", "n-unknown")
        return tuple(int(self.text(name).replace(",", "")) for name in names)

    def threshold(self):
        """Return the threshold shown."""
        return float(self.find("exact").get_property("value"))

    def type_threshold(self, value):
        """Type a threshold."""
        field = self.find("exact")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(str(value))

    def rows(self):
        """Return the cells of the table."""
        script = (
            "return [...document.querySelectorAll('#body tr')]"
            ".map(r => [...r.cells].map(c => c.textContent))"
        )
        return self.browser.execute_script(script)


def counts(decisions):
    n_unknown = int(np.count_nonzero(decisions == -1))
    return (len(decisions), len(decisions) - n_unknown, n_unknown)


def as_rows(array):
    return "\n".join(", ".join(map(repr, row)) for row in array.tolist())


def test_numbers_on_the_page_are_those_of_predict(
    browser, by_logits_live, by_logits, test_split
):
    page = Page(browser, by_logits_live.url)
    page.paste(as_rows(test_split.logits))
    page.wait(lambda: page.text("n") == "200")
    decided = by_logits.decide(test_split)
    decisions, scores = decided.labels, decided
    assert page.counts() == counts(decisions)
    assert page.threshold() == by_logits.threshold.value
    # the table says the same, sample by sample
    for row in page.rows():
        i = int(row[0])
        assert row[1] == by_logits.name_of(decisions[i])
        assert row[2] == by_logits.name_of(scores.predicted[i])
        assert float(row[3]) == pytest.approx(scores.known[i], rel=1e-3)
    # the slider, by keyboard
    slider = page.find("slider")
    seen = set()
    for keys in (Keys.ARROW_RIGHT * 40, Keys.ARROW_LEFT * 200, Keys.END, Keys.HOME):
        slider.send_keys(keys)
        assert page.counts() == counts(scores.decided(page.threshold()))
        seen.add(page.counts())
    assert len(seen) == 4
    # the number, to the last bit: the sample itself is accepted, just above it is not
    cut = float(np.sort(scores.known)[77])
    for value in (cut, np.nextafter(cut, np.inf)):
        page.type_threshold(repr(float(value)))
        assert page.counts() == counts(scores.decided(value))
    page.type_threshold("inf")
    assert page.counts() == (200, 0, 200)
    page.find("reset").click()
    assert page.counts() == counts(decisions)


def test_sets_are_shown_and_hold_for_the_calibrated_threshold(
    browser, with_sets, test_split, tmp_path
):
    sets = with_sets.decide(test_split).set_classes
    with serving(with_sets.save(tmp_path / "sets")) as server:
        page = Page(browser, server.url)
        page.paste(as_rows(test_split.logits))
        page.wait(lambda: page.text("n") == "200")
        shown = {int(row[0]): row[3] for row in page.rows()}
        names = {i: ", ".join(with_sets.name_of(c) for c in sets[i]) for i in shown}
        assert shown == names
        assert {"", "cat", "cat, dog"} <= set(shown.values())
        page.type_threshold("-inf")
        page.wait(lambda: page.counts()[2] == 0)
        shown = {int(row[0]): row[3] for row in page.rows()}
        assert shown == {i: name or "not known" for i, name in names.items()}
        assert "The coverage of prediction sets holds for the" in page.text("note")


def test_the_plot_can_be_dragged(browser, by_logits_live, by_logits, test_split):
    page = Page(browser, by_logits_live.url)
    page.paste(as_rows(test_split.logits))
    page.wait(lambda: page.text("n") == "200")
    scores = by_logits.score(test_split)
    before = page.threshold()
    drag = webdriver.ActionChains(browser)
    plot = page.find("plot")
    drag.move_to_element_with_offset(plot, -100, 0).click_and_hold()
    drag.move_by_offset(160, 0).release().perform()
    assert page.threshold() != before
    assert page.counts() == counts(scores.decided(page.threshold()))


def test_files_and_the_filter(browser, live, rejector, test_split, tmp_path):
    page = Page(browser, live.url)
    file = test_split.save(tmp_path / "test.npz")
    page.find("file").send_keys(str(file))
    page.wait(lambda: page.text("n") == "200")
    decisions = rejector.predict(test_split)
    assert page.counts() == counts(decisions)
    page.find("show").send_keys("unknown only")
    wanted = np.flatnonzero(decisions == -1)
    assert [int(row[0]) for row in page.rows()] == wanted[:25].tolist()
    page.find("next").click()
    assert [int(row[0]) for row in page.rows()] == wanted[25:50].tolist()
    few = test_split.take(slice(7))
    text = {"logits": few.logits.tolist(), "features": few.features.tolist()}
    (tmp_path / "few.json").write_text(json.dumps(text))
    page.find("file").send_keys(str(tmp_path / "few.json"))
    page.wait(lambda: page.text("n") == "7")
    assert page.counts() == counts(rejector.predict(few))


@pytest.fixture(scope="module")
def by_images(by_pixels, tmp_path_factory):
    """Serve a network for images: an importable one, as a name of the command."""
    torch = pytest.importorskip("torch", reason="the extra torch")
    pytest.importorskip("onnxruntime", reason="the extra onnx")
    model, rejector = by_pixels
    there = tmp_path_factory.mktemp("images")
    _write_onnx(torch, model.model, there / "model.onnx")
    options = ("--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25")
    folder = rejector.save(there / "rejector")
    with serving(folder, "--model", there / "model.onnx", *options) as server:
        yield server


def _write_onnx(torch, layers, path):
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    state = {k: v.detach().numpy() for k, v in layers[1].state_dict().items()}
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", real, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", real, ["n", 4])],
        [onnx.numpy_helper.from_array(value, name) for name, value in state.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def test_images_are_shown_beside_their_answers(browser, by_images, by_pixels, tmp_path):
    model, rejector = by_pixels
    pictures = [picture(seed, 40) for seed in range(5)]
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for path, pixels in zip(paths, pictures, strict=True):
        path.write_bytes(png(pixels))
    page = Page(browser, by_images.url)
    assert "resized to 16 x 16, RGB" in page.text("hint")
    assert not page.find("text").is_displayed()
    page.find("file").send_keys("\n".join(map(str, paths)))
    page.wait(lambda: page.text("n") == "5")
    expected = rejector.predict(model.apply(pictures, progress=False))
    shown = [row[2] for row in page.rows()]
    assert shown == [rejector.name_of(label) for label in expected]
    script = """
        return [...document.querySelectorAll('#body img')]
          .map(i => [i.alt, i.naturalWidth, i.naturalHeight])"""
    page.wait(lambda: all(w for _, w, _ in browser.execute_script(script)))
    assert browser.execute_script(script) == [[f"{i}.png", 48, 40] for i in range(5)]
    (tmp_path / "bad.png").write_bytes(b"no image")
    page.find("file").send_keys(str(tmp_path / "bad.png"))
    page.wait(lambda: page.find("error").is_displayed())
    assert "bad.png must be a PNG or JPEG image" in page.text("error")


def test_the_page_for_images_fits_a_phone_in_the_dark(browser, by_images, tmp_path):
    there = os.environ.get("OPENSET_SCREENSHOTS", tmp_path)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for seed, path in enumerate(paths):
        path.write_bytes(png(picture(seed, 40)))

    def visit():
        page = Page(browser, by_images.url)
        page.find("file").send_keys("\n".join(map(str, paths)))
        page.wait(lambda: page.text("n") == "5")

    look_in_all_sizes(browser, visit, there, "images", [(390, 1500), (1280, 1000)])


def test_the_example_button_gives_something_to_play_with(browser, live):
    page = Page(browser, live.url)
    page.find("example").click()
    page.wait(lambda: page.text("n") == "60")
    assert sum(page.counts()) == 120


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "There is no input"),
        ("1, 2, x", "“x” is not a number"),
        ("1, 2", "n_classes must be 3, as in fit or calibration, got 2"),
        ('{"logits": [[1, 2], [3]]}', "rows of different lengths"),
        ('{"logits": [[1, 2', "JSON"),
    ],
)
def test_mistakes_are_explained(browser, by_logits_live, text, words):
    page = Page(browser, by_logits_live.url)
    page.paste(text)
    page.wait(lambda: page.find("error").is_displayed())
    assert words in page.text("error")
    page.paste("9, 0, 0\n0.1, 0.2, 0.1")
    page.wait(lambda: page.text("n") == "2")
    assert not page.find("error").is_displayed()


def test_nothing_goes_elsewhere_and_nothing_fails(browser, by_logits_live):
    page = Page(browser, by_logits_live.url)
    page.find("example").click()
    page.wait(lambda: page.text("n") == "60")
    events = [
        json.loads(entry["message"])["message"]
        for entry in browser.get_log("performance")
    ]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    addresses = [url for url in asked if not url.startswith("data:")]
    assert len(addresses) >= 3  # the page, the rejector, a prediction
    assert [u for u in addresses if not u.startswith(by_logits_live.url)] == []
    assert browser.get_log("browser") == []


def test_the_page_fits_a_phone_in_the_dark(browser, by_logits_live, tmp_path):
    """With OPENSET_SCREENSHOTS set, the pictures stay there to be looked at."""
    there = os.environ.get("OPENSET_SCREENSHOTS", tmp_path)

    def visit():
        page = Page(browser, by_logits_live.url)
        page.find("example").click()
        page.wait(lambda: page.text("n") == "60")

    look_in_all_sizes(browser, visit, there, "serve", [(390, 1500), (1280, 1000)])


def test_every_field_has_a_name_for_those_who_cannot_see(browser, by_logits_live):
    page = Page(browser, by_logits_live.url)
    script = """
        return [...document.querySelectorAll('input, select, textarea, button')]
          .filter(e => !(e.labels && e.labels.length) && !e.ariaLabel
                       && !e.textContent.trim())
          .map(e => e.id)"""
    assert page.browser.execute_script(script) == []
    reached = set()
    for _ in range(12):
        webdriver.ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.add(browser.switch_to.active_element.get_attribute("id"))
    assert {"text", "go", "file", "example", "slider", "exact"} <= reached


def test_class_names_are_text_not_markup(browser, by_logits, tmp_path):
    """A name is data of whoever trained the network, and data do not run."""
    evil = "<img src=x onerror=document.title='hacked'>"
    rejector = replace(by_logits, classes=(evil, "b", "c"))
    with serving(rejector.save(tmp_path / "evil")) as server:
        page = Page(browser, server.url)
        page.paste("30, 0, 0")
        page.wait(lambda: page.text("n") == "1")
        assert page.rows()[0][1] == evil
        assert browser.title.startswith("openset")
        assert rejector.predict(Outputs(logits=[[30.0, 0, 0]])).tolist() == [0]


def test_an_invalid_sample_is_shown_as_such(browser, logits_folder, by_logits):
    with serving(logits_folder, "--invalid", "reject") as server:
        page = Page(browser, server.url)
        page.paste("9, 0, 0\ninf, inf, 0\n0, 0.1, 0")
        page.wait(lambda: page.text("n") == "3")
        rows = {row[0]: row[1:] for row in page.rows()}
    assert rows["1"] == ["unknown (invalid)", "–", "–", "–"]
    expected = by_logits.decide(Outputs(logits=[[9.0, 0, 0], [0, 0.1, 0]]))
    for i, known in zip("02", expected.known, strict=True):
        assert float(rows[i][2]) == pytest.approx(known, rel=1e-3)
