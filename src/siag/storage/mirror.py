"""A run's state and trace at a URL: written to a local folder, copied to the URL in the background.

    mirror = Mirror(folder=(scratch / "state", "s3://bucket/run"), trace=(scratch / "trace.csv", "s3://bucket/run.csv"))
    mirror.fetch()                # what is at the URLs, to the local places
    assembly = Assembly(...)      # with the local places as folder and trace: recovers, or starts anew
    assembly.session.save(time.monotonic(), wait=True)
    mirror.start()                # that save goes to the URL before training begins, what follows in the background
    ...                           # train; show mirror.problem, if it is not None, now and then
    mirror.push(wait=True)        # when store and trace are closed: True if all is there
    mirror.close()

Either of the two may be left out. The trace of a run whose folder is a path, not a URL, should be written to a file in
that folder: after a crash it must have all the reports the state has. `check_url` comes before all this.

A generation of the state is only ever appended to, so that any part from its beginning is an older state. Each round
takes copies of the generations that changed, then one of the trace; it puts the trace at its URL, then the generations.
So whenever a round is cut short, the trace that is there has all the reports of the state that is there. A new run's
first save, in which there are none, comes before its trace: a trace without a state would be taken for another run's.

A file that has changed is sent whole. Generations are bounded by a few times the state; the trace is not: each round
sends all of it, so that a round takes longer and longer. The pause after a round is nine times as long as the round, if
that is more than `every`: copying takes at most a tenth of the time. What a crash can lose is a pause and two rounds.

A run that is alive keeps its URLs. There it has a mark, written once, that says whose they are, and a pulse, written
every few seconds, however long a round takes; both go when it ends in order. Whoever finds another's mark looks for a
while whether mark or pulse change: if so he is refused, if not its owner is dead. No clocks are compared. Mark and
pulse are two files, so that the late pulse of a machine that slept cannot make it the owner again.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siag.foundations import check
from siag.foundations.errors import Missing, SiagError, reason_of
from siag.storage.mirror_side import Progress, Side, TakenOver
from siag.storage.remote import Remote, check_url, is_url

__all__ = ["Mirror", "check_url", "is_url"]

SCRATCH = "siag-mirror-"
BUSY = "another run is writing there; stop it, or choose another URL"
RETRY = 1.0  # seconds between two attempts while somebody waits
REST = 9.0  # how much longer than a round the pause after it is
PATIENCE = 60.0  # seconds without progress that somebody waits
PULSE = 4.0  # seconds between two signs of life at a URL
PULSES = 3  # how many of them must be missing before a run counts as dead
LAST_ROUND = 10.0  # the same for a round under way that nobody waits for


class Mirror:
    """Copies a run's state and trace to URLs while the run goes on.

    Nothing that goes wrong there disturbs training: it is told by `problem` and tried again. What has been taken over
    by another run, which marks the URL as its own, is left alone from then on.

    Args:
        folder: the local folder of a `Store`, and the URL of a folder.
        trace: the local file of a `TraceWriter`, and the URL of a file.
        every: seconds from the end of a round to the next, at least; see above.
        scratch: a folder for the copies that are sent; by default the system's for temporary files.
        run: a name, known to all, that no other run has; one of the same name is taken over without a look whether it
            is alive. By default each has a name of its own.
    """

    def __init__(
        self,
        *,
        folder: tuple[str | os.PathLike[str], str] | None = None,
        trace: tuple[str | os.PathLike[str], str] | None = None,
        every: float = 5.0,
        scratch: Path | None = None,
        run: str | None = None,
    ) -> None:
        self._every, self._scratch = check.real("every", every, above=0), scratch
        self._signs = signs = Progress()
        self._states = None if folder is None else Side(Path(folder[0]), Remote(folder[1]), signs)
        self._trace = None if trace is None else Side(Path(trace[0]), Remote(trace[1], file=True), signs)
        self._sides = [side for side in (self._trace, self._states) if side is not None]
        if not self._sides:
            raise Missing("folder", "say what to copy where, by folder or trace")
        self._owner = f"{run or secrets.token_hex(16)} {secrets.token_hex(16)}".encode()
        self._period = PULSE
        self._changed = threading.Condition()
        self._asked = self._done = 0  # rounds somebody wants, by number
        self._closing = self._busy = False
        self._failing: float | None = None  # since when attempts fail
        self._trouble: str | None = None  # why the last attempt failed
        self._thread: threading.Thread | None = None
        self._heart: threading.Thread | None = None
        self._ended = threading.Event()
        self.lost: str | None = None
        """The URL that another run has taken over; nothing is copied any more."""

    @property
    def problem(self) -> str | None:
        """What goes wrong now."""
        if self.lost is not None:
            return f"{self.lost}: another run has taken it over; this one copies nothing there any more"
        return self._trouble

    def fetch(self) -> None:
        """Copy what is at the URLs to the local places; what is there already is newer and stays.

        Raises `SiagError` if it cannot be read.
        """
        for side in reversed(self._sides):  # whoever writes there still puts the trace first
            try:
                side.fetch(self._owner)
            except Exception as error:  # each driver has its own kinds
                raise SiagError(f"{side.url}: cannot be read: {reason_of(error)}") from None

    def start(self) -> None:
        """Take the URLs for this run, and begin to copy; a new run's first save is at its URL when this returns.

        If there is another run's mark, it takes some seconds more to see whether that run is alive; those since `fetch`
        count.

        Raises `SiagError` if it is, if something has changed there since `fetch`, or if they cannot be written.
        """
        self._watch()
        self._ended.clear()
        try:
            self._claim()
        except BaseException:
            self._let_go()
            raise
        self._thread = threading.Thread(target=self._work, name="siag-mirror", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """Return when all URLs are free."""
        watched = self._sides
        while watched:
            for side in watched:
                with _written(side):
                    side.look(self._owner)
                if side.alive:
                    raise SiagError(f"{side.url}: {BUSY}")
            now = time.monotonic()
            watched = [side for side in watched if side.seen and now < side.since + PULSES * self._period]
            if watched:
                time.sleep(self._period / 4)

    def _claim(self) -> None:
        """Mark the URLs, which must be as they were fetched, and put a new run's first save there."""
        for side in self._sides:
            with _written(side):
                side.claim(self._owner)
        self._heart = threading.Thread(target=self._live, name="siag-mirror-pulse", daemon=True)
        self._heart.start()
        for side in self._sides:
            with _written(side):
                same = side.unchanged(self._owner)
            if not same:
                raise SiagError(f"{side.url}: another run has just written there; stop it, or choose another URL")
        states = self._states
        if states is not None and states.new:
            with _written(states), tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self._scratch) as scratch:
                states.send(states.freeze(Path(scratch)), self._owner)

    def push(self, wait: bool = True, patience: float = PATIENCE) -> bool:
        """Begin a round at once, or after the one under way.

        Args:
            wait: return when all that is in the local places now is at the URLs; an attempt that fails is repeated.
            patience: give up so many seconds after the last progress, or when attempts have failed for so long.
                A driver that does not tell of its progress has more: a second for each MB of a file, up to 512.

        Returns:
            Whether it is known to be there.
        """
        with self._changed:
            self._asked += 1
            goal = self._asked
            self._changed.notify_all()
            if wait and self._thread is not None:
                began = time.monotonic()
                while not (self._done >= goal or self.lost or self._closing):
                    left = self._last_sign(began) + patience - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
            return self._done >= goal

    @property
    def moving(self) -> bool:
        """Whether a round is under way, and not given up."""
        with self._changed:
            return self._busy and self._signs.last + PATIENCE > time.monotonic()

    def close(self) -> None:
        """Stop copying, after the round under way if there is progress. What has not been pushed stays local."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        began = time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            left = self._last_sign(began) + LAST_ROUND - time.monotonic()
            if left <= 0:
                break
            self._thread.join(left)

    def _last_sign(self, began: float) -> float:
        """When somebody who waits since then last had a reason to: progress or, between attempts, the first failure."""
        return max(began, self._signs.last if self._busy else self._failing or began)

    def _live(self) -> None:
        """The thread that shows that this run is alive."""
        while not self._ended.wait(self._period):
            for side in self._sides:
                try:
                    side.beat(self._owner)
                except TakenOver as error:
                    self._give_up(error)
                    return
                except Exception:  # each driver has its own kinds; rounds fail too, and tell
                    continue

    def _give_up(self, error: TakenOver) -> None:
        """Another run has a URL."""
        with self._changed:
            self.lost = str(error)
            self._changed.notify_all()

    def _let_go(self) -> None:
        """Leave the URLs to others."""
        self._ended.set()
        if self._heart is not None:
            self._heart.join(LAST_ROUND)
        for side in self._sides:
            side.release(self._owner)

    def _work(self) -> None:
        """The thread that copies."""
        try:
            self._copy()
        finally:
            self._let_go()

    def _copy(self) -> None:
        """A round after the other, until the end."""
        pause = self._every
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self.lost or self._asked > self._done, pause)
                if self._closing or self.lost:
                    return
                goal, self._busy = self._asked, True
                self._signs.moved()
            began = time.monotonic()
            good = self._attempt()
            ended = time.monotonic()
            pause = max(self._every, (REST if good else 1.0) * (ended - began))
            with self._changed:
                self._busy = False
                self._failing = None if good else self._failing or ended
                if good:
                    self._done = goal
                self._changed.notify_all()
                if not good:
                    self._changed.wait_for(lambda: self._closing or self.lost, min(RETRY, self._every))

    def _attempt(self) -> bool:
        """A round; whether it succeeded."""
        try:
            with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self._scratch) as scratch:
                self._round(Path(scratch))
            self._trouble = None
        except TakenOver as error:
            self._give_up(error)
        except Exception as error:  # each driver has its own kinds
            urls = " and ".join(side.url for side in self._sides)
            self._trouble = f"copying to {urls}: {reason_of(error)}"
        return self.problem is None

    def _round(self, scratch: Path) -> None:
        """Copy what has changed: the trace before the state, and what the state no longer needs last."""
        states = [] if self._states is None else self._states.freeze(scratch)
        trace = [] if self._trace is None else self._trace.freeze(scratch)
        if self._trace is not None:
            self._trace.send(trace, self._owner)
        if self._states is not None:
            self._states.send(states, self._owner)
            self._states.tidy(self._owner)


@contextmanager
def _written(side: Side) -> Iterator[None]:
    """Have what fails at a URL at the start name it."""
    try:
        yield
    except TakenOver:
        raise SiagError(f"{side.url}: {BUSY}") from None
    except Exception as error:  # each driver has its own kinds
        raise SiagError(f"{side.url}: cannot be written: {reason_of(error)}") from None
