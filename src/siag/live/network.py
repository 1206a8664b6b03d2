"""`serve` and `work`: the same over a network, in Python; the commands of the same names call them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.foundations.types import Floats
from siag.live.assembly import Assembly, Options, checked, distance_from, worker_names
from siag.live.connection import Limits
from siag.live.monitor.watch import Watcher
from siag.live.security import Tokens, check_binding, client_context, is_loopback, read_token, server_context
from siag.live.session import Session
from siag.live.task import FromProblem, FromStream, Gradient, Task, check_method, check_stream
from siag.live.transports.tcp.endpoint import listen
from siag.live.transports.tcp.server import serve_eagerly
from siag.live.transports.tcp.worker import TcpWorker
from siag.live.until import Until, until_of
from siag.live.welcome import make_method
from siag.live.wire import LARGEST, PORT
from siag.live.worker import Worker
from siag.methods import Method
from siag.problems import Problem
from siag.server.guard import Guard
from siag.server.members import KEEP, Departed
from siag.server.parameter_server import STEP_AT_ONCE
from siag.simulation import Run
from siag.steps import Step
from siag.streams.remarks import heard_by

AnyPath = str | os.PathLike[str]
WORDS = 1000  # letters of a problem that are sent
ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]\s]+)\]|(?P<host>[^\[\]:\s]+))(?::(?P<port>[0-9]{1,5}))?")


def serve(
    w0: Floats | None = None,
    workers: int | Sequence[str] | None = None,
    method: Method | None = None,
    step: Step | None = None,
    until: Until | int | None = None,
    *,
    problem: Problem | None = None,
    seed: int = 0,
    host: str = "127.0.0.1",
    port: int = PORT,
    certificate: AnyPath | None = None,
    key: AnyPath | None = None,
    tokens: AnyPath | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
    server: EveryArrivals | Tick = STEP_AT_ONCE,
    guard: Guard | None = None,
    departed: Departed = KEEP,
    loss: Callable[[Floats], float] | None = None,
    record: int = 200,
    folder: AnyPath | None = None,
    durable: bool = False,
    trace: AnyPath | None = None,
    progress: bool | Watcher | None = None,
    linger: float | None = 600.0,
    forget: float | None = None,
    patience: float | None = None,
    ready: Callable[[str, int], None] | None = None,
    about: dict[str, Any] | None = None,
) -> Run:
    """Serve workers that connect over a network, until the end; `siag.work` is their side.

    Args:
        w0: (d,) where to start; 0 with a `problem`.
        workers: how many, or their names; as many as a `problem` has.
        method: as in `siag.train`.
        step: as in `siag.train`.
        until: as in `siag.train`; by default until all workers have left.
        problem: what workers with the same `problem` and `seed` minimise; kept in the trace, for `siag.replay`.
        seed: of their samples.
        host: the address to listen on; only this machine by default.
        port: the port to listen on; 0 for any that is free.
        certificate: for TLS: a file in PEM format.
        key: for TLS: the certificate's private key.
        tokens: a file of tokens, each bound to a row; `siag certs` makes it.
        insecure: listen beyond this machine even without TLS and tokens.
        limits: on connections.
        server: as in `siag.train`.
        guard: as in `siag.train`.
        departed: as in `siag.train`.
        loss: as in `siag.train`.
        record: as in `siag.train`.
        folder: as in `siag.train`.
        durable: as in `siag.train`.
        trace: as in `siag.train`.
        progress: as in `siag.train`.
        linger: seconds to wait, nobody being there, before saving and ending; `None`: for ever.
        forget: seconds after which a worker that is away counts as having left; `None`: never.
        patience: seconds without a report after which a worker is shown as stalled.
        ready: called with host and port once the server listens.
        about: more to keep in the run and the trace.
    """
    method, step = checked(method, step)
    start, names = _model(w0, problem), _workers(workers, problem)
    check_method(method, problem, start, len(names))
    facts: dict[str, Any] = {
        "problem": "streams of the workers" if problem is None else repr(problem),
        "activity": f"live, {len(names)} worker{'s' * (len(names) > 1)}",
        "seed": None if problem is None else check.seed(seed),
        **({} if loss is None else {"measure": "loss"}),
        **(about or {}),
    }
    if loss is None and problem is not None:
        loss = distance_from(problem.optimum)
    linger = None if linger is None or linger == math.inf else check.real("linger", linger, low=0)
    known = Tokens.none() if tokens is None else Tokens.load(Path(tokens))
    if known.required and max(known.rows) >= len(names):
        raise BadInput("tokens", max(known.rows), f"for rows 0 to {len(names) - 1}", "give more workers")
    if (certificate is None) != (key is None):
        raise Missing("key" if key is None else "certificate", "TLS needs both a certificate and its key")
    context = None if certificate is None or key is None else server_context(Path(certificate), Path(key))
    port = check.integer("port", port, low=0, high=65535)
    if limits is None:
        limits = Limits(connections=max(Limits.connections, 2 * len(names)))
    secure = (context is not None, known.required, insecure)
    check_binding(host, *secure)
    options = Options(
        server=server,
        guard=guard,
        departed=departed,
        loss=loss,
        record=record,
        folder=folder,
        durable=durable,
        trace=trace,
        progress=progress,
        linger=linger,
        patience=patience,
        forget=forget,
    )
    secrets: dict[str, Any] = {"context": context, "tokens": known, "limits": limits}
    origin = _origin(problem, seed)
    with ExitStack() as stack:
        listeners = [stack.enter_context(listener) for listener in listen(host, port)]
        for listener in listeners:  # a name may mean anything; this is where the socket is
            check_binding(str(listener.getsockname()[0]), *secure)
        assembly = Assembly(method, step, start, names, until_of(until, True), options, facts)

        def carry(session: Session) -> None:
            _carried("method", max(session.server.message_size, session.server.shown.size))
            serve_eagerly(session, listeners, **secrets, ready=ready, origin=origin)

        return assembly.run(carry)


def _origin(problem: Problem | None, seed: int) -> dict[str, Any]:
    """What samples are drawn from, where both ends can tell."""
    if problem is None:
        return {}
    words = repr(problem)
    return {"seed": seed} if " at 0x" in words or len(words) > WORDS else {"problem": words, "seed": seed}


def _model(w0: Floats | None, problem: Problem | None) -> Floats:
    """Where to start."""
    check_problem(problem)
    if w0 is None:
        if problem is None:
            raise Missing("w0", "give the model's first parameters, an array of d numbers, or a problem")
        start = np.zeros(problem.d)
    else:
        start = check.floats("w0", w0, (None if problem is None else problem.d,))
    _carried("w0", start.size)
    return start


def _carried(what: str, numbers: int) -> None:
    """Refuse what no frame can carry."""
    if 8 * numbers > LARGEST:
        raise BadInput(what, numbers, f"at most {LARGEST // 8} numbers, what a frame can carry")


def _workers(workers: int | Sequence[str] | None, problem: Problem | None) -> list[str]:
    """The workers' names."""
    if problem is None:
        if workers is None:
            raise Missing("workers", "say how many there are, or give their names, or a problem")
        return worker_names("workers", workers)
    names = worker_names("workers", problem.n if workers is None else workers)
    if len(names) != problem.n:
        raise BadInput("workers", workers, f"{problem.n}, as many as the problem has")
    return names


def check_problem(problem: object) -> None:
    """Refuse what is neither a problem nor left out."""
    if problem is not None and not isinstance(problem, Problem):
        raise BadInput("problem", problem, "a Problem")


def work(
    address: str,
    gradient: Gradient | None = None,
    stream: Iterable[Any] | Callable[[], Iterable[Any]] | None = None,
    *,
    problem: Problem | None = None,
    seed: int = 0,
    pause: float = 0.0,
    name: str | None = None,
    token: AnyPath | None = None,
    tls: bool = False,
    ca: AnyPath | None = None,
    insecure: bool = False,
    method: Method | None = None,
    give_up: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Worker:
    """Work for a distant server until it is done or the stream ends; connections that are lost are opened again.

    Args:
        address: "host:port" of the server.
        gradient: gradient(w, sample), as in `siag.train`.
        stream: the samples, or a function that makes them. One that can (see `siag.streams`) goes on after the samples
            reported before, if the worker has a name or a token to be known by.
        problem: instead of both: a problem of whose workers this is one.
        seed: of the problem's samples.
        pause: seconds to wait before each gradient of a problem.
        name: which of the server's workers this is; by default one that is free.
        token: a file with the secret that binds this worker to its row; the variable SIAG_TOKEN does as well.
        tls: talk over TLS, with the system's authorities.
        ca: talk over TLS, with the authority of this file.
        insecure: send the token even where others might read it.
        method: the server's method, if it is not one of siag's own.
        give_up: seconds without a server after which to give up; by default never.
        say: what to do with remarks; by default only those of the stream are told, on standard error.

    Returns:
        The worker, with its counts of `reports` and `refused`.
    """
    place, tell = parse_address(address), say or _unheard
    secret = read_token(None if token is None else Path(token))
    if secret is not None and secret.remark:
        tell(secret.remark)
    context = client_context(None if ca is None else Path(ca)) if tls or ca is not None else None
    if secret is not None and context is None and not insecure and not is_loopback(place[0]):
        raise BadInput("token", address, "sent over TLS beyond this machine", "give --ca or --tls, or --insecure")
    seed, pause = check.seed(seed), check.real("pause", pause, low=0)
    _check_data(gradient, stream, problem)
    known = name is not None or secret is not None  # else the row may have been another's

    def make(description: dict[str, Any], w0: Floats) -> Task:
        chosen = make_method(description) if method is None else method
        if problem is not None:
            return FromProblem(problem, chosen, seed, w0, pause)
        return FromStream(gradient, stream, chosen, w0, go_on=known)  # type: ignore[arg-type]  # checked above

    if give_up is not None:
        give_up = check.real("give_up", give_up, low=0)
    key = None if secret is None else secret.secret
    worker = Worker(make, name=name, token=key, give_up=give_up, origin=_origin(problem, seed))
    with nullcontext() if say is None else heard_by(say):
        tell(TcpWorker(place, worker, context=context, say=tell).run())
    return worker


def _unheard(text: str) -> None:
    """Nobody is told."""


def _check_data(gradient: object, stream: object, problem: object) -> None:
    """Refuse neither, and both, of a problem and a gradient on a stream."""
    check_problem(problem)
    if problem is not None:
        if gradient is not None or stream is not None:
            raise BadInput("problem", problem, "given alone", "leave gradient and stream out, or the problem")
        return
    if gradient is None or stream is None:
        raise Missing("gradient" if gradient is None else "stream", "give gradient and stream, or a problem")
    if not callable(gradient):
        raise BadInput("gradient", gradient, "a function gradient(w, sample)")
    check_stream("stream", stream)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "host:port", "[::1]:port" or just "host"."""
    found = ADDRESS.fullmatch(text)
    if found is None and text.count(":") > 1 and "[" not in text:  # where does the port begin?
        raise BadInput("address", text, f"like host:{PORT}", f"write an IPv6 address in brackets, as in [::1]:{PORT}")
    if found is None or not 0 < int(found["port"] or PORT) < 65536:
        raise BadInput("address", text, f"like host:{PORT}")
    return found["six"] or found["host"], int(found["port"] or PORT)
