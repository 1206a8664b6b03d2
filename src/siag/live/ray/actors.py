"""What the actors of a run have in common, and the actor of a worker.

Actors call each other through Ray only to learn addresses; everything else goes over TCP. When Ray restarts an actor,
its constructor runs again: the server goes on from its last save, a worker after the samples that the server knows of.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import ray
from ray import cloudpickle

from siag.foundations.errors import SiagError
from siag.foundations.last_words import last_words
from siag.foundations.version import __version__
from siag.live.certificates import certify_run
from siag.live.protocol.welcome import Dismissed
from siag.live.protocol.worker import Worker
from siag.live.reasons import Failure
from siag.live.security import Tokens, hash_of, server_context
from siag.live.sharding.client import connect
from siag.live.transports.tcp.worker import TcpWorker

TIMEOUT = 5.0  # seconds for another actor to answer
CRASHES = 3  # how often a worker's process may die before one of its reports is accepted
INSTALL = "install it on all nodes, or have Ray send it: ray.init(runtime_env={'working_dir': '.'})"


@dataclass(frozen=True)
class Secrets:
    """The tokens of workers, the secret of the servers, and with TLS its files; made for one run."""

    tokens: tuple[str, ...]
    servers: str
    authority: bytes | None  # what workers know the servers by
    certificate: bytes  # of the servers, and its key

    @classmethod
    def new(cls, workers: int, tls: bool) -> Self:
        """For a run with this number of workers."""
        tokens = tuple(secrets.token_urlsafe(32) for _ in range(workers))
        authority, *pair = certify_run() if tls else (None,)
        return cls(tokens, secrets.token_urlsafe(32), authority, b"".join(pair))

    def known(self) -> Tokens:
        """The workers' tokens, as a server keeps them."""
        return Tokens(tuple((row, hash_of(token)) for row, token in enumerate(self.tokens)))

    def context(self) -> ssl.SSLContext | None:
        """TLS for a server; the file OpenSSL wants is gone when this returns."""
        if self.authority is None:
            return None
        with tempfile.TemporaryDirectory(prefix="siag-") as hidden:  # which its owner alone can enter
            path = Path(hidden, "server.pem")
            path.write_bytes(self.certificate)
            return server_context(path, path)


def trusting(authority: bytes | None) -> ssl.SSLContext | None:
    """TLS with whatever this authority has certified, which is one server, wherever that may be now."""
    if authority is None:
        return None
    context = ssl.create_default_context(cadata=authority.decode())
    context.check_hostname = False
    return context


class Gone(NamedTuple):
    """That a worker's work has ended for good."""

    failure: Failure | None  # `None`: it has left in order
    why: str


def node() -> str:
    """The address of this actor's node."""
    return str(ray.util.get_node_ip_address())


def restarted() -> bool:
    """Whether Ray has restarted this actor, after its process or its node was lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's of itself
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def loaded(parcel: Any, what: str, version: str) -> Any:
    """What was sent by that version of siag, if it is this one; modules that are missing here are named."""
    if version != __version__:
        remedy = "install the same version on all nodes"
        raise SiagError(f"the node at {node()} has siag {__version__}, the driver {version}; {remedy}")
    if not isinstance(parcel, bytes):  # Ray has unpacked it
        return parcel
    try:
        return cloudpickle.loads(parcel)
    except Exception as error:  # a user's code is imported
        raise SiagError(f"{what} cannot be loaded on the node at {node()}: {last_words(error)}; {INSTALL}") from None


class WorkerActor:
    """A worker.

    Args:
        version: of siag, where the run was started.
        row: which of the workers it is.
        name: its name.
        token: its secret.
    """

    def __init__(self, version: str, row: int, name: str, token: str) -> None:
        self._version, self._row, self._name, self._token = version, row, name, token
        self._source: Any = None
        self._authority: bytes | None = None
        self._stream: Any = None
        self._server: Any = None  # its actor

    def load(self, shared: Any, stream: Any) -> None:
        """Load what all workers get, a `Source` and the authority for TLS, and its stream; once in each process."""
        if self._source is None:
            self._stream = loaded(stream, "the stream", self._version)
            self._source, self._authority = loaded(shared, "gradient, problem or method", self._version)

    def run(self, shared: Any, stream: Any, server: Any) -> Gone:
        """Work until the server is done or the stream has ended; Ray calls this again when it restarts the actor."""
        self._server = server
        self.load(shared, stream)
        if restarted() and self._asked("came_again", self._row, default=0) > CRASHES:
            return Gone(Failure.GAVE_UP, f"its process has died {CRASHES} times before it could report anything")
        worker = Worker(lambda *_: self._source.task(self._stream), name=self._name, token=self._token, share=True)
        try:
            context = trusting(self._authority)
            return Gone(None, TcpWorker(self._where, worker, context=context, connect=connect).run())
        except Dismissed as error:
            return Gone(Failure.GAVE_UP, str(error))
        except BaseException as error:  # whatever a user's code raises
            return Gone(Failure.OWN_CODE, last_words(error))

    def _where(self) -> list[tuple[str, int]]:
        """The servers' addresses, as of now."""
        found: list[tuple[str, int]] | None = self._asked("where", default=None)
        if found is None:
            raise ConnectionRefusedError("it is not there yet")
        return found

    def _asked(self, what: str, *given: Any, default: Any) -> Any:
        """The answer of the server's actor, if it gives one."""
        try:
            return ray.get(getattr(self._server, what).remote(*given), timeout=TIMEOUT)
        except ray.exceptions.RayError:
            return default
