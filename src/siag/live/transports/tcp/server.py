"""The network runtime, server side: TCP or TLS, one event loop for all, from the first listening to the goodbye."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from siag.activity import Tick
from siag.foundations.errors import BadInput, reason_of
from siag.live.reasons import Ending
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.transports.tcp.connection import Limits
from siag.live.transports.tcp.hub import Hub
from siag.live.transports.waiting import Spinner, event_loop

__all__ = ["Limits", "listen", "serve_eagerly", "serve_session"]

PAUSE = 0.05  # seconds between two looks at everything that is no message


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host, on the same port."""
    listeners: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, number, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, number)
            listeners.append(listener)
            if hasattr(socket, "SO_REUSEADDR") and hasattr(signal, "SIGKILL"):  # on Windows it means another thing
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken = listeners[0].getsockname()[1] if len(listeners) > 1 else port
            listener.bind((address[0], taken, *address[2:]))
            listener.listen(1024)
            listener.setblocking(False)
    except OSError as error:
        for listener in listeners:
            listener.close()
        reason = reason_of(error)
        raise BadInput("port", port, f"one to listen on at {host} ({reason})", "choose another with --port") from None
    return listeners


def serve_eagerly(session: Session, listeners: Sequence[socket.socket], **given: Any) -> None:
    """The same as `serve_session` in an event loop of its own, which need not sleep for workers on this machine."""
    spinner = Spinner(able=False)
    with asyncio.Runner(loop_factory=lambda: event_loop(spinner)) as runner:
        runner.run(serve_session(session, listeners, spinner=spinner, **given))


async def serve_session(
    session: Session,
    listeners: Sequence[socket.socket],
    *,
    context: ssl.SSLContext | None,
    tokens: Tokens,
    limits: Limits,
    ready: Callable[[str, int], None] | None = None,
    origin: dict[str, Any] | None = None,
    share: bool = False,
    spinner: Spinner | None = None,
) -> None:
    """Serve until the session is over, or a signal comes; then save and say goodbye.

    With `share`, workers on this machine may share memory with the server; for workers that are trusted, see `Hub`.
    With `spinner`, which the event loop looks with, it looks before it sleeps while workers on this machine are there.
    """
    from siag.live.sharding.hub import LeadHub
    from siag.live.sharding.lead import LeadServer

    loop = asyncio.get_running_loop()
    kind = LeadHub if isinstance(session.server, LeadServer) else Hub
    hub = kind(session, tokens, limits, context, origin, share, spinner)
    stop: list[str] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread, or not this system
            loop.add_signal_handler(number, stop.append, signal.Signals(number).name)
    session.begin(time.monotonic())
    session.save(time.monotonic())
    accepting = [loop.create_task(hub.accept(listener)) for listener in listeners]
    done = False
    try:
        if ready is not None:
            ready(*listeners[0].getsockname()[:2])
        await _look_after(session, hub, stop)
        done = not stop
    finally:
        session.end(*((Ending.STOPPED, stop[0]) if stop else (Ending.SERVER_ERROR,)))
        for task in accepting:
            task.cancel()
        try:
            session.finish(time.monotonic())  # first: workers that hear goodbye will not come back
        finally:
            hub.goodbye(done, session.why)
            await hub.close()


async def _look_after(session: Session, hub: Hub, stop: list[str]) -> None:
    """Everything that is no message, until the end."""
    ticking = isinstance(session.server.server, Tick)
    while not session.over and not stop:
        pause = min(PAUSE, max(0.0, session.next_tick - time.monotonic())) if ticking else PAUSE
        await asyncio.sleep(pause)
        if hub.failure is not None:
            raise hub.failure
        now = time.monotonic()
        hub.sweep(now)
        session.look_after(now)
