"""The page in a real browser: opens, updates, sorts, downloads, comes back by itself, and can be used by everyone."""

import json
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from boards import MODEL, board, moment
from playwright.sync_api import expect

import siag
from siag.activity import Trace
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.recorded import Recorded

WIDTHS = (360, 800, 1440)


def figures(page):
    """The figures by name."""
    return page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#figures > div')]"
        ".map(tile => [tile.querySelector('dt').textContent, tile.querySelector('dd').textContent]))"
    )


def begins_with(page, *names):
    """The first workers of the table are these, or soon will be."""
    for k, name in enumerate(names):
        expect(page.locator("#workers tbody .name").nth(k)).to_have_text(name)


def drawn(page, canvas):
    """How many different colours there are on a canvas: an empty one has one."""
    return page.evaluate(
        """id => { const canvas = document.getElementById(id);
        const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size; }""",
        canvas,
    )


def test_it_opens_and_follows_the_run(opened, serving):
    shown = board()
    page = opened(serving(shown).address)
    expect(page.locator("#status")).to_have_text("training")
    expect(page.locator("#shares-said")).to_contain_text("The busiest worker (edge-0) sends 48 % of all reports")
    assert all(drawn(page, canvas) > 3 for canvas in ("curve", "shares", "lanes"))
    before = figures(page)["Iteration"]
    shown.show(moment(20.0, warnings=("the step is too large; make it smaller",)))
    expect(page.locator("#alerts")).to_have_text("Warning: the step is too largeWhat to do: make it smaller")
    assert figures(page)["Iteration"] != before
    shown.event("problem: the disk is full")
    expect(page.locator("#events li").first).to_contain_text("the disk is full")
    shown.end()
    expect(page.locator("#status")).to_have_text("ended")


def test_what_others_say_is_text(opened, serving):
    shown = board()
    shown.event("<img src=x onerror=alert(1)><b>bold</b>")
    page = opened(serving(shown).address)
    expect(page.locator("#events li").first).to_contain_text("<img src=x onerror=alert(1)><b>bold</b>")
    assert page.locator("#events b, #events img").count() == 0


def test_it_comes_back_by_itself_when_the_server_does(opened, serving):
    first = serving(board(3))
    page = opened(first.address)
    expect(page.locator("#workers tbody tr")).to_have_count(3)
    first.close()
    expect(page.locator("#status")).to_have_text("ended")
    serving(board(5), first.port)
    expect(page.locator("#workers tbody tr")).to_have_count(5, timeout=15_000)
    expect(page.locator("#status")).to_have_text("training")


def test_the_table_is_sorted_filtered_and_turned(opened, serving):
    page = opened(serving(board(120)).address)
    page.locator("#workers tbody tr").nth(49).wait_for()
    expect(page.locator("#which")).to_have_text("1 to 50 of 120")
    page.get_by_role("button", name="Worker", exact=True).click()
    begins_with(page, "edge-0", "edge-1", "edge-2")
    page.get_by_role("button", name="Worker").first.press("Enter")
    expect(page.locator("#workers th").first).to_have_attribute("aria-sort", "descending")
    begins_with(page, "edge-119")
    page.get_by_role("button", name="Next").click()
    begins_with(page, "edge-69")
    page.get_by_role("button", name="Loss").click()
    begins_with(page, "edge-119")
    page.get_by_role("searchbox").fill("left")
    expect(page.locator("#workers tbody tr")).to_have_count(1)


def test_newcomers_have_lanes_and_relays_say_what_they_count_for(opened, serving):
    shown = board(2)
    page = opened(serving(shown).address)
    weight = page.locator("#workers th").nth(5)
    expect(page.locator("#workers tbody tr")).to_have_count(2)
    expect(weight).to_be_hidden()
    later = moment(20.0, 3)
    first, *others = later.workers
    shown.show(replace(later, workers=(first._replace(weight=12.0), *others)))
    expect(page.locator("#workers tbody tr")).to_have_count(3)
    expect(weight).to_have_text("weight")
    expect(page.locator("#workers tbody tr").first.locator("td").nth(5)).to_have_text("12")
    expect(page.locator("#shares-said")).to_contain_text("a relay counts for all workers behind it")
    page.locator("#lanes").focus()
    for _ in range(50):
        page.keyboard.press("ArrowLeft")  # to the first column, which was before the third came
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#lanes-said")).to_contain_text("edge-2: expected")


def test_the_page_of_a_relay_says_whose_it_is(opened, serving):
    shown = board()
    shown.begin(
        {"method": "relay of 127.0.0.1:7460", "root": "127.0.0.1:7460", "problem": "streams", "activity": "live"}
    )
    page = opened(serving(shown).address)
    expect(page.locator("#status")).to_have_text("relaying")
    expect(page.locator("#what")).to_have_text("relay of 127.0.0.1:7460 · streams · live")
    expect(page.locator("#shares-said")).to_contain_text("of what this relay sends on")
    assert "Step η" not in figures(page)


def test_a_worker_is_chosen_by_keyboard(opened, serving):
    page = opened(serving(board()).address)
    name = page.get_by_role("button", name="edge-2")
    name.focus()
    name.press("Enter")
    expect(page.locator("#curve-key")).to_contain_text("edge-2")
    expect(name).to_be_focused()
    page.locator("#curve").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#curve-said")).to_contain_text("after")
    page.locator("#lanes").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#lanes-said")).to_contain_text("edge-1")


def test_the_model_is_downloaded(opened, serving, tmp_path):
    page = opened(serving(board()).address)
    for name, read in ((".npy", np.load), ("JSON", lambda path: np.array(json.loads(path.read_text())["w"]))):
        with page.expect_download() as started:
            page.get_by_role("button", name=f"Model as {name}").click()
        path = tmp_path / started.value.suggested_filename
        started.value.save_as(path)
        assert (read(path) == MODEL).all()


def test_a_trace_is_looked_at_at_any_moment(opened, serving):
    reports = 200
    version = np.arange(reports)
    worker = version % 3
    stamp = np.maximum(version - 3, 0) * (version >= 3)
    seconds = version / 10
    given = {"about": {"workers": 3, "method": "SIAG()"}, "loss": 1.0 / (1 + seconds)}
    trace = Trace(version, worker, stamp, version // 3, seconds, np.full(reports, np.nan), reports, **given)
    page = opened(serving(Recorded(trace, alike=True)).address)
    expect(page.locator("#status")).to_have_text("recorded")
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator("#moment")).to_have_text("0.0 s of 20 s")
    iteration = page.locator("#figures dd").first
    expect(iteration).to_have_text("1")
    page.keyboard.press("End")
    expect(iteration).to_have_text("200")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("n", [4, 1000])
def test_nothing_serious_is_in_the_way_of_anybody(opened, serving, theme, n):
    shown = board(n)
    shown.show(moment(10.5, n, warnings=("the step is too large; make it smaller",), problems=("the disk is full",)))
    page = opened(serving(shown).address, color_scheme=theme)
    page.locator("#workers tbody tr").nth(3).wait_for()
    page.locator("details").first.evaluate("details => details.open = true")
    found = Axe().run(page)
    serious = [each for each in found.response["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in serious] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_screen(opened, serving, width):
    page = opened(serving(board(40)).address, viewport={"width": width, "height": 800})
    page.locator("#workers tbody tr").nth(39).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_is_switched_and_kept(opened, serving):
    page = opened(serving(board()).address, color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    for _ in range(2):
        page.get_by_role("button", name="Theme").click()
    assert page.evaluate(paper) != light
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()


def test_several_browsers_see_the_same(opened, serving):
    shown = board()
    served = serving(shown)
    pages = [opened(served.address) for _ in range(3)]
    shown.show(moment(30.0))
    for page in pages:
        expect(page.locator("#figures")).to_contain_text("30 s")


def test_a_run_is_watched_from_the_first_report_to_the_end(opened):
    problem = siag.problems.LeastSquares.random(n=3, d=4, p=2, noise=0.1)
    addresses, told = [], threading.Event()

    class Listening(siag.runtimes.Quiet):
        def event(self, text):
            if text.startswith("dashboard at "):
                addresses.append(text.removeprefix("dashboard at "))
                told.set()

    until = siag.runtimes.Until(seconds=8)
    given = {"until": until, "progress": Listening(), "dashboard": 0}
    running = threading.Thread(target=lambda: siag.train(problem=problem, **given))
    running.start()
    assert told.wait(120)
    page = opened(addresses[0])
    expect(page.locator("#figures dd").first).to_have_text(re.compile("[1-9]"), timeout=60_000)
    expect(page.locator("#workers tbody tr")).to_have_count(3)
    expect(page.locator("#status")).to_have_text("done", timeout=60_000)
    running.join()


def test_a_board_without_a_snapshot_is_a_page_all_the_same(opened, serving):
    page = opened(serving(Board()).address)
    expect(page.locator("#status")).to_have_text("starting")
    assert figures(page)["Iteration"] == "–"
