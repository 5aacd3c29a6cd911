"""Debian's chromium, driven by selenium: for the pages we write and serve."""

import shutil

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="drives a browser")
from selenium.webdriver.chrome.service import Service  # noqa: E402  # after the guard

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no chromium or no chromedriver on this machine"
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def start(profile):
    """Start a browser that keeps a log of its console and of every request."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def look_in_all_sizes(browser, visit, there, name, sizes):
    """Visit a page in light and dark at every size; it must fit, and change colour.

    `visit` opens it. Pictures stay in `there`, to be looked at.
    """
    backgrounds = set()
    try:
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            media = {"features": [feature]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            for width, height in sizes:
                screen = {"width": width, "height": height, "deviceScaleFactor": 1}
                screen["mobile"] = width < 500
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
                visit()
                script = "return document.documentElement.scrollWidth"
                assert browser.execute_script(script) <= width
                picture = f"{there}/{name}-{scheme}-{width}.png"
                assert browser.save_screenshot(picture)
            script = "return getComputedStyle(document.body).backgroundColor"
            backgrounds.add(browser.execute_script(script))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(backgrounds) == 2
