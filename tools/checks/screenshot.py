"""Photographs the page of a running ``exhird serve``, with its first example: for the documents.

Needs what `make test-browser` installs.
example: python tools/checks/screenshot.py http://127.0.0.1:8000/ docs/page.png
"""

from __future__ import annotations

import argparse
import os
import shutil


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="URL")
    parser.add_argument("output", metavar="FILE", help="a .png")
    parser.add_argument("--dark", action="store_true")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        scheme = "dark" if args.dark else "light"
        page = browser.new_page(viewport={"width": 1100, "height": 1130}, color_scheme=scheme)
        page.goto(args.address)
        page.locator("#examples button").first.click()
        page.locator("#list .phrase").nth(1).focus()
        page.locator("#look").wait_for()
        page.locator("h1").click()  # so that nothing has the focus ring
        page.screenshot(path=args.output)
        browser.close()
    Image.open(args.output).quantize(96).save(args.output, optimize=True)  # a third of the size, the same to the eye


if __name__ == "__main__":
    main()
