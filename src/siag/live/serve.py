"""`serve` and `work`: the same over a network, in Python; the commands of the same names call them."""

from __future__ import annotations

import re
import signal
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.encodings import Encoding, encoding_of
from siag.foundations.errors import BadInput, Missing, SiagError
from siag.foundations.printing import prints_alike
from siag.foundations.signals import meaning
from siag.foundations.types import Floats
from siag.live.assembly import Assembly
from siag.live.model import Model
from siag.live.monitor.dashboard.place import Dashboard, Wanted
from siag.live.monitor.watch import Progress
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import make_method
from siag.live.protocol.wire import LARGEST, PORT
from siag.live.protocol.worker import Worker
from siag.live.security import Tokens, check_binding, client_context, is_loopback, read_token, server_context
from siag.live.session import Session
from siag.live.spec import AnyPath, Spec, check_data, check_path, fields_of, renamed
from siag.live.task import Gradient, Source, Task, check_stream
from siag.live.transports.tcp.endpoint import listen
from siag.live.transports.tcp.server import serve_eagerly
from siag.live.transports.tcp.worker import TcpWorker
from siag.live.until import Until
from siag.live.weights import Weights
from siag.methods import Method
from siag.problems import Problem
from siag.server.departing import Departed
from siag.server.guard import Guard
from siag.simulation import Run
from siag.steps import Step
from siag.streams.remarks import heard_by

LINGER = 600.0  # seconds a server waits when nobody is there
MANY = 1000  # numbers, so many that a scale for each block is counted in
WORDS = 1000  # letters of a problem that are sent
ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]\s]+)\]|(?P<host>[^\[\]:\s]+))(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, kw_only=True)
class Network:
    """Where a server listens, and whom it trusts; `serve` says what each field means."""

    host: Annotated[str, "Address to listen on.  [default: 127.0.0.1]"] = "127.0.0.1"
    port: Annotated[int, "Port to listen on; 0: any.  [default: 7460]"] = PORT
    certificate: Annotated[AnyPath | None, "TLS: the server's certificate (PEM)."] = None
    key: Annotated[AnyPath | None, "TLS: its private key (PEM)."] = None
    tokens: Annotated[AnyPath | None, "tokens.json: who may write which row."] = None
    insecure: Annotated[bool, "Listen beyond this machine without TLS or tokens."] = False
    limits: Limits | None = None

    def secured(self, names: Sequence[str]) -> tuple[ssl.SSLContext | None, Tokens]:
        """What a server has to tell friends from strangers, read from its files and checked before it listens."""
        check.truth("insecure", self.insecure)
        if not isinstance(self.host, str):
            raise BadInput("host", self.host, "an address or a name", "write it as text")
        for name in ("certificate", "key", "tokens"):
            check_path(name, getattr(self, name))
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise Missing(missing, "TLS needs both a certificate and its key")
        context = None
        if self.certificate is not None and self.key is not None:
            context = server_context(Path(self.certificate), Path(self.key))
        tokens = Tokens.none() if self.tokens is None else Tokens.load(Path(self.tokens), names)
        check.integer("port", self.port, low=0, high=65535)
        check_binding(self.host, context is not None, tokens.required, self.insecure)
        return context, tokens


def serve(  # noqa: D417  # what is as in `train` is described there
    w0: Floats | Model | None = None,
    workers: int | Sequence[str] | None = None,
    method: Method | None = None,
    step: Step | None = None,
    until: Until | int | None = None,
    *,
    open: bool = False,  # the word that users have
    max_workers: int | None = None,
    problem: Problem | None = None,
    seed: int = 0,
    host: str = Network.host,
    port: int = Network.port,
    certificate: AnyPath | None = None,
    key: AnyPath | None = None,
    tokens: AnyPath | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
    server: EveryArrivals | Tick = Spec.server,
    guard: Guard | None = None,
    departed: Departed = Spec.departed,
    messages: str | None = None,
    weights: Weights | None = None,
    loss: Callable[[Any], float] | None = None,
    evaluate: Mapping[str, Callable[[Any], Any]] | None = None,
    record: int = Spec.record,
    folder: AnyPath | None = None,
    durable: bool = False,
    keep: int = Spec.keep,
    keep_every: float = Spec.keep_every,
    trace: AnyPath | None = None,
    progress: Progress = None,
    dashboard: Wanted = None,
    linger: float | None = LINGER,
    forget: float | None = None,
    patience: float | None = None,
    ready: Callable[[str, int], None] | None = None,
) -> Run:
    """Serve workers that connect over a network, until the end; `siag.work` is their side.

    What is not among these is as in `siag.train`.

    Args:
        w0: (d,) where to start; or a model, the one that workers have as their gradient.
        workers: how many, or their names; as many as a `problem` has.
        until: as in `siag.train`; by default until all workers have left.
        open: let workers join that were not expected, under names of their own; none need be expected. Each counts from
            its first report on, and the model minimises the mean over those that are there; with `weights` each of them
            counts 1.
        max_workers: how many there may ever be, 1000 by default if it is open; rows that nobody has cost next to
            nothing. Without `open`, workers that were not expected need a token that may bring a name.
        problem: what workers with the same `problem` and `seed` minimise; kept in the trace, for `siag.replay`.
        seed: of their samples.
        host: the address to listen on; only this machine by default.
        port: the port to listen on; 0 for any that is free.
        certificate: for TLS: a file in PEM format.
        key: for TLS: the certificate's private key.
        tokens: a file of tokens, each for the worker of its name; `siag certs` makes it. On SIGHUP it is read again,
            and workers that were refused for good may come again.
        insecure: listen beyond this machine even without TLS and tokens.
        limits: on connections.
        linger: seconds to wait, nobody being there, before saving and ending; `None`: for ever.
        ready: called with host and port once the server listens.
    """
    given = dict(locals()) | {"names": workers}  # the fields of `Spec` and of `Network`, and the rest
    network = Network(**{name: given[name] for name in NETWORK})
    described = {name: given[name] for name in fields_of(serving=True)}
    if isinstance(w0, Model):
        described |= {"gradient": w0, "w0": None}
    with renamed({"names": "workers"}):
        return serve_spec(Spec(**described), network, ready)


NETWORK = tuple(each.name for each in fields(Network))


def serve_spec(spec: Spec, network: Network, ready: Callable[[str, int], None] | None = None) -> Run:
    """Serve what is described; see `serve`."""
    spec = spec.validate(serving=True)
    if isinstance(spec.dashboard, Dashboard):
        secrets = network.certificate, network.key, network.insecure
        spec = replace(spec, dashboard=spec.dashboard.trusting(*secrets))
    encoding = encoding_of(spec.messages)
    _carried("w0", spec.w0.size, encoding.model)
    context, tokens = network.secured(spec.names)
    if spec.room > len(spec.names) and not (spec.open or tokens.guests):
        remedy = "give open, or tokens with one for guests: siag certs --guest"
        raise BadInput("max_workers", spec.max_workers, "left out where nobody may join later", remedy)
    limits, origin = network.limits or Limits.for_workers(spec.n), _origin(spec.problem, spec.seed)
    with ExitStack() as stack:
        listeners = [stack.enter_context(listener) for listener in listen(network.host, network.port)]
        for listener in listeners:  # a name may mean anything; this is where the socket is
            address = str(listener.getsockname()[0])
            check_binding(address, context is not None, tokens.required, network.insecure)
        assembly = Assembly(spec)

        def carry(session: Session) -> None:
            _carried("method", session.server.message_size, encoding)
            _carried("method", session.server.shown.size, encoding.model)
            with readmit_on_hangup(session, tokens):
                anyone = spec.open and not tokens.required
                connections = Connections(session, tokens, limits, origin=origin, open=anyone, now=time.monotonic())
                serve_eagerly(connections, listeners, context=context, ready=ready)

        run = assembly.run(carry)
        return run if spec.model is None else replace(run, restore=spec.model.restored)


def readmit_on_hangup(session: Session, tokens: Tokens) -> AbstractContextManager[None]:
    """On SIGHUP, on systems with that signal, read the tokens again, and let those come again who were refused."""
    if not hasattr(signal, "SIGHUP"):
        return nullcontext()
    return meaning(signal.SIGHUP, lambda *_: session.soon(lambda: _readmit(session, tokens)))


def _readmit(session: Session, tokens: Tokens) -> None:
    """Read the tokens again, and let workers that were refused for good come again."""
    try:
        tokens.reload()
    except SiagError as error:
        session.alarm(f"problem: {error}; the tokens stay as they were")
    else:
        session.event("the tokens were read again" if tokens.required else "workers that were refused may come again")
    session.readmit()


def _origin(problem: Problem | None, seed: int) -> dict[str, Any]:
    """What samples are drawn from, where both ends can tell."""
    if problem is None:
        return {}
    words = repr(problem)
    return {"problem": words, "seed": seed} if prints_alike(problem) and len(words) <= WORDS else {"seed": seed}


def _carried(what: str, numbers: int, encoding: Encoding) -> None:
    """Refuse what no frame can carry."""
    if encoding.size(numbers) > LARGEST:
        most = LARGEST * MANY // encoding.size(MANY)
        raise BadInput(what, numbers, f"at most {most} numbers, what a frame can carry")


def work(
    address: str,
    gradient: Gradient | Model | None = None,
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
        gradient: gradient(w, sample), or a model, as in `siag.train`.
        stream: the samples, or a function that makes them; finite data are read again and again, as in `siag.train`.
            One that can (see `siag.streams`) goes on after the samples
            reported before, if the worker has a name or a token to be known by.
        problem: instead of both: a problem of whose workers this is one.
        seed: of the problem's samples, or of the order in which finite data are read.
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
    tell = say or (lambda text: None)
    place, secret, context = credentials(address, token, tls, ca, insecure, tell)
    seed, pause = check.seed(seed), check.real("pause", pause, low=0)
    check_data(gradient, stream, problem, "stream")
    if problem is None:
        check_stream("stream", stream)
        if pause:
            raise BadInput("pause", pause, "left out without a problem", "siag.streams.Paced slows a stream down")
    known = name is not None or secret is not None  # else the row may have been another's

    def make(description: dict[str, Any], w0: Floats) -> Task:
        chosen = make_method(description) if method is None else method
        return Source(gradient, problem, chosen, seed, w0, go_on=known).task(stream if problem is None else pause)

    if give_up is not None:
        give_up = check.real("give_up", give_up, low=0)
    worker = Worker(make, name=name, token=secret, give_up=give_up, origin=_origin(problem, seed), say=tell)
    with nullcontext() if say is None else heard_by(say):
        tell(TcpWorker(place, worker, context=context).run())
    return worker


def credentials(
    address: str, token: AnyPath | None, tls: bool, ca: AnyPath | None, insecure: bool, say: Callable[[str], None]
) -> tuple[tuple[str, int], str | None, ssl.SSLContext | None]:
    """Where a server is, the token to show it, and what TLS needs; see `work`."""
    place = parse_address(address)
    secret = read_token(None if token is None else Path(token), say)
    context = client_context(None if ca is None else Path(ca)) if tls or ca is not None else None
    if secret is not None and context is None and not insecure and not is_loopback(place[0]):
        raise BadInput("token", address, "sent over TLS beyond this machine", "give ca or tls, or insecure")
    return place, secret, context


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "host:port", "[::1]:port" or just "host"."""
    found = ADDRESS.fullmatch(text)
    if found is None and text.count(":") > 1 and "[" not in text:  # where does the port begin?
        raise BadInput("address", text, f"like host:{PORT}", f"write an IPv6 address in brackets, as in [::1]:{PORT}")
    if found is None or not 0 < int(found["port"] or PORT) < 65536:
        raise BadInput("address", text, f"like host:{PORT}")
    return found["six"] or found["host"], int(found["port"] or PORT)
