"""The actors of the servers: a session with its TCP endpoint in a thread, and what the driver asks it; and a shard."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import ray
from ray import cloudpickle

from siag.foundations.errors import SiagError
from siag.foundations.last_words import last_words
from siag.foundations.types import Floats
from siag.live.assembly import Assembly
from siag.live.departures import GONE
from siag.live.monitor.watch import Problems
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.ray.actors import TIMEOUT, Gone, Secrets, loaded, node, restarted, trusting
from siag.live.reasons import Ended
from siag.live.session import Session
from siag.live.sharding import Follower, ShardLost
from siag.live.sharding.lead import LeadAssembly, LeadConnections
from siag.live.sharding.slices import Shard
from siag.live.spec import Spec
from siag.live.transports.tcp.client import ClientConnection
from siag.live.transports.tcp.endpoint import listen
from siag.live.transports.tcp.server import serve_session
from siag.server.status import Snapshot
from siag.simulation import Run

RETRY = 0.2  # seconds before the servers of other shards are looked for again
Address = tuple[str, int]


@dataclass(frozen=True)
class ServerSpec:
    """What every server of a run is given."""

    spec: Spec  # the run, without what only workers need
    secrets: Secrets
    host: str | None  # where to listen; `None`: at the address of the node
    port: int | None  # of the first server, the next ones being those of the other shards; `None`: any that is free
    shards: int  # how many servers there are

    def listening(self, k: int) -> Address:
        """Where shard k listens."""
        return self.host or node(), 0 if self.port is None else self.port + k


class Look(NamedTuple):
    """How things stand: the server's answer to the driver."""

    ready: bool  # whether it listens
    lines: list[tuple[bool, str]]  # remarks since it was last asked, and whether each is a problem
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

    def show(self, snapshot: Snapshot) -> None:
        """Keep the latest."""
        self.snapshot = snapshot

    def event(self, text: str, problem: bool = False) -> None:
        """Keep it."""
        self._lines.append((problem, text))

    def problem(self, text: str) -> None:
        """Keep it, as a problem."""
        self.event(text, problem=True)

    def taken(self) -> list[tuple[bool, str]]:
        """Hand over the lines there are."""
        return [self._lines.popleft() for _ in range(len(self._lines))]


class ServerActor:
    """The server; if the model is split, the lead. The version is that of siag where the run was started."""

    def __init__(self, version: str) -> None:
        self._version, self._relay = version, Relay()
        self._addresses: list[Address] | None = None
        self._session: Session | None = None
        self._why: Ended | None = None  # what the driver knows: the run is to end,
        self._gone: dict[int, Gone] = {}  # and these workers are gone for good
        self._came: dict[int, tuple[int, int]] = {}  # how often a worker came again, and after how many reports

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

    def look(self, why: Ended | None, gone: dict[int, Gone]) -> Look:
        """How things stand; the driver says each time all that it knows."""
        self._why, self._gone = why, gone
        if self._session is not None:
            self._session.soon(self._do_what_was_asked)
        return Look(self._addresses is not None, self._relay.taken(), self._relay.snapshot)

    def model(self) -> Floats:
        """w, as it is now."""
        if self._session is None:
            raise SiagError("the run has not begun, so there is no model yet")
        return self._session.copy_of_w().result(TIMEOUT)

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
        run, dial = _identity(), partial(ClientConnection, context=trusting(keys.authority))
        lead = LeadAssembly(spec, others, keys.servers, dial, run=run) if others else None
        assembly = lead or Assembly(spec, run=run)
        self._check_seen(spec.folder, assembly.session)
        assembly.session.save(time.monotonic(), wait=True)  # a server that is restarted has something to go on from
        self._session = assembly.session
        self._session.soon(self._do_what_was_asked)

        def ready(host: str, port: int) -> None:
            self._addresses = [(host, port), *others]

        def carry(session: Session) -> None:
            kind = LeadConnections if others else Connections
            given: dict[str, Any] = {"share": True, "now": time.monotonic()}
            connections = kind(session, keys.known(), Limits.for_workers(spec.n), **given)
            asyncio.run(serve_session(connections, listeners, context=keys.context(), ready=ready))

        return assembly.run(carry, must_report=True)

    def _check_seen(self, folder: object, session: Session) -> None:
        """Refuse to begin anew where a server that was restarted should go on."""
        if folder is not None and restarted() and not session.past.recovered:
            what = f"the server was restarted, and {folder} holds nothing of the run on the node at {node()}"
            raise SiagError(f"{what}; give a folder on storage that all nodes see, or a URL")

    def _find(self, followers: list[Any]) -> list[Address]:
        """The addresses of the other shards' servers, once all have one."""
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
            time.sleep(RETRY)

    def _do_what_was_asked(self) -> None:
        """Tell the session what the driver knows; called by the thread that serves."""
        session, ended, gone = self._session, self._why, self._gone
        if session is None or session.over:
            return
        members, known = session.server.members, {(each.row, each.kind) for each in session.departures.failures}
        for row, (failure, why) in gone.items():
            if members[row].state in GONE or (row, failure) in known:  # the worker itself may have said so
                continue
            if failure is None:
                session.left(row, time.monotonic(), why)
            else:
                session.failed(row, why, failure)
        if ended is None and len(gone) == len(members):
            ended = session.departures.desertion()
        if ended is not None:
            session.end(ended.ending, ended.detail)


class ShardActor:
    """The server of shard k, from 1; it follows the lead. The version is as for `ServerActor`."""

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
            shard, keys = Shard(given.spec, self._k, given.shards), given.secrets
            who: dict[str, Any] = {"tokens": keys.known(), "secret": keys.servers, "share": True}
            self._follower = Follower(shard, host=host, port=port, context=keys.context(), run=_identity(), **who)
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
    return str(ray.get_runtime_context().get_actor_id())


def _portable(error: BaseException) -> bytes:
    """An error that can be raised elsewhere: the same, if it can be pickled."""
    try:
        content: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(content)
    except Exception:  # a user's class
        return bytes(cloudpickle.dumps(SiagError(f"the server failed: {last_words(error)}")))
    return content
