"""A session over TCP or TLS, in one event loop, from the first listening to the goodbye."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from siag.live.protocol.connections import Connections
from siag.live.reasons import Ending
from siag.live.session import Session
from siag.live.transports.tcp.endpoint import Endpoint
from siag.live.transports.waiting import Spinner, event_loop

PAUSE = 0.05  # seconds between two looks at everything that is no message
TOO_FEW = (
    "problem: {} of {} workers can be connected at a time; raise `limits.connections`, or the hard limit of open files "
    "(`ulimit -Hn`, or LimitNOFILE of a systemd unit)"
)


def serve_eagerly(connections: Connections, listeners: Sequence[socket.socket], **given: Any) -> None:
    """The same as `serve_session` in an event loop of its own, which polls before it sleeps."""
    spinner = Spinner(able=False)
    with asyncio.Runner(loop_factory=lambda: event_loop(spinner)) as runner:
        runner.run(serve_session(connections, listeners, spinner=spinner, **given))


async def serve_session(
    connections: Connections,
    listeners: Sequence[socket.socket],
    *,
    context: ssl.SSLContext | None,
    ready: Callable[[str, int], None] | None = None,
    begun: Callable[[Endpoint], None] | None = None,
    spinner: Spinner | None = None,
) -> None:
    """Serve until the session is over, or a signal comes; then save and say goodbye.

    Args:
        connections: of the session to be served.
        listeners: sockets that listen.
        context: for TLS.
        ready: called with host and port when workers may come.
        begun: called before that with what carries out actions, for those who have some from elsewhere.
        spinner: what the event loop polls with before it sleeps, while workers on this machine are there.
    """
    loop, session = asyncio.get_running_loop(), connections.session
    endpoint = Endpoint(connections, context, spinner)
    stop: list[str] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread, or not this system
            loop.add_signal_handler(number, stop.append, signal.Signals(number).name)
    accepting: list[asyncio.Task[None]] = []
    done = False  # until all is saved: a server that goes on from its last save needs the workers
    try:
        with session.running(time.monotonic):
            session.save(time.monotonic())
            if endpoint.room < session.server.n:
                session.alarm(TOO_FEW.format(endpoint.room, session.server.n))
            if begun is not None:
                begun(endpoint)
            accepting += [loop.create_task(endpoint.accept(listener)) for listener in listeners]
            if ready is not None:
                ready(*listeners[0].getsockname()[:2])
            await _look_after(session, endpoint, stop)
            for task in accepting:
                task.cancel()
        done = not stop
    finally:
        for task in accepting:
            task.cancel()
        endpoint.perform(connections.goodbye(done, session.why))
        await endpoint.close()


async def _look_after(session: Session, endpoint: Endpoint, stop: list[str]) -> None:
    """Everything that is no message, until the end."""
    while not session.over and not stop:
        pause = min(PAUSE, max(0.0, session.next_tick - time.monotonic()))
        await asyncio.sleep(pause)
        now = time.monotonic()
        session.look_after(now)
        endpoint.look_after(now)
    if stop:
        session.end(Ending.STOPPED, stop[0])
