"""The actors of the servers: a session with its TCP endpoint in a thread, and what the driver asks it; and a shard."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from siag.foundations.errors import SiagError
from siag.live.assembly import Assembly
from siag.live.connection import Limits
from siag.live.connections import Connections
from siag.live.departures import GONE
from siag.live.monitor.watch import Problems
from siag.live.parts import Parts
from siag.live.ray.actors import TIMEOUT, Gone, Secrets, loaded, node, restarted, trusting
from siag.live.reasons import Ended
from siag.live.session import Session
from siag.live.sharding import Follower, ShardLost
from siag.live.sharding.lead_connections import LeadConnections
from siag.live.sharding.link import Followers
from siag.live.sharding.split_parts import SplitParts
from siag.live.spec import Spec
from siag.live.task import last_words
from siag.live.transports.tcp.endpoint import listen
from siag.live.transports.tcp.server import serve_session
from siag.server.snapshot import Snapshot
from siag.simulation import Run

MOST_LINES = 10_000  # remarks that wait for the driver
RETRY = 0.2  # seconds before the servers of other shards are looked for again
Address = tuple[str, int]


@dataclass(frozen=True)
class ServerSpec:
    """What every server of a run is given.

    Args:
        spec: the run, without what only workers need.
        secrets: of the run.
        host: where to listen; `None`: at the address of the node.
        port: of the first server, the next ones being those of the other shards; `None`: any that is free.
        shards: how many servers there are.
    """

    spec: Spec
    secrets: Secrets
    host: str | None
    port: int | None
    shards: int

    def listening(self, k: int) -> Address:
        """Where shard k listens."""
        return self.host or node(), 0 if self.port is None else self.port + k

    def serving(self) -> dict[str, Any]:
        """How any server talks to workers, all of which are the run's own."""
        return {"context": self.secrets.serving(), "tokens": self.secrets.known(), "share": True}


class Look(NamedTuple):
    """How things stand: the server's answer to the driver."""

    ready: bool  # whether it listens
    lines: list[tuple[bool, str]]  # remarks that the driver does not know, and whether each is a problem
    place: tuple[str, int]  # up to where it knows them now: which life of the server, and how many
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
        self._lines: deque[tuple[bool, str]] = deque(maxlen=MOST_LINES)
        self._told = 0
        self._lock = threading.Lock()

    def show(self, snapshot: Snapshot) -> None:
        """Keep the latest."""
        self.snapshot = snapshot

    def event(self, text: str, problem: bool = False) -> None:
        """Keep it."""
        with self._lock:
            self._lines.append((problem, text))
            self._told += 1

    def problem(self, text: str) -> None:
        """Keep it, as a problem."""
        self.event(text, problem=True)

    def after(self, known: int) -> tuple[int, list[tuple[bool, str]]]:
        """How many lines there were, and those that follow the first so many."""
        with self._lock:
            new = self._told - known
            return self._told, list(self._lines)[-new:] if new > 0 else []


class ServerActor:
    """The server; if the model is split, the lead.

    Args:
        version: of siag, where the run was started.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._life, self._relay = secrets.token_hex(4), Relay()
        self._addresses: list[Address] | None = None
        self._session: Session | None = None
        self._why: Ended | None = None  # what the driver knows: the run is to end,
        self._gone: dict[int, Gone] = {}  # and these workers are gone for good
        self._obeyed: set[int] = set()  # rows of workers that the session knows to be gone for good
        self._came: dict[int, tuple[int, int]] = {}  # how often a worker came again after so many reports

    # What workers and the driver ask

    def where(self) -> list[Address] | None:
        """The addresses of all servers, if they are up."""
        return self._addresses

    def came_again(self, row: int) -> int:
        """How often a worker was restarted since its last report."""
        session = self._session
        reports = 0 if session is None else session.server.members[row].reports
        count, before = self._came.get(row, (0, -1))
        self._came[row] = (count + 1 if reports == before else 1), reports
        return self._came[row][0]

    def look(self, place: tuple[str, int] | None, why: Ended | None, gone: dict[int, Gone]) -> Look:
        """How things stand; the driver says up to where it knows the remarks, and each time all that it knows."""
        self._why, self._gone = why, gone
        if self._session is not None:
            self._session.soon(self._obey)
        told, lines = self._relay.after(place[1] if place is not None and place[0] == self._life else 0)
        return Look(self._addresses is not None, lines, (self._life, told), self._relay.snapshot)

    # The run

    def run(self, parcel: bytes, followers: list[Any]) -> Outcome:
        """Serve until the end, given a `ServerSpec` and the actors of the other shards, in order.

        Ray calls this again when it restarts the actor.
        """
        run, error = None, b""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            try:
                run = self._run(loaded(parcel, "the run", self._version), followers)
            except BaseException as failure:  # the user's loss may raise anything
                error = _portable(failure)
        self._addresses = None
        return Outcome(run, error, [(each.category, str(each.message)) for each in found])

    def _run(self, given: ServerSpec, followers: list[Any]) -> Run:
        with ExitStack() as stack:
            listeners = [stack.enter_context(each) for each in listen(*given.listening(0))]
            said = ""
            while True:
                try:
                    return self._serve(given, listeners, self._find(followers))
                except ShardLost as error:
                    self._addresses = None
                    if given.spec.folder is None:
                        raise SiagError(f"{error}; with folder= all servers would go on from their last save") from None
                    if str(error) != said:
                        said = str(error)
                        self._relay.problem(f"problem: {error}; all servers go on from their last save")
                    time.sleep(RETRY)

    def _serve(self, given: ServerSpec, listeners: Sequence[Any], others: list[Address]) -> Run:
        keys, spec = given.secrets, replace(given.spec, progress=self._relay)
        followers = Followers(others, keys.servers, trusting(keys.authority))
        parts = SplitParts(spec, followers, run=_identity()) if others else Parts(spec, run=_identity())
        assembly = Assembly(spec, parts=parts)
        self._check_seen(spec.folder, assembly.session)
        assembly.session.save(time.monotonic(), wait=True)  # a server that is restarted has something to go on from
        self._session, self._obeyed = assembly.session, set()
        self._session.soon(self._obey)

        def ready(host: str, port: int) -> None:
            self._addresses = [(host, port), *others]

        def carry(session: Session) -> None:
            limits = Limits(connections=max(Limits.connections, 2 * spec.n))
            make = LeadConnections if others else Connections
            asyncio.run(serve_session(session, listeners, ready=ready, limits=limits, make=make, **given.serving()))

        return assembly.run(carry, fruitful=True)

    def _check_seen(self, folder: object, session: Session) -> None:
        """Refuse to begin anew where a server that was restarted should go on."""
        if folder is not None and restarted() and not session.recovered:
            what = f"the server was restarted, and {folder} holds nothing of the run on the node at {node()}"
            raise SiagError(f"{what}; give a folder on storage that all nodes see, or a URL")

    def _find(self, followers: list[Any]) -> list[Address]:
        """The addresses of the other shards' servers, once all have one."""
        import ray

        missed = False
        while True:
            try:
                found: list[Any] = ray.get([each.where.remote() for each in followers], timeout=TIMEOUT)
            except ray.exceptions.RayTaskError as error:
                raise SiagError(str(error.cause)) from None
            except ray.exceptions.RayError:
                found = [None]
            if None not in found:
                return found
            if self._why is not None:
                raise SiagError(f"{self._why.text} while a server of the split model was not there")
            if not missed and self._session is not None:
                missed = True
                self._relay.problem("problem: a server of the split model is not there; waiting until Ray restarts it")
            time.sleep(RETRY)

    def _obey(self) -> None:
        """Tell the session what the driver knows; called by the thread that serves."""
        session, ended, gone = self._session, self._why, self._gone
        if session is None or session.over:
            return
        members, known = session.server.members, {(failure.row, failure.kind) for failure in session.failures}
        for row, (failure, why) in gone.items():
            if row in self._obeyed or members[row].state in GONE:
                continue
            self._obeyed.add(row)
            if failure is None:
                session.left(row, time.monotonic(), why)
            elif (row, failure) not in known:  # else the worker itself has said so
                session.failed(row, why, failure)
        if ended is None and len(gone) == len(members):
            ended = session.whereabouts()
        if ended is not None:
            session.end(ended.ending, ended.detail)


class ShardActor:
    """The server of shard k, from 1; it follows the lead.

    Args:
        version: of siag, where the run was started.
        k: its number.
    """

    def __init__(self, version: str, k: int) -> None:
        self._version, self._k = version, k
        self._trouble = ""  # why it cannot work
        self._follower: Follower | None = None
        self._ended = threading.Event()

    def run(self, parcel: bytes) -> None:
        """Serve until told to stop, given a `ServerSpec`; Ray calls this again when it restarts the actor."""
        try:
            given: ServerSpec = loaded(parcel, "the run", self._version)
            host, port = given.listening(self._k)
            own: dict[str, Any] = {"run": _identity(), "secret": given.secrets.servers, **given.serving()}
            self._follower = Follower(given.spec, self._k, given.shards, host=host, port=port, **own)
            self._follower.run()
        except BaseException as error:
            self._trouble = last_words(error)
        finally:
            self._ended.set()

    def where(self) -> Address | None:
        """Its address, once it has one."""
        if self._trouble:
            raise SiagError(f"shard {self._k}: {self._trouble}")
        return None if self._follower is None else self._follower.address

    def stop(self) -> None:
        """End in order."""
        if self._follower is not None:
            self._follower.stop()
            self._ended.wait()


def _identity() -> str:
    """By which a server that Ray restarts knows its own lease of a URL: that of the actor that calls."""
    import ray

    return str(ray.get_runtime_context().get_actor_id())


def _portable(error: BaseException) -> bytes:
    """An error that can be raised elsewhere: the same, if it can be pickled."""
    from ray import cloudpickle

    try:
        content: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(content)
    except Exception:  # a user's class
        return bytes(cloudpickle.dumps(SiagError(f"the server failed: {last_words(error)}")))
    return content
