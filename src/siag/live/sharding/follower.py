"""A follower: a server that keeps a later slice of the model, and does what the lead says."""

from __future__ import annotations

import asyncio
import ssl
import time
from functools import partial

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.live.connection import Limits
from siag.live.security import Tokens
from siag.live.sharding.follower_connections import FollowerConnections
from siag.live.sharding.saves import ShardStore
from siag.live.sharding.slice_server import SliceServer
from siag.live.sharding.slices import Shard
from siag.live.spec import Spec
from siag.live.transports.tcp.endpoint import Endpoint, listen
from siag.storage.urls import disk_of

PAUSE = 0.01  # seconds between two looks at saves under way, and at who is too slow


class Follower:
    """The server of shard k of a model that is split.

    It listens from the beginning on, lets a lead in that knows the secret, and begins anew with each: a lead says which
    save to go back to. Workers are let in when the lead says so.

    Args:
        spec: the run, validated; its folder is where the run is saved, and this shard uses a folder in it.
        k: its number, from 1; the lead is 0.
        shards: how many there are.
        host: the address to listen on.
        port: the port; 0 for any that is free.
        tokens: who may have which row.
        secret: by which it knows the lead.
        context: for TLS.
        share: whether workers on this machine, all trusted, may share memory with it.
        run: as for `siag.storage.remote_disk.RemoteDisk`.

    Attributes:
        address: where it listens.
    """

    def __init__(
        self,
        spec: Spec,
        k: int,
        shards: int,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: Tokens,
        secret: str,
        context: ssl.SSLContext | None = None,
        share: bool = False,
        run: str | None = None,
    ) -> None:
        if not secret:
            raise BadInput("secret", secret, "a text that only the servers of this run know")
        shard = Shard(spec, check.integer("k", k, low=1), shards)
        shard.check_memory()
        SliceServer.warm_up(spec.method)
        limits = Limits(connections=max(Limits.connections, 2 * spec.n))
        store = None
        if spec.folder is not None:
            disk, folder = disk_of("folder", spec.folder, run=run)
            store = partial(ShardStore, folder, shard, disk=disk)
        self._connections = FollowerConnections(shard, tokens, secret, limits, store=store, share=share)
        self._context, self._over = context, False
        self._listeners = listen(host, port)
        self.address: tuple[str, int] = self._listeners[0].getsockname()[:2]

    def run(self) -> None:
        """Follow until `stop` is called."""
        try:
            asyncio.run(self._follow())
        finally:
            for listener in self._listeners:
                listener.close()

    def stop(self) -> None:
        """Have `run` return soon; from any thread."""
        self._over = True

    async def _follow(self) -> None:
        connections, endpoint = self._connections, Endpoint(self._connections, self._context)
        accepting = [asyncio.create_task(endpoint.accept(listener)) for listener in self._listeners]
        try:
            while not self._over:
                await asyncio.sleep(PAUSE)
                endpoint.look_after(time.monotonic())
        finally:
            for task in accepting:
                task.cancel()
            for connection in list(connections.connections):
                endpoint.perform(connections.close(connection, time.monotonic()))
            await endpoint.close()
            connections.close_store()
