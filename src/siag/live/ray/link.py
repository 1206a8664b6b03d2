"""The way to a Ray cluster: one that is there, or one started for a run."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from siag.foundations.errors import BadInput, Missing
from siag.foundations.version import __version__

PATIENCE = 5.0  # seconds for a cluster to answer
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # hello in HTTP/2
SETTINGS = 4  # the kind of frame that answers it, by its fourth byte
COLOURS = re.compile("\x1b\\[[0-9;]*m")
RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception)\b")
REMEDY = "start one with ray start --head, or leave address out"


def installed() -> Any:
    """Ray, which is an extra."""
    try:
        import ray
    except ImportError:
        raise Missing("ray", "install it with pip install 'siag[ray]'") from None
    return ray


@contextmanager
def connected(address: str | None, wanted: Mapping[str, float]) -> Iterator[bool]:
    """Be connected to a cluster; whether it was started for this.

    Args:
        address: of the cluster; `None`: the one this process is connected to, that of RAY_ADDRESS, or else a new one.
        wanted: what a new one must have in all.
    """
    ray = installed()
    if ray.is_initialized():
        _check_same(ray, address)
        yield False
        return
    target = address or os.environ.get("RAY_ADDRESS")
    given: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if target is None or target == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        extra = {what: amount for what, amount in wanted.items() if what not in ("CPU", "GPU", "memory")}
        cores = max(os.cpu_count() or 1, wanted.get("CPU", 0.0))
        given |= {"address": "local", "num_cpus": -int(-cores // 1), "resources": extra, "include_dashboard": False}
    else:
        _check_there(target)
        given["address"] = target
    try:
        with _own_sigterm():
            ray.init(**given)
    except BaseException as error:  # Ray has many kinds
        ray.shutdown()
        if not isinstance(error, Exception):
            _pass_on(error)
            raise
        if target is None or target == "local":
            raise BadInput("address", address, f"left out where Ray starts ({_reason(error)})", REMEDY) from None
        raise BadInput("address", target, f"that of a Ray cluster ({_reason(error)})", REMEDY) from None
    with _silent():
        try:
            yield target is None or target == "local"
        finally:
            ray.shutdown()


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what SIGTERM means to the program: Ray has another idea of it."""
    usual = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, usual)


def _pass_on(error: BaseException) -> None:
    """Let SIGTERM mean what it does to the program if it came while Ray started, which Ray answers by this error."""
    if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
        signal.raise_signal(signal.SIGTERM)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep standard output free of what Ray has to say of actors that die, which the run's watcher is told as well.

    Ray prints it there even if told not to log to the driver.
    """
    from ray._private import worker

    usual = getattr(worker, "print_to_stdstream", None)  # not public: if it is gone, Ray is heard
    if usual is None:
        yield
        return
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = usual


def _check_same(ray: Any, address: str | None) -> None:
    """Refuse another cluster than the one this process is connected to."""
    here = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", here):
        allowed = f"{here} or left out, since this process is connected there"
        raise BadInput("address", address, allowed, "call ray.shutdown() first")


def _check_there(address: str) -> None:
    """Refuse an address where no cluster is; Ray itself would try for minutes."""
    if address.startswith("ray://"):
        remedy = "give host:port of the cluster, or start the script there with ray job submit"
        raise BadInput("address", address, "not one of Ray Client", remedy)
    if address == "auto":
        from ray._private import services

        with suppress(AttributeError, TypeError):  # not public: without it Ray finds out by itself
            address = services.canonicalize_bootstrap_address("auto") or ""
        if address == "auto":
            return
        if not address:
            raise BadInput("address", "auto", "left out, since no Ray cluster runs on this machine", REMEDY)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadInput("address", address, "auto, or host:port of a Ray cluster", REMEDY)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as line:
            if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
                line.sendall(PREFACE)
                answer = line.recv(9)
                if len(answer) < 4 or answer[3] != SETTINGS:
                    raise ConnectionRefusedError("something else answers there")
    except OSError as error:
        raise BadInput("address", address, f"that of a Ray cluster ({_reason(error)})", REMEDY) from None


def needs(amounts: Mapping[str, float]) -> dict[str, Any]:
    """Resources as Ray wants them."""
    usual = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    found: dict[str, Any] = {"num_cpus": 0}
    found |= {usual[name]: amount for name, amount in amounts.items() if name in usual}
    return found | {"resources": {name: amount for name, amount in amounts.items() if name not in usual}}


def reason_of(error: Exception) -> str:
    """An error of Ray's in one line: what it says first; of one in an actor's beginning, what that was."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    cause = next((line for line in reversed(lines) if RAISED.match(line)), first)[:300]
    if any("No module named 'siag" in line or "failed to import on the worker" in line for line in lines):
        return f"siag {__version__} cannot be imported on the node ({cause}); install it on all nodes"
    return cause if "creation task" in first else first


def _reason(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
    return text if len(text) <= 200 else text[:199] + "…"
