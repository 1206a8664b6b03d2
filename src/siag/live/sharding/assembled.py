"""Putting the lead together: checked, connected to its followers, with a place for its saves."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from siag.foundations.errors import BadFile, BadInput
from siag.live.parts import REMEDY, Parts
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Link, agreed, digest
from siag.live.sharding.saves import NOT_SPLIT, LeadStore
from siag.live.sharding.slices import check_slice, check_split
from siag.live.spec import Spec
from siag.server.parameter_server import ParameterServer
from siag.storage.generations import generations_in


@dataclass(frozen=True)
class Followers:
    """The other servers of a model that is split.

    Args:
        addresses: in the order of their slices.
        secret: by which they know the lead.
        context: for TLS with them.
    """

    addresses: Sequence[tuple[str, int]] = ()
    secret: str = ""
    context: ssl.SSLContext | None = None


class SplitParts(Parts):
    """The parts of a session whose model is split: a lead that is connected to its followers, and its saves.

    Args:
        spec: what to run, validated.
        followers: the other servers.
        publish: as for `Parts`.
    """

    def __init__(self, spec: Spec, followers: Followers, publish: Callable[[], None] | None = None) -> None:
        super().__init__(spec, publish)
        self._followers, self._shards = followers, len(followers.addresses) + 1
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
        if self.folder is not None and self.folder.is_dir() and generations_in(self.folder):
            raise BadFile(f"{self.folder}: {NOT_SPLIT}; {REMEDY}")
        check_split(spec.method, spec.w0, spec.n, shards)
        share = check_slice(spec.method, spec.w0, spec.n, shards, 0)
        self.remarks.append(f"the model is split over {shards} servers, {share / 2**20:.1f} MiB in each")
        facts = {**agreed(spec.method, spec.w0, spec.n)}
        facts["run"] = None if self.folder is None else digest(spec.identity)
        links = []
        for k, address in enumerate(self._followers.addresses, start=1):
            common = shards, int(spec.w0.size), self._followers.secret, facts, self._followers.context
            links.append(stack.enter_context(closing(Link(address, k, *common))))
        return LeadServer(spec.method, spec.step, spec.w0, spec.names, links, **self.given)

    def store(self, stack: ExitStack, server: ParameterServer) -> LeadStore | None:
        """Where the saves of all are counted."""
        if self.folder is None or not isinstance(server, LeadServer):
            return None
        store = LeadStore(self.folder, self.spec.identity, server, self.publish)
        stack.callback(store.close)
        return store
