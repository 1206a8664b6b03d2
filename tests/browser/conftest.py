"""A browser, and boards to look at; run by `make test-browser`, which has Playwright and Debian's Chromium."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.place import Dashboard
from siag.live.monitor.dashboard.server import Served


@pytest.fixture(scope="session")
def chromium():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Opens an address; fails afterwards if the page complained of anything but a server that was away."""
    contexts, complaints = [], []

    def note(text):
        if "ERR_CONNECTION_REFUSED" not in text and "ERR_INCOMPLETE_CHUNKED" not in text:
            complaints.append(text)

    def opening(address, **options):
        context = chromium.new_context(viewport=options.pop("viewport", {"width": 1440, "height": 900}), **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: note(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield opening
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def serving():
    """Serves boards, until the test is over."""
    served = []

    def serve(board=None, port=0):
        made = Served(Dashboard(port=port), Board() if board is None else board)
        served.append(made)
        return made

    yield serve
    for each in served:
        each.close()
