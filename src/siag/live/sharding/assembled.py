"""Putting the lead together: checked, connected to its followers, with a place for its saves."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siag.foundations.types import Floats
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Link, agreed, digest
from siag.live.sharding.saves import LeadStore
from siag.live.sharding.slices import check_slice, check_split
from siag.methods import Method
from siag.steps import Step


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


def assemble_lead(
    stack: ExitStack,
    followers: Followers,
    method: Method,
    step: Step,
    w0: Floats,
    workers: Sequence[str],
    given: dict[str, Any],
    folder: Path | None,
    identity: dict[str, Any],
    publish: Callable[[], None] | None = None,
) -> tuple[LeadServer, LeadStore | None, str]:
    """The lead, where it saves, and a remark; what must be closed goes on the stack.

    Args:
        stack: where that is.
        followers: the others.
        method: what to do with reports.
        step: the sizes of the moves.
        w0: (d,) where to start.
        workers: their names.
        given: what else a `ParameterServer` is given.
        folder: of the run.
        identity: what its saves are of.
        publish: as for `Store`.
    """
    n, d, shards = len(workers), int(w0.size), len(followers.addresses) + 1
    check_split(method, w0, n, shards)
    share = check_slice(method, w0, n, shards, 0)
    facts = {**agreed(method, w0, n), "run": None if folder is None else digest(identity)}
    links = []
    for k, address in enumerate(followers.addresses, start=1):
        link = Link(address, k, shards, d, followers.secret, facts, followers.context)
        links.append(stack.enter_context(closing(link)))
    server = LeadServer(method, step, w0, workers, links, **given)
    store = None
    if folder is not None:
        store = LeadStore(folder, identity, server, publish)
        stack.callback(store.close)
    return server, store, f"the model is split over {shards} servers, {share / 2**20:.1f} MiB in each"
