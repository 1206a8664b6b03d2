"""Both ends of the network runtime, for tests: servers in threads, frames by hand, workers that note what they saw."""

import asyncio
import json
import resource
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))  # for scripts that tests start, which import this, too

from tests.specs import spec_of

from siag.live.assembly import Assembly
from siag.live.monitor.watch import Quiet
from siag.live.protocol import wire
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import make_method
from siag.live.protocol.worker import Worker
from siag.live.reasons import Ending
from siag.live.security import Tokens
from siag.live.serve import work
from siag.live.sharding.client import connect
from siag.live.task import FromStream
from siag.live.transports.tcp.endpoint import listen
from siag.live.transports.tcp.server import serve_eagerly
from siag.live.transports.tcp.worker import TcpWorker
from siag.methods import SIAG
from siag.server.guard import Guard
from siag.steps import Constant

PATIENCE = 120.0  # seconds; nothing here takes nearly as long, however busy the machine is
D = 5


class Notes(Quiet):
    """A watcher that keeps what it is told."""

    def __init__(self):
        self.events, self.latest = [], None

    def show(self, snapshot):
        self.latest = snapshot

    def event(self, text):
        self.events.append(text)

    def told(self, part):
        """Whether an event says this."""
        return any(part in event for event in list(self.events))


def wait_until(condition, seconds=PATIENCE):
    """Wait for a condition; what it returned."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {seconds} seconds"
        time.sleep(0.005)
    return found


class Vanished(Exception):
    """What a server is told to die of."""


class InThread:
    """The server of an assembly, in a thread of this process."""

    def __init__(self, assembly, port=0, make=Connections, **given):
        self.assembly, self.session, self.server = assembly, assembly.session, assembly.server
        self._listeners, self._make = listen("127.0.0.1", port), make
        self.port = self._listeners[0].getsockname()[1]
        self._given = given
        self.error = self.run = None
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _ready(self, host, port):
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda loop, context: self.trouble.append(context))
        self._listening.set()

    def _serve(self):
        def carry(session):
            given = dict(self._given)
            context, tokens, limits = (given.pop(name) for name in ("context", "tokens", "limits"))
            self.connections = self._make(session, tokens, limits, now=time.monotonic(), **given)
            serve_eagerly(self.connections, self._listeners, context=context, ready=self._ready)

        try:
            self.run = self.assembly.run(carry)
        except Exception as error:
            self.error = error
        finally:
            for listener in self._listeners:
                listener.close()

    def __enter__(self):
        self.trouble = []
        self._thread.start()
        assert self._listening.wait(PATIENCE)
        return self

    def __exit__(self, kind, *_):
        self.stop()
        if kind is None:
            assert self.trouble == []
            if self.error is not None and not isinstance(self.error, Vanished):
                raise self.error

    def stop(self, why="as the test says"):
        """End the run, and say goodbye."""
        self.end(why)
        self.wait()

    def end(self, why="as the test says"):
        """Let the run be over."""
        self.session.end(Ending.DIVERGED, why)  # whose words are any

    def wait(self):
        """Wait for the end."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def ask(self, question):
        """What a function returns in the server's thread."""
        answered, answer = threading.Event(), []

        def run():
            answer.append(question())
            answered.set()

        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError:  # it has ended: nobody else looks at it any more
            self._thread.join(PATIENCE)
            return question()
        assert wait_until(lambda: answered.is_set() or not self._thread.is_alive())
        return answer[0] if answered.is_set() else question()


class Served(InThread):
    """A server of one's own."""

    def __init__(
        self,
        workers=2,
        d=D,
        *,
        port=0,
        until=None,
        method=None,
        step=0.01,
        tokens=None,
        limits=None,
        context=None,
        share=False,
        **options,
    ):
        self.notes = Notes()
        names = [str(i) for i in range(workers)] if isinstance(workers, int) else workers
        options = {"linger": None, "guard": Guard(norm=1e6, jump=None), "progress": self.notes, **options}
        options |= {"method": SIAG() if method is None else method, "step": Constant(step), "until": until}
        assembly = Assembly(spec_of(names, d, **options), about={"problem": "pulls", "seed": 0})
        given = {"tokens": tokens or Tokens.none(), "limits": limits or Limits(), "context": context, "share": share}
        super().__init__(assembly, port, **given)
        self.address = f"127.0.0.1:{self.port}"

    def vanish(self):
        """End for now, not for good."""
        self.connections.failure = Vanished()
        self.wait()

    def cut(self):
        """Cut all connections."""
        self.ask(lambda: [each.place.transport.abort() for each in self.connections.connections])

    def state(self):
        """All that frames must not change unless they are accepted."""
        server = self.server
        return self.ask(
            lambda: (server.version, server.reports, {name: a.tobytes() for name, a in server.arrays().items()})
        )

    def states(self):
        """The workers' states."""
        return self.ask(lambda: [member.state for member in self.server.members])

    def gap(self):
        """How far the table's sum is from the sum of its rows, relatively."""
        table = self.server.state
        return self.ask(lambda: gap(table))


def gap(table):
    """How far a table's sum is from the sum of its rows, relatively."""
    return float(np.abs(table.rows.sum(axis=0) - table.total).max() / (1.0 + np.abs(table.rows).max()))


class Client:
    """A worker whose frames are written by hand."""

    def __init__(self, port, *, context=None, timeout=PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def hello(self, **more):
        """Say hello; the answer."""
        self.send(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, **more}))
        return self.frame()

    def join(self, **more):
        """Say hello, and take the model: the welcome."""
        kind, _, welcome = self.hello(**more)
        assert kind == wire.WELCOME, welcome
        assert self.frame()[0] == wire.MODEL
        return welcome

    def report(self, numbers, stamp=0, sample=0):
        payload = np.asarray(numbers, "<f8").tobytes()
        self.send(wire.head(wire.REPORT, len(payload), stamp, sample) + payload)

    def frame(self):
        """Kind, stamp and content of the next frame; the kind is None if the server has hung up."""
        head = self.exactly(wire.HEADER.size)
        if head is None:
            return None, 0, None
        length, kind, _, stamp, _, _ = wire.HEADER.unpack(head)
        payload = self.exactly(length) if length else b""
        return kind, stamp, np.frombuffer(payload, "<f8") if kind == wire.MODEL else json.loads(payload)

    def exactly(self, count):
        whole = b""
        while len(whole) < count:
            try:
                some = self.socket.recv(count - len(whole))
            except ConnectionError:
                some = b""
            if not some:
                return None
            whole += some
        return whole

    def hung_up(self):
        """Read on until the server hangs up."""
        while self.frame()[0] is not None:
            pass
        return True


def memory():
    """Bytes this process has in memory."""
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * resource.getpagesize()


def pull(w, target):
    """The gradient of ½‖w − target‖²."""
    return w - target


def target(k, d=D):
    """What worker k pulls to, for ever."""
    while True:
        yield np.full(d, float(k))


class Watched(Worker):
    """A worker that knows the versions it has been sent."""

    def __init__(self, make, **given):
        super().__init__(make, **given)
        self.stamps = []

    def frame(self, head, content, now):
        if head.kind == wire.MODEL:
            self.stamps.append(head.stamp)
        return super().frame(head, content, now)


class Working:
    """A worker in a thread; with it is over, the worker is told to stop."""

    def __init__(self, address, make, *, context=None, share=False, connect=connect, **given):
        self.remarks, self.outcome = [], None
        self.machine = Watched(make, share=share, say=self.remarks.append, **given)
        self._driver = TcpWorker(address, self.machine, context=context, connect=connect)
        self.thread = threading.Thread(target=self._live, daemon=True)

    def _live(self):
        try:
            self.outcome = self._driver.run()
        except BaseException as error:
            self.outcome = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.machine.give_up = 0.0
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    @property
    def seen(self):
        """The newest version it has seen."""
        return max(self.machine.stamps, default=-1)

    def more(self, count=20):
        """Wait until it has got so many more models."""
        goal = len(self.machine.stamps) + count
        wait_until(lambda: len(self.machine.stamps) >= goal or self.outcome is not None)
        assert self.outcome is None, self.outcome


class Noting(Working):
    """One that pulls w to a number."""

    def __init__(self, port, k=0, *, d=D, gradient=pull, stream=None, **given):
        self._stopped = False

        def until_stopped():
            for each in target(k, d) if stream is None else stream:
                if self._stopped:
                    return
                yield each

        def make(description, w0):
            return FromStream(gradient, until_stopped, make_method(description), w0)

        super().__init__(("127.0.0.1", port), make, **given)

    def __exit__(self, *_):
        self._stopped = True
        super().__exit__()


def in_thread(*arguments, **given):
    """`siag.work` in a thread; a list that will have the worker, or the error, in it."""
    outcome = []

    def run():
        try:
            outcome.append(work(*arguments, **given))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome
