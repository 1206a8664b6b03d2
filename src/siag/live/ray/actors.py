"""What runs on a Ray cluster: the server, the servers of further shards, and the workers, one actor each.

Their classes know Ray only where they ask each other for addresses; what they say to each other otherwise goes over
TCP. An actor that Ray starts again runs its constructor again, and so begins where it can: the server with what is
saved, a worker with the samples the server knows of.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.connection import Limits
from siag.live.plan import Plan
from siag.live.ray.places import Places
from siag.live.security import Tokens, hash_of, server_context
from siag.live.task import last_words

if TYPE_CHECKING:
    from siag.live.sharding import Follower

ASK = 5.0  # seconds to wait for another actor's answer
CRASHES = 3  # a worker's process may end so often before a report of its is accepted
DIED = "its process has died"
STALE = "what is at the URL is older than this run's end"


@dataclass(frozen=True)
class Secrets:
    """What lets the processes of one run trust each other: by rows, between servers, and for TLS."""

    tokens: tuple[str, ...]
    servers: str
    tls: tuple[bytes, bytes, bytes] | None  # authority, certificate, key

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
class Charge:
    """What servers are told: the run, its secrets, and where to listen; `None`: at the address of the node."""

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

    version: str
    pid: int
    node: str
    address: str  # of the node
    trouble: str  # why it cannot work; "" if it can


class Ended(NamedTuple):
    """How a worker's work has ended."""

    failed: bool
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

        node = ray.get_runtime_context().get_node_id()
        return Hello(__version__, os.getpid(), node, ray.util.get_node_ip_address(), self.trouble)


def identity() -> str:
    """What an actor keeps when Ray starts it again."""
    import ray

    return str(ray.get_runtime_context().get_actor_id())


def started_again() -> bool:
    """Whether Ray has started this actor again, after its process or its node was lost."""
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


class Shard(Actor):
    """The server of shard k, from 1; it follows the lead.

    Args:
        version: of siag, where the run was started.
        k: its number.
    """

    def __init__(self, version: str, k: int) -> None:
        super().__init__(version)
        self._k, self._left = k, ""  # what is wrong with its last copy
        self._follower: Follower | None = None
        self._places: Places | None = None
        self._ended = threading.Event()

    def run(self, parcel: bytes) -> None:
        """Serve until told to stop, given a `Charge`; Ray calls this again if it starts the actor again."""
        from siag.live.sharding import Follower

        try:
            charge: Charge = loaded(parcel, "the run")
            plan, secrets = charge.plan, charge.secrets
            host, port = charge.listening(self._k)
            with Places(plan.options, self._k if charge.shards > 1 else None, identity()) as places:
                follower = Follower(
                    plan.method,
                    plan.w0,
                    plan.names,
                    self._k,
                    charge.shards,
                    host=host,
                    port=port,
                    tokens=secrets.known(),
                    secret=secrets.servers,
                    context=secrets.serving(),
                    limits=charge.limits,
                    folder=places.options.folder,
                    share=True,
                    publish=places.options.publish,
                )
                places.start()
                self._places, self._follower = places, follower
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

    def copying(self) -> bool:
        """Whether it copies a save, and there is progress."""
        return self._places is not None and self._places.copying

    def stop(self) -> str:
        """End in order; what is wrong if not all that was saved is where it belongs."""
        if self._follower is not None:
            self._follower.stop()
            self._ended.wait()
        return self._left


class Hand(Actor):
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
        self._lead: Any = None  # the server's actor
        self._again = False  # whether Ray has started it again
        self._node = ""
        self._parts: tuple[Any, ...] = ()

    def load(self, shared: bytes, own: Any) -> Hello:
        """Be known to be up, with what all workers get, a `Source` and the authority for TLS, and with its stream."""
        if not self.trouble and not self._parts:
            try:
                self._parts = (*loaded(shared, "gradient, problem or method"), loaded(own, "the stream"))
            except SiagError as error:
                self.trouble = str(error)
        return self.hello()

    def run(self, shared: bytes, own: Any, lead: Any) -> Ended:
        """Work until the server is done or the stream has ended; Ray calls this again if it starts the actor again."""
        from siag.live.sharding.client import connect
        from siag.live.transports.tcp.worker import TcpWorker
        from siag.live.worker import Worker

        hello = self.load(shared, own)
        self._lead, self._again, self._node = lead, started_again(), hello.node
        if hello.trouble:
            return Ended(True, hello.trouble)
        if self._keeps_dying():
            return Ended(True, f"{DIED} {CRASHES} times before it could report anything")
        source, authority, stream = self._parts
        context = None if authority is None else trusting(authority)
        machine = Worker(lambda _, w0: source.task(stream), name=self._name, token=self._token, share=True)
        worker = TcpWorker(self._where, machine, context=context, share=True, connect=connect)
        try:
            return Ended(False, worker.run())
        except BaseException as error:  # whatever a user's code raises
            return Ended(True, last_words(error))

    def _where(self) -> list[tuple[str, int]]:
        """The servers' addresses, as of now; the lead hears where this worker has come up again."""
        import ray

        moved = self._node if self._again else ""
        try:
            found: list[tuple[str, int]] | None = ray.get(self._lead.where.remote(self._row, moved), timeout=ASK)
        except ray.exceptions.RayError:
            raise ConnectionRefusedError("its actor does not answer") from None
        if found is None:
            raise ConnectionRefusedError("it is starting")
        return found

    def _keeps_dying(self) -> bool:
        """Whether it is of no use to try again."""
        import ray

        if not self._again:
            return False
        try:
            return bool(ray.get(self._lead.came_again.remote(self._row), timeout=ASK) > CRASHES)
        except ray.exceptions.RayError:
            return False
