"""The server's actor on a Ray cluster: a session with its TCP endpoint in a thread, and what the driver asks it."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from siag.foundations.errors import SiagError
from siag.live.assembly import Assembly
from siag.live.monitor.watch import Problems
from siag.live.ray.actors import STALE, TIMEOUT, Actor, Ended, How, ServerSpec, identity, loaded, restarted
from siag.live.ray.places import Places
from siag.live.session import GONE, Session
from siag.live.sharding import ShardLost
from siag.live.task import last_words
from siag.live.transports.tcp.server import listen, serve_session
from siag.server.snapshot import Snapshot
from siag.simulation import Run

MOST_LINES = 10_000  # remarks that wait for the driver
RETRY = 0.2  # seconds before the servers of other shards are looked for again


class Orders(NamedTuple):
    """What the driver knows and the server cannot; sent whole with each question, so that none can be lost."""

    why: str = ""  # the run is to end
    ended: dict[int, Ended] = {}  # noqa: RUF012  # never changed: workers that are gone for good, by row
    nobody: bool = False  # no worker is left


class Look(NamedTuple):
    """How things stand: the server's answer to the driver."""

    life: str  # another one after each restart
    ready: bool  # whether it listens
    after: int  # how many lines there were before these
    lines: list[tuple[bool, str]]  # remarks, and whether each is a problem
    snapshot: Snapshot | None


class Outcome(NamedTuple):
    """How a run has ended."""

    run: Run | None
    error: bytes  # pickled, if there is no run
    warnings: list[tuple[type[Warning], str]]


class Relay(Problems):
    """A watcher that keeps what it is told until the driver asks for it."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self._lines: deque[tuple[bool, str]] = deque()
        self._dropped = 0
        self._lock = threading.Lock()

    def show(self, snapshot: Snapshot) -> None:
        """Keep the latest."""
        self.snapshot = snapshot

    def event(self, text: str) -> None:
        """Keep it."""
        self._keep(False, text)

    def problem(self, text: str) -> None:
        """Keep it, as a problem."""
        self._keep(True, text)

    def after(self, known: int) -> tuple[int, list[tuple[bool, str]]]:
        """The lines that follow the first so many, which are dropped, and how many came before those."""
        with self._lock:
            while self._lines and self._dropped < known:
                self._drop()
            return self._dropped, list(self._lines)

    def _keep(self, problem: bool, text: str) -> None:
        with self._lock:
            self._lines.append((problem, text))
            if len(self._lines) > MOST_LINES:
                self._drop()

    def _drop(self) -> None:
        self._lines.popleft()
        self._dropped += 1


class ServerActor(Actor):
    """The server; if the model is split, the lead.

    Args:
        version: of siag, where the run was started.
    """

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self._followers: list[Any] = []  # the actors of the other shards, in order
        self._life, self._relay = secrets.token_hex(4), Relay()
        self._addresses: list[tuple[str, int]] | None = None
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places: Places | None = None
        self._orders = Orders()
        self._obeyed: set[int] = set()  # rows of workers that the session knows to be gone for good
        self._came: dict[int, tuple[int, int]] = {}  # how often a worker came again after so many reports

    # What workers and the driver ask

    def where(self) -> list[tuple[str, int]] | None:
        """The addresses of all servers, if they are up."""
        return self._addresses

    def came_again(self, row: int) -> int:
        """How often a worker was restarted since its last report."""
        session = self._session
        reports = 0 if session is None else session.server.members[row].reports
        count, before = self._came.get(row, (0, -1))
        self._came[row] = (count + 1 if reports == before else 1), reports
        return self._came[row][0]

    def look(self, life: str, known: int, orders: Orders) -> Look:
        """How things stand, to a driver that knows so many of the remarks of some life."""
        self._orders = orders
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._obey)
        news = None if self._places is None else self._places.news()
        if news is not None:
            self._relay.problem(news)
        after, lines = self._relay.after(known if life == self._life else 0)
        if self._places is not None:
            lines = [(problem, self._places.named(text)) for problem, text in lines]
        return Look(self._life, self._addresses is not None, after, lines, self._relay.snapshot)

    # The run

    def run(self, parcel: bytes, followers: list[Any]) -> Outcome:
        """Serve until the end, given a `ServerSpec`; Ray calls this again when it restarts the actor."""
        self._followers = followers
        run, error = None, b""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            try:
                run = self._run(loaded(parcel, "the run"))
            except BaseException as failure:  # the user's loss may raise anything
                error = _portable(failure)
        named = str if self._places is None else self._places.named
        said = [(each.category, named(str(each.message))) for each in found]
        self._addresses = None
        return Outcome(run, error, said)

    def _run(self, spec: ServerSpec) -> Run:
        with ExitStack() as stack:
            shard = 0 if spec.shards > 1 else None
            listeners = [stack.enter_context(each) for each in listen(*spec.listening(0))]
            self._places = stack.enter_context(Places(spec.plan.options, shard, identity()))
            said = ""
            while True:
                try:
                    run = self._serve(spec, listeners, self._places)
                except ShardLost as error:
                    self._addresses = None
                    if spec.plan.options.folder is None:
                        raise SiagError(f"{error}; with folder= all servers would go on from their last save") from None
                    if str(error) != said:
                        said = str(error)
                        self._relay.problem(f"problem: {error}; all servers go on from their last save")
                    time.sleep(RETRY)
                    continue
                if not self._places.finish():
                    warnings.warn(self._places.lost or STALE, RuntimeWarning, stacklevel=2)
                return run

    def _serve(self, spec: ServerSpec, listeners: Sequence[Any], places: Places) -> Run:
        plan, keys = spec.plan, spec.secrets
        others = self._find_followers()
        assembly = Assembly(
            plan.method,
            plan.step,
            plan.w0,
            plan.names,
            plan.until,
            replace(places.options, progress=self._relay),
            plan.about,
            others,
            keys.servers,
            keys.asking(),
        )
        self._check_seen(plan.options.folder, assembly.session)
        assembly.session.save(time.monotonic(), wait=True)  # a trace must not be there before any state is
        places.start()
        self._session, self._obeyed = assembly.session, set()

        def ready(host: str, port: int) -> None:
            self._loop = asyncio.get_running_loop()
            self._obey()
            self._addresses = [(host, port), *others]

        def carry(session: Session) -> None:
            parts: dict[str, Any] = {"context": keys.serving(), "tokens": keys.known(), "limits": spec.limits}
            parts["share"] = True  # all workers are the run's own
            try:
                asyncio.run(serve_session(session, listeners, ready=ready, **parts))
            finally:
                self._loop = None
            if session.fruitless:
                raise SiagError(f"no worker has reported anything; {session.failures[0]}")

        return assembly.run(carry)

    def _check_seen(self, folder: object, session: Session) -> None:
        """Refuse to begin anew where a server that was restarted should go on."""
        import ray

        if folder is not None and restarted() and not session.recovered:
            what = f"the server was restarted, and {folder} holds nothing of the run on the node at"
            remedy = "give a folder on storage that all nodes see, or a URL"
            raise SiagError(f"{what} {ray.util.get_node_ip_address()}; {remedy}")

    def _find_followers(self) -> list[tuple[str, int]]:
        """The addresses of the other shards' servers, once all have one."""
        import ray

        missed = False
        while True:
            try:
                found: list[Any] = ray.get([each.where.remote() for each in self._followers], timeout=TIMEOUT)
            except ray.exceptions.RayTaskError as error:
                raise SiagError(str(error.cause)) from None
            except ray.exceptions.RayError:
                found = [None]
            if None not in found:
                return found
            if self._orders.why:
                raise SiagError(f"{self._orders.why} while a server of the split model was not there")
            if not missed and self._session is not None:
                missed = True
                self._relay.problem("problem: a server of the split model is not there; waiting until Ray restarts it")
            time.sleep(RETRY)

    def _obey(self) -> None:
        """Tell the session what the driver knows; called by the thread that serves."""
        session = self._session
        if session is None or session.over:
            return
        for row, ended in self._orders.ended.items():
            member = session.server.members[row]
            if member.state in GONE or row in self._obeyed:
                continue
            self._obeyed.add(row)
            if ended.how is How.LEFT:
                session.left(row, time.monotonic(), ended.why)
            elif (member.state, member.reason) != ("away", ended.why):  # it has not heard of it
                session.failed(row, ended.why)
        if self._orders.why or self._orders.nobody:
            session.end(self._orders.why or session.whereabouts())


def _portable(error: BaseException) -> bytes:
    """An error that can be raised elsewhere: the same, if it can be pickled."""
    from ray import cloudpickle

    try:
        content: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(content)
    except Exception:  # a user's class
        return bytes(cloudpickle.dumps(SiagError(f"the server failed: {last_words(error)}")))
    return content
