"""What all actors have in common, and two of them: a worker, and the server of a shard beside the lead's.

Actors call each other through Ray only to learn addresses; everything else goes over TCP. When Ray restarts an actor,
its constructor runs again: the server goes on from its last save, a worker after the samples that the server knows of.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
import threading
import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.certificates import certify_run
from siag.live.plan import Plan
from siag.live.ray.places import Places
from siag.live.security import Tokens, hash_of, server_context
from siag.live.task import last_words
from siag.live.transports.tcp.connection import Limits

if TYPE_CHECKING:
    from siag.live.sharding import Follower

TIMEOUT = 5.0  # seconds for another actor to answer
CRASHES = 3  # a worker's process may die so often before one of its reports is accepted
STALE = "what is at the URL is older than this run's end"


@dataclass(frozen=True)
class Secrets:
    """The tokens of workers, the secret of the servers, and the keys for TLS; made for one run."""

    tokens: tuple[str, ...]
    servers: str
    tls: tuple[bytes, bytes, bytes] | None  # authority, certificate, key

    @classmethod
    def new(cls, workers: int, tls: bool) -> Self:
        """For a run of so many workers."""
        tokens = tuple(secrets.token_urlsafe(32) for _ in range(workers))
        return cls(tokens, secrets.token_urlsafe(32), certify_run() if tls else None)

    def known(self) -> Tokens:
        """The workers' tokens, as a server keeps them."""
        return Tokens(tuple((row, hash_of(token)) for row, token in enumerate(self.tokens)))

    def serving(self) -> ssl.SSLContext | None:
        """TLS for a server; the files OpenSSL wants are gone when this returns."""
        if self.tls is None:
            return None
        with tempfile.TemporaryDirectory(prefix="siag-") as hidden:
            certificate, key = Path(hidden, "server.pem"), Path(hidden, "server.key")
            certificate.write_bytes(self.tls[1])
            key.touch(0o600)
            key.write_bytes(self.tls[2])
            return server_context(certificate, key)

    def asking(self) -> ssl.SSLContext | None:
        """TLS for whoever connects."""
        return None if self.tls is None else trusting(self.tls[0])


def trusting(authority: bytes) -> ssl.SSLContext:
    """TLS with whatever this authority has certified, which is one server, wherever that may be now."""
    context = ssl.create_default_context(cadata=authority.decode())
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@dataclass(frozen=True)
class ServerSpec:
    """What every server of a run is given.

    Args:
        plan: the run, without what only workers need.
        secrets: of the run.
        host: where to listen; `None`: at the address of the node.
        port: of the first server, the next ones being those of the other shards; `None`: any that is free.
        shards: how many servers there are.
    """

    plan: Plan
    secrets: Secrets
    host: str | None
    port: int | None
    shards: int

    def listening(self, k: int) -> tuple[str, int]:
        """Where shard k listens."""
        import ray

        return self.host or ray.util.get_node_ip_address(), 0 if self.port is None else self.port + k

    @property
    def limits(self) -> Limits:
        """On connections."""
        return Limits(connections=max(Limits.connections, 2 * len(self.plan.names)))


class Hello(NamedTuple):
    """What an actor says when it is up."""

    address: str  # of its node
    trouble: str  # why it cannot work; "" if it can


class How(StrEnum):
    """How a worker's work has ended."""

    LEFT = "left"  # in order
    OWN_CODE = "own code"  # its gradient or its stream raised an error, or could not be loaded
    GAVE_UP = "gave up"  # Ray restarts it no more


class Ended(NamedTuple):
    """That a worker's work has ended, and why."""

    how: How
    why: str


class Actor:
    """What all of them have in common.

    Args:
        version: of siag, where the run was started.
    """

    def __init__(self, version: str) -> None:
        self.trouble = ""
        if version != __version__:
            self.trouble = f"it has siag {__version__}, the driver {version}; install the same version on all nodes"

    def hello(self) -> Hello:
        """Be known to be up."""
        import ray

        return Hello(ray.util.get_node_ip_address(), self.trouble)


def identity() -> str:
    """What an actor keeps when Ray restarts it."""
    import ray

    return str(ray.get_runtime_context().get_actor_id())


def restarted() -> bool:
    """Whether Ray has restarted this actor, after its process or its node was lost."""
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's of itself
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def loaded(parcel: Any, what: str) -> Any:
    """What was sent; modules that are missing here are named."""
    from ray import cloudpickle

    if not isinstance(parcel, bytes):  # Ray has unpacked it
        return parcel
    try:
        return cloudpickle.loads(parcel)
    except Exception as error:  # a user's code is imported
        remedy = "install it on all nodes, or have Ray send it: ray.init(runtime_env={'working_dir': '.'})"
        raise SiagError(f"{what} cannot be loaded there: {last_words(error)}; {remedy}") from None


class ShardActor(Actor):
    """The server of shard k, from 1; it follows the lead.

    Args:
        version: of siag, where the run was started.
        k: its number.
    """

    def __init__(self, version: str, k: int) -> None:
        super().__init__(version)
        self._k, self._left = k, ""  # what is wrong with its last copy
        self._follower: Follower | None = None
        self._ended = threading.Event()

    def run(self, parcel: bytes) -> None:
        """Serve until told to stop, given a `ServerSpec`; Ray calls this again when it restarts the actor."""
        from siag.live.sharding import Follower

        try:
            spec: ServerSpec = loaded(parcel, "the run")
            plan, keys = spec.plan, spec.secrets
            host, port = spec.listening(self._k)
            with Places(plan.options, self._k if spec.shards > 1 else None, identity()) as places:
                follower = Follower(
                    plan.method,
                    plan.w0,
                    plan.names,
                    self._k,
                    spec.shards,
                    host=host,
                    port=port,
                    tokens=keys.known(),
                    secret=keys.servers,
                    context=keys.serving(),
                    limits=spec.limits,
                    folder=places.options.folder,
                    share=True,
                    publish=places.options.publish,
                )
                places.start()
                self._follower = follower
                follower.run()
                self._left = "" if places.finish() else places.lost or STALE
        except BaseException as error:
            self.trouble = last_words(error)
        finally:
            self._ended.set()

    def where(self) -> tuple[str, int] | None:
        """Its address, once it has one."""
        if self.trouble:
            raise SiagError(f"shard {self._k}: {self.trouble}")
        return None if self._follower is None else self._follower.address

    def stop(self) -> str:
        """End in order; what is wrong if not all that was saved is where it belongs."""
        if self._follower is not None:
            self._follower.stop()
            self._ended.wait()
        return self._left


class WorkerActor(Actor):
    """A worker.

    Args:
        version: of siag, where the run was started.
        row: which of the workers it is.
        name: its name.
        token: its secret.
    """

    def __init__(self, version: str, row: int, name: str, token: str) -> None:
        super().__init__(version)
        self._row, self._name, self._token = row, name, token
        self._server: Any = None  # its actor
        self._parts: tuple[Any, ...] = ()

    def load(self, shared: bytes, stream: Any) -> Hello:
        """Be known to be up, with what all workers get, a `Source` and the authority for TLS, and with its stream."""
        if not self.trouble and not self._parts:
            try:
                self._parts = (*loaded(shared, "gradient, problem or method"), loaded(stream, "the stream"))
            except SiagError as error:
                self.trouble = str(error)
        return self.hello()

    def run(self, shared: bytes, stream: Any, server: Any) -> Ended:
        """Work until the server is done or the stream has ended; Ray calls this again when it restarts the actor."""
        from siag.live.transports.tcp.worker import Worker

        self._server = server
        self.load(shared, stream)
        if self.trouble:
            return Ended(How.OWN_CODE, self.trouble)
        if self._keeps_dying():
            return Ended(How.GAVE_UP, f"its process has died {CRASHES} times before it could report anything")
        source, authority, own = self._parts
        worker = Worker(
            self._where,
            lambda description, w0: source.task(own),
            name=self._name,
            token=self._token,
            context=None if authority is None else trusting(authority),
            share=True,
        )
        try:
            return Ended(How.LEFT, worker.run())
        except BaseException as error:  # whatever a user's code raises
            return Ended(How.OWN_CODE, last_words(error))

    def _where(self) -> list[tuple[str, int]]:
        """The servers' addresses, as of now."""
        import ray

        try:
            found: list[tuple[str, int]] | None = ray.get(self._server.where.remote(), timeout=TIMEOUT)
        except ray.exceptions.RayError:
            raise ConnectionRefusedError("its actor does not answer") from None
        if found is None:
            raise ConnectionRefusedError("it is starting")
        return found

    def _keeps_dying(self) -> bool:
        """Whether it has died so often before any report that there is no use in trying again."""
        import ray

        if not restarted():
            return False
        try:
            return bool(ray.get(self._server.came_again.remote(self._row), timeout=TIMEOUT) > CRASHES)
        except ray.exceptions.RayError:
            return False
