"""Putting the lead together: checked, connected to its followers, with a place for its saves."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from siag.foundations.errors import BadFile, BadInput
from siag.live.parts import REMEDY, Parts
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Connect, Link, agreed, digest
from siag.live.sharding.saves import NOT_SPLIT, LeadStore
from siag.live.sharding.slices import check_slice, check_split
from siag.live.spec import Spec
from siag.live.transports.tcp.client import ClientConnection
from siag.server.parameter_server import ParameterServer


@dataclass(frozen=True)
class Followers:
    """The other servers of a model that is split.

    Args:
        addresses: in the order of their slices.
        secret: by which they know the lead.
        context: for TLS with them.
        connect: opens a connection to one.
    """

    addresses: Sequence[tuple[str, int]] = ()
    secret: str = ""
    context: ssl.SSLContext | None = None
    connect: Connect = ClientConnection


class SplitParts(Parts):
    """The parts of a session whose model is split: a lead that is connected to its followers, and its saves.

    Args:
        spec: what to run, validated.
        followers: the other servers.
        clock: what time it is, in seconds since any moment.
        given: as for `Parts`.
    """

    def __init__(
        self,
        spec: Spec,
        followers: Followers,
        *,
        clock: Callable[[], float] = time.monotonic,
        **given: Any,
    ) -> None:
        super().__init__(spec, **given)
        self._followers, self._shards, self._clock = followers, len(followers.addresses) + 1, clock
        if spec.durable:
            raise BadInput("durable", True, "False for a model that is split", "or use one server")

    @property
    def traffic(self) -> tuple[int, int]:
        """All of w, wherever it is."""
        return int(self.spec.w0.size), int(self.spec.w0.size)

    @property
    def used(self) -> bool:
        """Only the saves of all together can tell."""
        return self.folder is not None

    def server(self, stack: ExitStack) -> LeadServer:
        """The lead."""
        spec, shards = self.spec, self._shards
        if super().used:
            raise BadFile(f"{self.folder}: {NOT_SPLIT}; {REMEDY}")
        check_split(spec.method, spec.w0, spec.n, shards)
        share = check_slice(spec.method, spec.w0, spec.n, shards, 0)
        self.remarks.append(f"the model is split over {shards} servers, {share / 2**20:.1f} MiB in each")
        facts = {**agreed(spec.method, spec.w0, spec.n)}
        facts["run"] = None if self.folder is None else digest(spec.identity)
        links = []
        for k, address in enumerate(self._followers.addresses, start=1):
            given = self._followers.secret, facts, self._followers.context, self._followers.connect
            links.append(stack.enter_context(closing(Link(address, k, shards, int(spec.w0.size), *given))))
        return LeadServer(spec.method, spec.step, spec.w0, spec.names, links, **self.given)

    def store(self, stack: ExitStack, server: ParameterServer) -> LeadStore | None:
        """Where the saves of all are counted."""
        if self.folder is None or not isinstance(server, LeadServer):
            return None
        store = self.make_store(self.folder, server, **self._writing("siag-store"))
        stack.callback(store.close)
        return store

    def make_store(self, folder: str, server: LeadServer, **given: Any) -> LeadStore:
        """The lead's store."""
        return LeadStore(folder, self.spec.identity, server, self._clock, **given)
