"""Who is let in to the page: this machine, or whoever has the token; the page's own requests, and no other site's."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from siag.live.security import hash_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = ("localhost", "127.0.0.1", "::1")
NO_STORE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Refusal(Exception):
    """A request is not answered."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Guard:
    """Stands before an application.

    Args:
        app: what is guarded.
        host: the name or address that is listened on, which a request may be addressed to.
        port: of the server; the cookie's name has it, since browsers send cookies to all ports.
        token: what whoever asks must know; `None`: nothing.
        secure: whether it is served over TLS.
    """

    def __init__(self, app: App, host: str, port: int, token: str | None, secure: bool) -> None:
        self._app, self._port, self._token, self._secure = app, port, token, secure
        own = () if token is None else (host.lower(), socket.gethostname().lower(), socket.getfqdn().lower())
        self._names = {*LOCAL, *own}
        self._cookie = f"siag-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it in one line."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check(scope, headers)
            if self._token is not None and not self._known(headers):
                await self._let_in(scope, send)
                return
        except Refusal as refusal:
            await answer(send, refusal.status, f"{refusal}\n")
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise Refusal(405, "only GET is answered here")
        host = headers.get("host", "")
        if not self._is_own(host):
            raise Refusal(421, f"not the name of this server; open it at port {self._port} of an address of its own")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refusal(403, "requests of other sites are not answered")
        opened = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"  # a link; it shows nothing yet
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not opened:
            raise Refusal(403, "requests of other sites are not answered")

    def _is_own(self, host: str) -> bool:
        """Whether the header names this server. With a token any address does, too: no name of others leads there."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in self._names:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._token is not None

    def _known(self, headers: dict[str, str]) -> bool:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_right(secret):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and self._is_right(found.value)

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(hash_of(token.strip()), hash_of(self._token or ""))

    async def _let_in(self, scope: Scope, send: Send) -> None:
        """The token in the address becomes a cookie, and the address one without it."""
        asked = dict(pair.partition("=")[::2] for pair in scope["query_string"].decode("latin-1").split("&"))
        if scope["path"] != "/" or not self._is_right(asked.get("token", "")):
            raise Refusal(401, "open the address with its token, as it was printed where the run was started")
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict{'; Secure' * self._secure}"
        await answer(send, 303, "", {"location": "/", "set-cookie": cookie})


async def answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    """A short answer."""
    body = text.encode()
    told = {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        **NO_STORE,
        **(headers or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": encoded(told)})
    await send({"type": "http.response.body", "body": body})


def encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """As ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
