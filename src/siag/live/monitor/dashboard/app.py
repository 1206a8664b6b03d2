"""What is served: the page itself, the stream that feeds it, the model, and a moment of a run that is over."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import Any

import numpy as np

from siag.foundations.extras import needed
from siag.foundations.types import Floats
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.guard import NO_STORE, App, Receive, Scope, Send, answer, encoded
from siag.live.monitor.dashboard.messages import EVERY, ROOM, Sender

BROWSERS = 32  # that are sent what happens, at a time
COPIES = 2  # of the model that are sent, at a time
PATIENCE = 10.0  # seconds for a browser to take what it is sent, and for a run to copy its model
ALIVE = 5.0  # seconds without news after which a word is sent all the same
BLOCK = 1 << 18  # bytes of a model that are sent at a time
BUSY = "too many browsers look at this run; it is tried again"
SCRIPTS = ("text", "store", "frame", "curve", "shares", "lanes", "table", "page")  # in this order
STREAM = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no", **NO_STORE}
Drop = Callable[[Scope], None]


@cache
def page() -> tuple[bytes, str]:
    """The page, all in one, and the policy that lets it run nothing else."""
    here = files("siag.live.monitor.dashboard") / "page"
    style = (here / "page.css").read_text("utf-8")
    script = "\n".join((here / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    script = f'"use strict";\n{{\n{script}\n}}\n'
    whole = (here / "page.html").read_text("utf-8").replace("/* STYLE */", style).replace("/* SCRIPT */", script)
    policy = {
        "default-src": "'none'",
        "script-src": _hash_of(script),
        "style-src": _hash_of(style),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return whole.encode(), "; ".join(f"{name} {value}" for name, value in policy.items())


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class Pages:
    """What is answered about a board.

    Args:
        board: what there is to see.
        drop: closes the connection of a request at once, for a browser that does not take what it is sent.
    """

    def __init__(self, board: Board, drop: Drop) -> None:
        self._board, self._drop = board, drop
        self._watching = self._copying = 0

    @property
    def app(self) -> App:
        """All of them; any other path is not there."""
        needed("starlette", "dashboard")
        from starlette.applications import Starlette
        from starlette.routing import Route

        paths: dict[str, App] = {"/": self._page, "/stream": self._stream, "/at": self._at}
        paths |= {f"/model.{kind}": partial(self._model, kind) for kind in ("npy", "json")}
        made = Starlette(routes=[Route(path, _Asgi(answer)) for path, answer in paths.items()])
        made.router.redirect_slashes = False  # "/stream/" is another path
        return made

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, policy = page()
        told = {"content-type": "text/html; charset=utf-8", "content-security-policy": policy, **NO_STORE}
        await send({"type": "http.response.start", "status": 200, "headers": encoded(told)})
        await send({"type": "http.response.body", "body": body})

    async def _at(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A moment of a run that is over: /at?12.5."""
        with suppress(ValueError):
            found = self._board.at(float(scope["query_string"]))
            if found is not None:
                await answer(send, 200, json.dumps(found, allow_nan=False), {"content-type": "application/json"})
                return
        await answer(send, 404, "no such moment\n")

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Server-sent events, until the browser goes or the run has ended."""
        if self._watching >= BROWSERS:
            await answer(send, 503, f"{BUSY}\n", {"retry-after": "5"})
            return
        self._watching += 1
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": encoded(STREAM)})
            async for part in self._news(gone):
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            self._drop(scope)
        finally:
            gone.cancel()
            self._watching -= 1

    async def _news(self, gone: asyncio.Future[None]) -> AsyncIterator[bytes]:
        board, sender = self._board, Sender()
        yield b"retry: 1000\n\n"
        seen: Any = None
        quiet = 0.0
        while not gone.done():
            stand, wait = board.stand, EVERY
            if stand != seen or sender.behind:
                part = board.next_message(sender)
                seen, quiet = stand, 0.0
                wait *= max(1.0, len(part) / ROOM)  # what is longer than it should be takes longer
                yield part
            elif quiet >= ALIVE:
                quiet = 0.0
                yield b": \n\n"
            if board.ended and stand == seen and not sender.behind and not board.slider:
                return
            quiet += wait
            await asyncio.wait([gone], timeout=wait)

    async def _model(self, kind: str, scope: Scope, receive: Receive, send: Send) -> None:
        """A copy of w, as .npy or as JSON."""
        read = self._board.read_model
        if read is None or self._copying >= COPIES:
            words = "the model is not here" if read is None else "the model is being copied for others; try again"
            await answer(send, 404 if read is None else 503, f"{words}\n")
            return
        self._copying += 1
        try:
            async with asyncio.timeout(PATIENCE):
                w = await asyncio.wrap_future(read())
        except Exception:  # the server may be elsewhere, and gone
            await answer(send, 503, "the run has ended, or is too busy to copy its model; try again\n")
        else:
            await _send_array(kind, w, send)
        finally:
            self._copying -= 1


class _Asgi:
    """An application of its own, which Starlette then does not take for a function of a request."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_array(kind: str, w: Floats, send: Send) -> None:
    if kind == "npy":
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(w))
        parts = [head.getvalue(), np.ascontiguousarray(w).data.cast("B")]
    else:
        parts = [memoryview(json.dumps({"w": w.tolist()}).encode())]  # NaN and all: it is what it is
    told = {
        "content-type": "application/json" if kind == "json" else "application/octet-stream",
        "content-length": str(sum(len(part) for part in parts)),
        "content-disposition": f'attachment; filename="w.{kind}"',
        **NO_STORE,
    }
    await send({"type": "http.response.start", "status": 200, "headers": encoded(told)})
    for part in parts:
        for k in range(0, len(part), BLOCK):
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": bytes(part[k : k + BLOCK]), "more_body": True})
    await send({"type": "http.response.body", "body": b""})
