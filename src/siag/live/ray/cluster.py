"""Connecting to a Ray cluster: one that is there, or one started for a run."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from siag.foundations.errors import BadInput, SiagError, reason_of
from siag.foundations.version import __version__
from siag.live.ray.resources import Amounts
from siag.streams import Part, Rows
from siag.streams.rows import words_of

TIMEOUT = 5.0  # seconds for a cluster to accept a connection
LONGEST = 200  # characters of Ray's explanations
REMEDY = "start one with ray start --head, or leave address out"


@contextmanager
def connected(address: str | None, wanted: Amounts) -> Iterator[bool]:
    """Connect to a cluster, if this process is not connected; yield whether the cluster was started for this.

    Args:
        address: of the cluster; `None`: the one this process is connected to, that of RAY_ADDRESS, or else a new one.
        wanted: what a new one must have in all.
    """
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", here):
            allowed = f"{here} or left out, since this process is connected there"
            raise BadInput("address", address, allowed, "call ray.shutdown() first")
        yield False
        return
    target = address or os.environ.get("RAY_ADDRESS") or "local"
    ours = target == "local"
    given: dict[str, Any] = {"address": target, "logging_level": logging.ERROR, "log_to_driver": False}
    if ours:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        extra = {what: amount for what, amount in wanted.items() if what not in ("CPU", "GPU", "memory")}
        cores = max(os.cpu_count() or 1, math.ceil(wanted["CPU"]))
        given |= {"num_cpus": cores, "resources": extra, "include_dashboard": False}
    else:
        _check_reachable(target)
    try:
        _init(given)
        with _silent():
            yield ours
    finally:
        ray.shutdown()


def _init(given: dict[str, Any]) -> None:
    """Call `ray.init`, and put the program's handler of SIGTERM back, which Ray replaces by one that exits."""
    usual, terminated = signal.getsignal(signal.SIGTERM), False
    try:
        ray.init(**given)
    except SystemExit as error:
        terminated = error.code == signal.SIGTERM
        raise
    except Exception as error:  # Ray has many kinds
        reason = reason_of(error)[:LONGEST]
        if given["address"] == "local":
            raise SiagError(f"Ray does not start on this machine: {reason}; give the address of a cluster") from None
        raise BadInput("address", given["address"], f"that of a Ray cluster ({reason})", REMEDY) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, usual)
        if terminated:
            ray.shutdown()
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep standard output free of Ray's remarks on processes that died, which the run's watcher is told as well.

    Ray prints them even with `log_to_driver=False` and has no option against it; they would break the lines of
    `siag train --json`. So this replaces a private function; if that is gone, Ray is heard again.
    """
    private: Any = getattr(getattr(ray, "_private", None), "worker", None)
    usual = getattr(private, "print_to_stdstream", None)
    if usual is None:
        yield
        return
    private.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        private.print_to_stdstream = usual


def _check_reachable(address: str) -> None:
    """Refuse an address at which nobody listens; Ray itself would try for minutes."""
    if address.startswith("ray://"):
        remedy = "give host:port of the cluster, or start the script there with ray job submit"
        raise BadInput("address", address, "not one of Ray Client", remedy)
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadInput("address", address, "auto, or host:port of a Ray cluster", REMEDY)
    try:
        socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
    except OSError as error:
        raise BadInput("address", address, f"that of a Ray cluster ({reason_of(error)})", REMEDY) from None


def parcel(content: Any) -> Any:
    """Something to be sent, in Ray's object store; of Datasets Ray must know that they are in it."""
    return ray.put(content if isinstance(content, Rows | Part) else ray.cloudpickle.dumps(content))


def why_lost(error: Exception) -> str:
    """What Ray says of an actor that is gone, in one line."""
    cause = words_of(error)
    if "No module named 'siag" in cause or "failed to import on the worker" in str(error):
        return f"siag {__version__} cannot be imported on the node ({cause}); install it on all nodes"
    return cause.removeprefix(f"{SiagError.__module__}.SiagError: ")
