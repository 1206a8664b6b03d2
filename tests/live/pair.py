"""A worker and a server in memory: the state machines of both ends, bytes between them, time by hand, no I/O."""

import json
import random

import numpy as np

from siag.live.curve import Curve
from siag.live.monitor.watch import Quiet
from siag.live.protocol import wire
from siag.live.protocol.connections import Connections
from siag.live.protocol.frame_reader import FrameReader
from siag.live.protocol.reception import Limits, Send, SendModel, model_frame
from siag.live.protocol.welcome import Dismissed, make_method
from siag.live.protocol.worker import Connect, HangUp, Phase, Worker
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.task import FromStream, StreamEnded
from siag.live.until import Until
from siag.methods import SIAG
from siag.server.guard import Guard
from siag.server.parameter_server import ParameterServer
from siag.steps import Constant

D = 2


class Notes(Quiet):
    """A watcher that keeps what it is told."""

    def __init__(self):
        self.events = []

    def event(self, text):
        self.events.append(text)


def begun(
    names=("a",),
    *,
    d=D,
    method=None,
    step=0.5,
    guard=None,
    messages="float64",
    room=0,
    until=None,
    session=Session,
    **options,
):
    """A session that has begun at time 0; whoever watches is in `notes`."""
    given = {"guard": guard or Guard(jump=None), "messages": messages, "room": room}
    server = ParameterServer(method or SIAG(), Constant(step), np.zeros(d), list(names), **given)
    until, notes = until or Until(), Notes()
    made = session(server, Curve(until, 10, None), watcher=notes, **options)
    made.notes = notes
    made.recover(0.0)
    made.begin(0.0)
    return made


class Desk:
    """The server's connections, and what was sent on each."""

    def __init__(self, session, tokens=None, limits=None, make=Connections, **given):
        self.session, self.server = session, session.server
        self.connections = make(session, tokens or Tokens.none(), limits or Limits(), now=0.0, **given)
        self.now = 0.0

    def call(self):
        """Somebody connects."""
        return Caller(self)

    def perform(self, actions):
        """Carry actions out."""
        for action in actions:
            caller = action.connection.place
            if isinstance(action, Send):
                caller.sent += action.frame
            elif isinstance(action, SendModel):
                caller.sent += model_frame(self.connections, action)
            else:
                caller.closed = True

    def flush(self):
        """As a transport does when all that has come is dealt with."""
        if self.connections.pending:
            self.perform(self.connections.flush(self.now))

    def state(self):
        """All that frames must not change unless they are accepted."""
        server = self.server
        return server.version, server.reports, {name: array.tobytes() for name, array in server.arrays().items()}

    def states(self):
        """The workers' states."""
        return [member.state for member in self.server.members]


class Caller:
    """The other end of a connection, by hand."""

    def __init__(self, desk):
        self.desk, self.sent, self.closed = desk, b"", False
        self.connection = desk.connections.open(self, desk.now, "somewhere")

    def give(self, data):
        """Some bytes reach the server; what it does is done."""
        while data and not self.connection.closing:
            room = self.connection.reader.buffer()
            count = min(len(room), len(data))
            room[:count], data = data[:count], data[count:]
            self.desk.perform(self.desk.connections.receive(self.connection, count, self.desk.now))

    def frame(self):
        """Kind, stamp and content of the next frame that was sent here; None if there is none."""
        size = wire.HEADER.size
        if len(self.sent) < size:
            return None
        length, kind, _, stamp, _, _ = wire.HEADER.unpack_from(self.sent)
        payload, self.sent = self.sent[size : size + length], self.sent[size + length :]
        return kind, stamp, np.frombuffer(payload, "<f8") if kind == wire.MODEL else json.loads(payload)

    def hello(self, **more):
        """Say hello; the answer."""
        self.give(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, **more}))
        return self.frame()

    def join(self, **more):
        """Say hello, and take the model: the welcome."""
        kind, _, welcome = self.hello(**more)
        assert kind == wire.WELCOME, welcome
        assert self.frame()[0] == wire.MODEL
        return welcome

    def report(self, numbers, stamp=0, sample=0):
        """Report; the answer."""
        payload = np.asarray(numbers, "<f8").tobytes()
        self.give(wire.head(wire.REPORT, len(payload), stamp, sample) + payload)
        return self.frame()

    def skip(self, stamp=0, sample=0):
        """Say that there is nothing to send; the answer."""
        self.give(wire.head(wire.SKIP, 0, stamp, sample))
        return self.frame()

    def lose(self):
        """The connection is gone."""
        self.desk.connections.lost(self.connection, self.desk.now)


def pull(w, sample):
    """The gradient of half the squared distance from a sample."""
    return w - sample


class Pair:
    """A worker and a server, connected; `budget` bytes travel, then the connection is cut, once.

    The stream is read once, unless another is given.
    """

    def __init__(self, desk, samples=3, budget=None, stream=None, gradient=pull, **given):
        self.desk, self.budget = desk, budget

        def make(description, w0):
            own = iter([np.full(w0.size, float(k)) for k in range(samples)]) if stream is None else stream
            return FromStream(gradient, own, make_method(description), w0)

        self.remarks, self.caller, self.reader = [], None, None
        self.worker = Worker(make, rng=random.Random(1), say=self.remarks.append, **given)
        self.connect_at = None
        self.travelled = self.cuts = 0
        self.to_server = b""

    def run(self):
        """Until the worker has ended; every loop does one thing."""
        self.do(self.worker.start(self.desk.now))
        for _ in range(100_000):
            if self.worker.phase is Phase.ENDED:
                return self
            self.turn()
        raise AssertionError("it does not end")

    def turn(self):
        """One thing that can happen."""
        if self.to_server and self.caller is not None:
            self.travel_up()
        elif self.caller is not None and self.caller.sent:
            self.travel_down()
        elif self.caller is not None and self.caller.closed:
            self.lost("the server hung up")
        elif self.worker.busy:
            self.compute()
        elif self.caller is None and self.connect_at is not None:
            self.desk.now = max(self.desk.now, self.connect_at)
            self.connect()
        self.desk.flush()

    def spend(self, wanted):
        """How many bytes may travel before the connection is cut."""
        if self.budget is None:
            return wanted
        count = min(wanted, self.budget)
        self.budget -= count
        return count

    def travel_up(self):
        count = self.spend(len(self.to_server))
        data, self.to_server = self.to_server[:count], self.to_server[count:]
        self.travelled += count
        self.caller.give(data)
        self.cut_if_spent()

    def travel_down(self):
        room = self.reader.buffer()
        count = self.spend(min(len(room), len(self.caller.sent)))
        room[:count], self.caller.sent = self.caller.sent[:count], self.caller.sent[count:]
        self.travelled += count
        self.reader.received(count)
        while self.caller is not None:
            self.reader.expected = self.worker.expected
            if (frame := self.reader.next()) is None:
                break
            head, payload = frame
            if head.kind == wire.MODEL:
                self.worker.model_place()[:] = self.worker.encoding.read(payload)
                self.do(self.worker.frame(head, {}, self.desk.now))
            else:
                self.do(self.worker.frame(head, wire.parse_text(payload), self.desk.now))
        self.cut_if_spent()

    def cut_if_spent(self):
        if self.budget == 0:
            self.budget, self.cuts = None, 1
            if self.caller is not None:
                self.lost("it was cut")

    def connect(self):
        self.caller, self.reader, self.connect_at = self.desk.call(), FrameReader(self.worker.expected), None
        self.do(self.worker.connected(self.desk.now))

    def lost(self, reason):
        """The connection is gone, at both ends."""
        self.drop()
        self.do(self.worker.lost(reason, self.desk.now))

    def drop(self):
        caller, self.caller, self.to_server = self.caller, None, b""
        if caller is not None:
            caller.lose()

    def compute(self):
        """Run the user's code."""
        worker, now = self.worker, self.desk.now
        try:
            send = worker.compute()
        except StreamEnded:
            self.do(worker.stream_ended(now))
        except Dismissed as error:
            self.do(worker.dismiss(str(error)))
        else:
            self.do(worker.computed(send, now))

    def do(self, actions):
        """Carry out what the worker wants done."""
        for action in actions:
            if isinstance(action, Connect):
                self.connect_at = self.desk.now + action.after
            elif isinstance(action, HangUp):
                self.drop()
            else:
                self.to_server += action.content
