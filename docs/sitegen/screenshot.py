"""Photograph the threshold explorer of the demo's report: run by `make docs`.

The picture keeps a hash of the files that the report is made from, so that a test can
tell when it is out of date. It needs chromium and chromedriver.
"""

import hashlib
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "figures" / "explorer.png"
REPORT = ROOT / "src" / "openset" / "report"
SOURCES = ("page.css", "page.html.j2", "page.js")
KEY = "sources"


def fingerprint() -> str:
    """Return a hash of the files that decide how the report looks."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((REPORT / name).read_bytes())
    return digest.hexdigest()


def taken_of() -> str:
    """Return the hash that the picture was taken with."""
    from PIL import Image

    with Image.open(PICTURE) as picture:
        return str(picture.info.get(KEY, ""))


def take() -> None:
    """Run the demo, open its report and save a picture of the explorer."""
    import io
    import shutil

    from PIL import Image, PngImagePlugin
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from typer.testing import CliRunner

    from openset.cli import app

    driver = Service(shutil.which("chromedriver"))  # else one is looked for online
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
    ):
        options.add_argument(word)
    options.add_argument("--window-size=1180,3000")
    with tempfile.TemporaryDirectory() as folder:
        ran = CliRunner().invoke(app, ["demo", "--out", folder])
        if ran.exit_code:
            raise RuntimeError(ran.output)
        browser = webdriver.Chrome(options=options, service=driver)
        try:
            browser.get((Path(folder) / "report.html").as_uri())
            # The picture ends with a whole figure and a whole table.
            rest = "document.querySelectorAll('#explorer .controls, #explorer .near')"
            browser.execute_script(f"for (const one of {rest}) one.remove()")
            found = browser.find_element(By.ID, "explorer").screenshot_as_png
        finally:
            browser.quit()
    image = Image.open(io.BytesIO(found)).convert("RGB").quantize(128)
    notes = PngImagePlugin.PngInfo()
    notes.add_text(KEY, fingerprint())
    image.save(PICTURE, pnginfo=notes, optimize=True)


if __name__ == "__main__":
    take()
