"""Whatever happens to a server can be shown, and showing it never stops the server."""

import io
import json
import math
import os
import re
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from rich.console import Console
from snapshots import extreme, snapshot, snapshots, worker

import siag
from siag.live.monitor.view import LOOKS, Screen, view
from siag.live.monitor.watch import (
    JsonLines,
    Quiet,
    Several,
    Terminal,
    give_result,
    tell_begin,
    tell_problem,
    watcher_of,
)
from siag.server.status import State, bin_label

quick = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def console(width=80, height=40, terminal=True, file=None, kind=Console):
    return kind(
        file=file or io.StringIO(),
        width=width,
        height=height,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        _environ={},
    )


def drawn(shown, width=80, height=40):
    """The view of a snapshot as plain lines."""
    screen = console(width, height)
    screen.print(view(shown, screen))
    return CODES.sub("", screen.file.getvalue()).splitlines()


def strict(text):
    """JSON as the standard has it, without NaN."""

    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


class Spy:
    def __init__(self):
        self.heard = []

    def show(self, shown):
        self.heard.append(shown)

    def event(self, text):
        self.heard.append(text)

    def close(self):
        self.heard.append("closed")


def test_bins_hold_the_ages_on_their_labels():
    for age in range(200):
        first, _, last = bin_label(age.bit_length()).partition("-")
        assert int(first) <= age <= int(last or first)


@pytest.mark.parametrize("make", [snapshot, extreme])
@pytest.mark.parametrize("n", [0, 3, 200])
@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_view_fits_its_terminal(width, n, make):
    for height in (24, 50):
        lines = drawn(make(n), width, height)
        assert len(lines) < height
        assert max(map(len, lines)) <= width


@quick
@given(snapshots)
def test_any_snapshot_can_be_drawn(shown):
    for width in (1, 40, 80, 160):
        lines = drawn(shown, width)
        assert all(line.isprintable() for line in lines)  # nothing a terminal might obey came through


@quick
@given(snapshots)
def test_any_snapshot_has_a_summary_in_one_line(shown):
    screen = console(terminal=False)
    watcher = Terminal(screen)
    watcher.show(shown)
    watcher.close()
    text = screen.file.getvalue()
    assert text.endswith("\n")
    assert text[:-1].isprintable()


def test_a_view_says_how_training_goes():
    lines = drawn(snapshot(problems=("disk full",), refused=7, workers=(worker(0, refused=7, reason="too old"),)))
    text = "\n".join(lines)
    for words in ("1,234 of 5,000", "24 %", "1m 15s left", "50 /s", "7 refused", "0.25", "3.0s ago", "✕ disk full"):
        assert words in text
    row, reason = [line.split() for line in lines if "edge-0" in line]
    assert row == ["edge-0", "●", "working", "2.0", "100", "0", "0.1s", "7"]
    assert reason == ["edge-0:", "too", "old"]
    assert [line.split()[-2] for line in lines if "█" in line] == ["69", "23", "7"]


def test_of_many_workers_the_noteworthy_are_shown():
    states = dict.fromkeys(range(200), "working") | {150: "stalled", 160: "refused", 170: "left"}
    many = snapshot(workers=tuple(worker(row, state=state) for row, state in states.items()))
    lines = drawn(many, height=60)
    names = [line.split()[0] for line in lines if line.startswith("edge-")]
    assert names == ["edge-160", "edge-150", *(f"edge-{row}" for row in range(8))]  # the slowest come next
    assert "and 190 more, less noteworthy" in lines
    assert lines[1] == "✕ 1 refused  ◐ 1 stalled  ● 197 working  – 1 left"


def test_a_low_terminal_leaves_workers_out_and_says_so():
    lines = drawn(snapshot(18), height=20)
    assert sum(line.startswith("edge-") for line in lines) + int(lines[-1].split()[1]) == 18


def test_many_bins_are_merged_at_the_thinner_end():
    lines = drawn(snapshot(ages=(1, 1, 1, 1, 5, 6, 7, 8, 9, 2)))
    labels = [line.split()[-4] if len(line.split()) > 3 else line.split()[0] for line in lines if "█" in line]
    assert labels == ["0-7", "8-15", "16-31", "32-63", "64-127", "128-255", "256-511"]


def test_workers_with_the_same_reason_share_a_line():
    gone = [worker(row, state="left", reason="its stream ended") for row in range(5)]
    lines = drawn(snapshot(workers=(*gone, worker(9, state="refused", reason="too old"))))
    assert lines[-2:] == ["  edge-0, edge-1, edge-2 and 2 more: its stream ended", "  edge-9: too old"]


def test_names_are_neither_markup_nor_commands():
    evil = worker(0, name="[red]x[/]\x1b[2J", reason="\x07line\nbreak")
    text = "\n".join(drawn(snapshot(workers=(evil,)), width=160))
    assert "[red]x[/]·[2J" in text
    assert "·line break" in text


def test_events_appear_above_the_live_view_and_the_end_stays():
    screen = console()
    watcher = Terminal(screen)
    watcher.event("before anything")
    watcher.show(snapshot())
    watcher.event("edge-9 [joined]")
    watcher.show(snapshot(done=True))
    watcher.close()
    text = screen.file.getvalue()
    assert text.index("before anything") < text.index("edge-9 [joined]") < text.index("done")
    assert text.endswith("\x1b[?25h")  # the cursor is visible again
    length = len(text)
    watcher.show(snapshot())
    watcher.event("too late")
    watcher.close()
    assert len(screen.file.getvalue()) == length


def test_without_a_terminal_a_line_comes_every_few_seconds():
    screen = console(terminal=False)
    watcher = Terminal(screen)
    for tenth in range(124):
        watcher.show(snapshot(seconds=tenth / 10, version=tenth))
    watcher.event("edge-1 left")
    watcher.close()
    lines = screen.file.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["0", "50", "100", "edge-1", "123"]
    assert "3 working" in lines[0]
    assert len(lines[0]) > 80  # not folded


def test_a_terminal_without_unicode_gets_letters():
    raw = io.BytesIO()
    screen = console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), kind=Screen)
    watcher = Terminal(screen)
    watcher.show(snapshot(problems=("Straße gesperrt",)))
    watcher.event("müde")
    watcher.close()
    text = raw.getvalue().decode("ascii")
    assert "####" in text
    assert "x Stra?e gesperrt" in CODES.sub("", text)
    assert "m?de" in text


class Gone(io.StringIO):
    """A stream that takes so many pieces of text, then fails."""

    def __init__(self, error, pieces=0):
        super().__init__()
        self.error, self.pieces = error, pieces

    def write(self, text):
        self.pieces -= 1
        if self.pieces < 0:
            raise self.error
        return super().write(text)


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "disk full"), SystemExit(1), RuntimeError()])
@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("pieces", [0, 1, 2, 3])
def test_a_terminal_that_went_away_is_left_alone(terminal, error, pieces):
    before = sys.stdout, sys.stderr
    watcher = Terminal(console(terminal=terminal, file=Gone(error, pieces), kind=Screen))
    for second in range(0, 50, 10):
        watcher.show(snapshot(seconds=second))
        watcher.event("nobody reads this")
    watcher.close()
    assert (sys.stdout, sys.stderr) == before


def test_a_snapshot_that_cannot_be_drawn_is_left_out():
    screen = console()
    watcher = Terminal(screen)
    watcher.show(snapshot(ages=None))
    watcher.show(snapshot())
    watcher.close()
    assert "1,234 of 5,000" in screen.file.getvalue()


def test_what_is_printed_to_standard_error_appears_above_the_view(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    watcher = Terminal(Screen(stderr=True, width=80, height=40, force_terminal=True, _environ={}))
    watcher.show(snapshot())
    print("a warning", file=sys.stderr)
    watcher.close()
    assert sys.stderr is stream
    assert "a warning" in stream.getvalue()


def test_the_default_is_standard_error(capsys):
    watcher = Terminal()
    watcher.show(snapshot())
    watcher.close()
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("iteration 1,234 of 5,000, 24 % · ● 3 working · updates 50 /s, 1m 15s left · reports 4,321")


@quick
@given(snapshots)
def test_json_lines_are_strict_json_and_whole(shown):
    stream = io.StringIO()
    watcher = JsonLines(stream)
    watcher.show(shown)
    document = strict(stream.getvalue())["snapshot"]
    assert stream.getvalue().count("\n") == 1
    assert [(each["name"], each["reports"]) for each in document["workers"]] == [
        (each.name, each.reports) for each in shown.workers
    ]
    for name in ("version", "target", "reports", "refused", "ages", "problems"):
        given = getattr(shown, name)
        assert document[name] == (list(given) if isinstance(given, tuple) else given)
    for name in ("seconds", "rate", "loss", "saved"):
        given = getattr(shown, name)
        assert document[name] == (given if given is not None and math.isfinite(given) else None)


def test_events_are_json_lines_with_the_time_since_the_start():
    stream = io.StringIO()
    watcher = JsonLines(stream)
    watcher.event("early")
    watcher.show(snapshot(seconds=1000.0))
    watcher.event("a\nb")
    watcher.close()
    watcher.event("late")
    early, shown, event = map(strict, stream.getvalue().splitlines())
    assert early["event"] == "early"
    assert early["seconds"] >= 0
    assert shown["seconds"] == 1000.0
    assert event["event"] == "a\nb"
    assert event["seconds"] >= 1000.0


def test_a_broken_pipe_silences_json_lines():
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as stream:  # closing it does not fail either
        watcher = JsonLines(stream)
        watcher.show(snapshot())
        os.close(reader)
        watcher.show(snapshot())
        watcher.event("nobody reads this")
        watcher.close()


@pytest.mark.parametrize("error", [OSError(28, "disk full"), ValueError("I/O operation on closed file")])
def test_a_stream_that_fails_silences_json_lines(error):
    stream = Gone(error, pieces=1)
    watcher = JsonLines(stream)
    for _ in range(3):
        watcher.show(snapshot())
    assert stream.pieces == -1  # it was tried once more, and never again


def test_several_pass_on_to_all_and_close_all_even_if_one_fails():
    class Stuck(Spy):
        def close(self):
            raise OSError("stuck")

    first, last, shown = Stuck(), Spy(), snapshot()
    both = Several([first, Quiet(), last])
    both.show(shown)
    both.event("hello")
    with pytest.raises(OSError, match="stuck"):
        both.close()
    assert first.heard == [shown, "hello"]
    assert last.heard == [shown, "hello", "closed"]


def test_every_state_has_a_look():
    assert set(LOOKS) == set(State)


class Keen(Spy):
    """A watcher that wants all there is."""

    def begin(self, about):
        self.heard.append(("begin", about))

    def problem(self, text):
        self.heard.append(("problem", text))

    def result(self, run):
        self.heard.append(("result", run))


def test_a_list_of_watchers_is_told_all_and_each_what_it_wants():
    keen, plain = Keen(), Spy()
    both = watcher_of([keen, False, plain])
    assert [type(each) for each in both.watchers] == [Keen, Quiet, Spy]
    tell_begin(both, {"d": 3})
    tell_problem(both, "a disk is full")
    both.close()
    give_result(both, "the run")
    assert keen.heard == [("begin", {"d": 3}), ("problem", "a disk is full"), "closed", ("result", "the run")]
    assert plain.heard == ["a disk is full", "closed"]


def test_a_run_tells_its_watchers_what_it_is_and_what_came_of_it():
    keen = Keen()
    data = [([1.0], 2.0)] * 4
    step, runtime = siag.steps.Constant(0.1), siag.Simulated()
    run = siag.train(siag.losses.Squared(), [data], np.zeros(2), step=step, runtime=runtime, progress=[keen])
    assert keen.heard[0][0] == "begin"
    assert (keen.heard[0][1]["d"], keen.heard[0][1]["workers"]) == (2, 1)
    assert keen.heard[-2:] == ["closed", ("result", run)]
