"""Debian's Chromium, and waiting until a page of the portal is complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

SIZES: dict[str, ViewportSize] = {
    "desktop": {"width": 1440, "height": 1000},
    "phone": {"width": 390, "height": 844},
}
# Playwright waits 5 s for an element, which is too short for a page that is computed beside other tests.
expect.set_options(timeout=30_000)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """A browser for the duration of a block, with these flags."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path, "no Chromium on this machine: `make setup-test` installs Debian's"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
        yield browser
        browser.close()


def settled(page: Page) -> None:
    """Wait until the page's script has ended and all its content is displayed."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
