"""A follower: a server that keeps a later slice of the model, and does what the lead says."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.live.connection import Limits
from siag.live.security import Tokens
from siag.live.sharding.follower_connections import FollowerConnections
from siag.live.sharding.link import agreed
from siag.live.sharding.saves import ShardStore
from siag.live.sharding.slice_server import SliceServer
from siag.live.sharding.slices import bounds, check_slice, check_split
from siag.live.transports.tcp.endpoint import Endpoint, listen
from siag.methods import Method
from siag.storage.disk import Disk
from siag.storage.urls import disk_of

PAUSE = 0.01  # seconds between two looks at saves under way, and at who is too slow


class Follower:
    """The server of shard k of a model that is split.

    It listens from the beginning on, lets a lead in that knows the secret, and begins anew with each: a lead says which
    save to restore. Workers are let in when the lead says so.

    Args:
        method: what to do with reports; one that can be split.
        w0: (d,) where to start, all of it.
        names: of the workers.
        k: its number, from 1; the lead is 0.
        shards: how many there are.
        host: the address to listen on.
        port: the port; 0 for any that is free.
        tokens: who may have which row.
        secret: by which it knows the lead.
        context: for TLS.
        limits: on connections.
        folder: where the run is saved; this shard uses a folder in it.
        share: whether workers on this machine, all trusted, may share memory with it.
        run: as for `siag.storage.remote_disk.RemoteDisk`.

    Attributes:
        address: where it listens.
    """

    def __init__(
        self,
        method: Method,
        w0: Floats,
        names: Sequence[str],
        k: int,
        shards: int,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: Tokens,
        secret: str,
        context: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        folder: str | os.PathLike[str] | None = None,
        share: bool = False,
        run: str | None = None,
    ) -> None:
        shards = check.integer("shards", shards, low=2)
        k = check.integer("k", k, low=1, high=shards - 1)
        if not secret:
            raise BadInput("secret", secret, "a text that only the servers of this run know")
        method.serve()
        check_split(method, w0, len(names), shards)
        first, last = bounds(w0.size, shards, k)
        n = len(names)
        check_slice(method, w0, n, shards, k)
        SliceServer.warm_up(method)
        facts = {"shard": k, "shards": shards, **agreed(method, w0, n)}
        store = None if folder is None else partial(_store, *disk_of("folder", folder, run=run), n, k, shards)

        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners = listen(host, port)
        self.address: tuple[str, int] = self._listeners[0].getsockname()[:2]
        self._connections = FollowerConnections(
            lambda: SliceServer(method, w0, n, first, last),
            (first, last),
            facts,
            tokens,
            secret,
            Limits(connections=max(Limits.connections, 2 * n)) if limits is None else limits,
            store,
            share,
        )
        self._context, self._over = context, False

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
        if self._loop is not None:
            with suppress(RuntimeError):  # it is over
                self._loop.call_soon_threadsafe(self._stopped.set)

    async def _follow(self) -> None:
        self._loop = asyncio.get_running_loop()
        endpoint = Endpoint(self._connections, self._context)
        accepting = [self._loop.create_task(endpoint.accept(listener)) for listener in self._listeners]
        try:
            while not self._over:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), PAUSE)
                endpoint.look_after(time.monotonic())
        finally:
            for task in accepting:
                task.cancel()
            endpoint.perform(self._connections.end(time.monotonic()))
            await endpoint.close()
            self._connections.close_store()


def _store(disk: Disk, folder: str, n: int, k: int, shards: int, run: str) -> ShardStore:
    """Where shard k saves, given what the lead says the run is."""
    return ShardStore(folder, {"n": n, "run": run}, k, shards, disk=disk)
