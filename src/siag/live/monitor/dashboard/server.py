"""The watcher that serves the page, from a thread with an event loop of its own; training never waits for a browser."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from siag.foundations.errors import BadInput, reason_of
from siag.foundations.extras import needed
from siag.live.monitor.dashboard.app import BROWSERS, PATIENCE, Pages
from siag.live.monitor.dashboard.board import Board, Read
from siag.live.monitor.dashboard.guard import App, Guard, Scope
from siag.live.monitor.dashboard.place import PORT, Dashboard
from siag.live.monitor.watch import Watcher
from siag.live.security import read_token, server_context
from siag.server.status import Snapshot

CONNECTIONS = 2 * BROWSERS + 16  # at a time; more are closed at once
STALE = 0.2  # seconds after which browsers should be told more, which is when they may be
BUFFER = 1 << 16  # bytes on their way to a browser, after which it counts as slow


class Served(Watcher):
    """A dashboard that is open; from when it is made until it is closed.

    Args:
        place: where it is, and who may see it.
        board: what there is to see.

    Attributes:
        address: where to open it, with the token if there is one.
    """

    def __init__(self, place: Dashboard, board: Board | None = None) -> None:
        needed("starlette", "dashboard")
        uvicorn = needed("uvicorn", "dashboard")
        place.check_reach(place.host)
        self.board = Board() if board is None else board
        context = None
        if place.certificate is not None and place.key is not None:
            context = server_context(Path(place.certificate), Path(place.key))
        token = None
        if place.beyond or place.token is not None:
            token = None if place.token is None else read_token(Path(place.token))
            token = token or secrets.token_urlsafe(24)
        self._shown = -math.inf
        self._socket = listening(place)
        host, port = self._socket.getsockname()[:2]
        try:
            place.check_reach(str(host))  # a name may mean anything; this is where the socket is
        except BadInput:
            self._socket.close()
            raise
        self.port = int(port)
        self.address = address_of(place.host, self.port, context is not None, token)
        kind = bounded()
        pages = Pages(self.board, kind.drop)
        app: App = Guard(pages.app, place.host, self.port, token, context is not None)
        options: dict[str, Any] = {"lifespan": "off", "ws": "none", "loop": "asyncio", "http": kind}
        quiet: dict[str, Any] = {"log_config": None, "log_level": logging.CRITICAL, "access_log": False}
        limits: dict[str, Any] = {"timeout_graceful_shutdown": 1, "h11_max_incomplete_event_size": 1 << 14}
        plain: dict[str, Any] = {"proxy_headers": False, "server_header": False}
        config = uvicorn.Config(app, **options, **quiet, **limits, **plain)
        config.load()
        config.ssl = context
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="siag-dashboard", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    # What a watcher is told

    def begin(self, about: Mapping[str, Any]) -> None:
        """What is run."""
        self.board.begin(about)

    def model(self, read: Read) -> None:
        """How to copy w."""
        self.board.read_model = read

    def wants(self, seconds: float) -> bool:
        """Whether a column of time ends here, or what browsers have is stale."""
        return self._shown < math.inf and (self.board.due(seconds) or time.monotonic() - self._shown >= STALE)

    def show(self, snapshot: Snapshot) -> None:
        """Keep it."""
        if self._shown < math.inf:
            self._shown = time.monotonic()
            self._attempt(lambda: self.board.show(snapshot))

    def event(self, text: str) -> None:
        """Keep it."""
        self.board.event(text)

    def problem(self, text: str) -> None:
        """Keep it, as a problem."""
        self.board.event(text, wrong=True)

    def _attempt(self, change: Callable[[], None]) -> None:
        """Change the board; if that fails, for any reason, nothing more is shown, and training goes on."""
        try:
            change()
        except Exception as error:
            self._shown = math.inf
            self.problem(f"problem: nothing new is shown from here on, since the page has a fault: {error!r}")

    def close(self) -> None:
        """Tell browsers that this is the end, and free the port."""
        self._attempt(self.board.end)
        self.board.read_model = None
        self._server.should_exit = True  # streams end by themselves, since the board has; others after a second
        self._thread.join(PATIENCE)
        with suppress(OSError):
            self._socket.close()

    def wait(self) -> None:
        """Until it is interrupted."""
        while self._thread.is_alive():
            self._thread.join(1.0)


def listening(place: Dashboard) -> socket.socket:
    """A socket at its port; if none was asked for and the usual one is in use, at any."""
    ports = (PORT, 0) if place.port is None else (place.port,)
    for port in ports:
        try:
            kind, _, _, _, where = socket.getaddrinfo(
                place.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            made = socket.create_server(where[:2], family=kind, backlog=64)
        except OSError as error:
            if port != ports[-1]:
                continue
            why = reason_of(error).partition(" (while")[0]  # Python repeats the address
            allowed = f"one to listen on at {place.host or 'all addresses'} ({why})"
            remedy = "choose another port, 0 for any, or an address of this machine"
            raise BadInput("dashboard", port, allowed, remedy) from None
        made.setblocking(False)
        return made
    raise BadInput("dashboard", PORT, "a port that is free")  # never: the last one is 0


def address_of(host: str, port: int, secure: bool, token: str | None) -> str:
    """Where a browser finds it."""
    name = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    name = f"[{name}]" if ":" in name else name
    return f"http{'s' * secure}://{name}:{port}/{'' if token is None else f'?token={token}'}"


def bounded() -> Any:
    """HTTP as uvicorn speaks it, with a bound on connections, on what waits to be sent, and on silent clients."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Bounded(H11Protocol):
        there: dict[Any, Bounded] = {}  # noqa: RUF012  # those of this class, which is made for one server

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.there) >= CONNECTIONS:
                transport.abort()
                return
            self.there[self.client] = self
            transport.set_write_buffer_limits(high=BUFFER)
            with suppress(OSError, AttributeError):
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            self.loop.call_later(PATIENCE, self._close_if_silent)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.there.get(self.client) is self:
                del self.there[self.client]
            super().connection_lost(exc)

        def _close_if_silent(self) -> None:
            """A client that has asked for nothing yet is not waited for."""
            if getattr(self, "cycle", None) is None:
                self.transport.abort()

        @classmethod
        def drop(cls, scope: Scope) -> None:
            """Close the connection of a request at once, whatever waits to be sent."""
            found = cls.there.get(scope["client"])
            if found is not None:
                found.transport.abort()

    return Bounded
