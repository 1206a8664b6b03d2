"""`relay`: a server to its workers, and one worker to the root; the command of the same name calls it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.live.assembly import Assembly
from siag.live.monitor.dashboard.place import Dashboard, Wanted
from siag.live.monitor.watch import Progress
from siag.live.protocol.reception import Limits
from siag.live.relays.connections import AT_ONCE, RelayConnections
from siag.live.relays.root import RootWorker
from siag.live.relays.server import ENDLESS, NEVER, RelayServer
from siag.live.relays.upstream import Upstream
from siag.live.serve import Network, credentials, readmit_on_hangup
from siag.live.session import Session
from siag.live.spec import AnyPath, Spec, renamed
from siag.live.transports.tcp.endpoint import Endpoint, listen
from siag.live.transports.tcp.server import serve_session
from siag.live.transports.tcp.worker import shown
from siag.live.transports.waiting import Spinner, event_loop
from siag.server.departing import DROP, KEEP, Departed
from siag.server.guard import Guard
from siag.simulation import Run
from siag.steps import Constant

Say = Callable[[str], None]

STAY = Constant(1.0)  # of steps that are never taken


@dataclass(frozen=True, kw_only=True)
class Above:
    """The root of a relay, and what the relay shows it; `relay` says what each field means."""

    address: str
    name: str | None = None
    token: AnyPath | None = None
    tls: bool = False
    ca: AnyPath | None = None
    insecure: bool = False
    give_up: float | None = None
    pace: EveryArrivals | Tick = AT_ONCE

    def __post_init__(self) -> None:
        if not isinstance(self.pace, EveryArrivals | Tick):
            raise BadInput("pace", self.pace, "EveryArrivals(k) or Tick(seconds)")
        if self.give_up is not None:
            object.__setattr__(self, "give_up", check.real("give_up", self.give_up, low=0))


def relay(
    address: str,
    workers: int | Sequence[str],
    *,
    name: str | None = None,
    token: AnyPath | None = None,
    tls: bool = False,
    ca: AnyPath | None = None,
    give_up: float | None = None,
    pace: EveryArrivals | Tick = AT_ONCE,
    host: str = Network.host,
    port: int = Network.port,
    certificate: AnyPath | None = None,
    key: AnyPath | None = None,
    tokens: AnyPath | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
    guard: Guard | None = None,
    departed: Departed = DROP,
    folder: AnyPath | None = None,
    progress: Progress = None,
    dashboard: Wanted = None,
    linger: float | None = None,
    forget: float | None = None,
    patience: float | None = None,
    ready: Callable[[str, int], None] | None = None,
    say: Say | None = None,
) -> Run:
    """Serve workers of a distant server: keep their latest messages, and send it their sum.

    To its workers a relay is a server, for which `siag.work` works as for any. To the root, which `siag.serve` serves
    with `Limits(max_weight=…)` or tokens that allow it, it is one worker, whose row is the sum of many and counts for
    as many. It may be the relay of other relays. It takes no steps: the root's method must be one that takes sums,
    `SIAG`, `Automatic`, or one of these with `Prox`, `Momentum` or the like around it.

    Args:
        address: "host:port" of the root, or of a relay of it.
        workers: how many there are, or their names.
        name: which of the root's workers this is; by default one that is free.
        token: a file with the secret that binds this relay to its row; the variable SIAG_TOKEN does as well.
        tls: talk to the root over TLS, with the system's authorities.
        ca: talk to the root over TLS, with the authority of this file.
        give_up: seconds without a root after which to give up; by default never: workers go on with the last w.
        pace: when the root is sent the sum. `EveryArrivals(1)`, with each report; what comes before the root has
            answered goes together, and workers are answered with the w that has come of it. `EveryArrivals(k)`, with
            every k-th, or `Tick(seconds)`: workers are answered at once, with the last w, and the root gets less.
        host: the address to listen on; only this machine by default.
        port: the port to listen on; 0 for any that is free.
        certificate: for TLS with its workers: a file in PEM format.
        key: for TLS with its workers: the certificate's private key.
        tokens: a file of its workers' tokens.
        insecure: as in `siag.serve` and `siag.work`.
        limits: on connections, and on what its own workers may count for.
        guard: what their reports must be like.
        departed: what becomes of the rows of workers that have left: `DROP` or `KEEP`.
        folder: where its rows are saved every second; one that is started again goes on with them. Without it the root
            keeps the last sum until all workers, or those that come within 10 seconds, have reported again.
        progress: who is told how it goes, as in `siag.train`.
        dashboard: a page in the browser, as in `siag.train`.
        linger: seconds to wait, nobody being there, before ending; `None`: for ever.
        forget: seconds after which a worker that is away has left.
        patience: seconds until a worker is shown as stalled.
        ready: called with host and port once the relay listens.
        say: what to do with remarks about the root; by default nothing.

    Returns:
        What it has seen of the run: w is the last it has read.
    """
    above = Above(
        address=address, name=name, token=token, tls=tls, ca=ca, insecure=insecure, give_up=give_up, pace=pace
    )
    network = Network(
        host=host, port=port, certificate=certificate, key=key, tokens=tokens, insecure=insecure, limits=limits
    )
    given: dict[str, Any] = {
        "guard": guard,
        "departed": departed,
        "folder": folder,
        "progress": progress,
        "dashboard": dashboard,
    }
    given |= {"linger": linger, "forget": forget, "patience": patience, "names": workers}
    with renamed({"names": "workers"}):
        return Relay(Spec(**given), above, network, say or (lambda text: None)).run(ready)


class Relay:
    """A relay that has joined the root, whose spec is whole then.

    Args:
        spec: of its own session, as far as it is known before: who is told, who is waited for, its workers' names.
        above: the root.
        network: where it listens, and whom it trusts.
        say: what to do with remarks about the root.
    """

    def __init__(self, spec: Spec, above: Above, network: Network, say: Say) -> None:
        if spec.departed not in (DROP, KEEP):
            raise BadInput("departed", spec.departed, "DROP or KEEP", "the root's rows can fade, a relay's cannot")
        if spec.names is None:
            raise Missing("names", "say how many there are, or give their names")
        names = replace(spec, w0=np.zeros(1), step=STAY).validate(serving=True).names
        self.network, self._pace = network, above.pace
        self._tls, self.tokens = network.secured(names)
        self.limits = network.limits or Limits.for_workers(len(names))
        place, secret, context = credentials(above.address, above.token, above.tls, above.ca, above.insecure, say)
        with ExitStack() as stack:
            self._listeners = [stack.enter_context(listener) for listener in listen(network.host, network.port)]
            root = RootWorker(
                len(names), name=above.name, token=secret, give_up=above.give_up, where=shown(place), say=say
            )
            self._spinner = Spinner(able=False)
            self._runner = stack.enter_context(asyncio.Runner(loop_factory=lambda: event_loop(self._spinner)))
            self._upstream = Upstream(place, root, context, self._runner.get_loop())
            stack.callback(lambda: self._runner.run(self._upstream.close()))
            self._runner.run(self._upstream.join())
            self.spec = below(root, replace(spec, names=names))
            self._stack = stack.pop_all()

    def run(self, ready: Callable[[str, int], None] | None = None, spec: Spec | None = None) -> Run:
        """Serve until the root has ended, all workers have left, or a signal comes."""
        with self._stack:
            spec = (self.spec if spec is None else spec).validate(serving=True)
            if isinstance(spec.dashboard, Dashboard):
                secrets = self.network.certificate, self.network.key, self.network.insecure
                spec = replace(spec, dashboard=spec.dashboard.trusting(*secrets))
            root = self._upstream.root
            about = {"method": f"relay of {root.where}", "step": "the root's", "root": root.where, "name": root.name}
            return RelayAssembly(spec, about=about).run(lambda session: self._carry(session, ready))

    def _carry(self, session: Session, ready: Callable[[str, int], None] | None) -> None:
        upstream, now = self._upstream, time.monotonic()
        above: dict[str, Any] = {"root": upstream.root, "pace": self._pace, "do": upstream.do}
        connections = RelayConnections(session, self.tokens, self.limits, now=now, **above)

        def begun(endpoint: Endpoint) -> None:
            session.health = None  # how training goes is the root's to judge
            upstream.serve(connections, endpoint)

        async def serve() -> None:
            try:
                told: dict[str, Any] = {"context": self._tls, "ready": ready, "begun": begun, "spinner": self._spinner}
                await serve_session(connections, self._listeners, **told)
            finally:
                await upstream.close()

        with readmit_on_hangup(session, self.tokens):
            self._runner.run(serve())


def below(root: RootWorker, spec: Spec) -> Spec:
    """The spec of a relay's own session, which is whole once the root was joined."""
    given: dict[str, Any] = {"method": root.gather(), "step": STAY, "server": NEVER, "until": ENDLESS}
    return replace(spec, **given, w0=root.w.astype(np.float64), messages=root.encoding.name)


class RelayAssembly(Assembly):
    """A session of a relay."""

    def make_server(self, stack: ExitStack) -> RelayServer:
        """A server that takes no steps."""
        spec = self.spec
        return RelayServer(spec.method, spec.step, spec.w0, spec.names, **self.given)
