"""Where a dashboard is, and who may see it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.live.security import check_open, is_loopback

PORT = 7461  # one above that of the workers
ADDRESS = re.compile(r"(?:(?:\[(?P<six>[^\[\]\s]+)\]|(?P<host>[^\[\]:\s]+)):)?(?P<port>[0-9]{1,5})")
ALLOWED = "True, a port, host:port, or a siag.runtimes.Dashboard"


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A page that shows how a run goes; only this machine can open it, unless `host` says otherwise.

    From beyond this machine it is reached with a token, which is part of its address, and over TLS, or not at all.

    Args:
        host: the address to listen on.
        port: the port; 0 for any that is free; by default 7461, or any if that is in use.
        certificate: for TLS: a file in PEM format; by default that of `siag.serve`.
        key: for TLS: its private key.
        token: a file with the token, one word of 16 to 512 characters; by default a new one is drawn for each run.
        insecure: let other machines in without TLS, so that others may read the token and the page.

    Example:
        >>> Dashboard(port=8000).host
        '127.0.0.1'
    """

    host: str = "127.0.0.1"
    port: int | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    token: str | os.PathLike[str] | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.host, str):
            raise BadInput("dashboard.host", self.host, "an address or a name", "write it as text")
        if self.port is not None:
            object.__setattr__(self, "port", check.integer("dashboard.port", self.port, low=0, high=65535))
        check.truth("dashboard.insecure", self.insecure)
        for name in ("certificate", "key", "token"):
            place = getattr(self, name)
            if place is not None and not isinstance(place, str | os.PathLike):
                raise BadInput(f"dashboard.{name}", place, "a path", "give it as text, or leave it out")
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise Missing(f"dashboard.{missing}", "TLS needs both a certificate and its key")

    @property
    def beyond(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host, "dashboard")

    def check_reach(self, host: str) -> None:
        """Refuse to be reached from other machines in plain text, unless told to."""
        secured = self.insecure or self.certificate is not None
        check_open("dashboard", host, secured, " for a page without TLS", "certificate and key, or ")

    def trusting(self, certificate: Any, key: Any, insecure: bool) -> Dashboard:
        """The same with the certificate of a server, where it needs one and has none, and as insecure as that."""
        given = {} if self.certificate is not None or not self.beyond else {"certificate": certificate, "key": key}
        return replace(self, insecure=self.insecure or insecure, **given)

    def within(self, folder: Path) -> Dashboard:
        """The same with its files looked for in a folder."""
        files = {name: getattr(self, name) for name in ("certificate", "key", "token")}
        return replace(self, **{name: folder / place for name, place in files.items() if place is not None})


Wanted: TypeAlias = bool | int | str | Dashboard | None
"""What the user may give: whether there is one, where, or all about it."""


def dashboard_of(wanted: Wanted) -> Dashboard | None:
    """What the user gave, in full; `None` if there is to be none.

    >>> dashboard_of("0.0.0.0:8000").host, dashboard_of(8000).port, dashboard_of(False)
    ('0.0.0.0', 8000, None)
    """
    if wanted is None or isinstance(wanted, Dashboard):
        return wanted
    if isinstance(wanted, bool):
        return Dashboard() if wanted else None
    if isinstance(wanted, int):
        if not 0 <= wanted <= 65535:
            raise BadInput("dashboard", wanted, "a port from 0 to 65535", "0 takes any that is free")
        return Dashboard(port=wanted)
    found = ADDRESS.fullmatch(wanted) if isinstance(wanted, str) else None
    if found is not None and int(found["port"]) > 65535:
        raise BadInput("dashboard", wanted, "a port from 0 to 65535", "0 takes any that is free")
    if found is None:
        remedy = "write the name of a file before --dashboard" if isinstance(wanted, str) else ""
        raise BadInput("dashboard", wanted, ALLOWED, remedy)
    return Dashboard(host=found["six"] or found["host"] or Dashboard.host, port=int(found["port"]))
