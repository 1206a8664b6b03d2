"""Putting the lead together: checked, connected to its followers, with a place for its saves."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

from siag.foundations.errors import BadFile, BadInput
from siag.live.parts import REMEDY, Parts
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Followers, Link
from siag.live.sharding.saves import NOT_SPLIT, LeadStore
from siag.live.sharding.slices import Shard
from siag.live.spec import Spec
from siag.server.parameter_server import ParameterServer


class SplitParts(Parts):
    """The parts of a session whose model is split: a lead that is connected to its followers, and its saves.

    Args:
        spec: what to run, validated.
        followers: the other servers.
        given: as for `Parts`.
    """

    def __init__(self, spec: Spec, followers: Followers, **given: Any) -> None:
        super().__init__(spec, **given)
        self._followers = followers
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
        others = self._followers
        if super().used:
            raise BadFile(f"{self.folder}: {NOT_SPLIT}; {REMEDY}")
        shard = Shard(self.spec, 0, len(others.addresses) + 1)
        share = shard.check_memory()
        self.remarks.append(f"the model is split over {shard.shards} servers, {share / 2**20:.1f} MiB in each")
        links = []
        for k in range(1, shard.shards):
            links.append(stack.enter_context(closing(Link(shard, k, others))))
        return LeadServer(shard, links, **self.given)

    def store(self, stack: ExitStack, server: ParameterServer) -> LeadStore | None:
        """Where the saves of all are counted."""
        if self.folder is None or not isinstance(server, LeadServer):
            return None
        store = LeadStore(self.folder, server, **self._writing("siag-store"))
        stack.callback(store.close)
        return store
