"""A transport in one file: worker processes on pipes. Run it: python examples/own_transport.py."""

import signal
from collections import deque
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import wait
from time import monotonic, sleep

import numpy as np

import siag
from siag.foundations.last_words import last_words
from siag.live.protocol import worker as at_worker
from siag.live.protocol.connections import Connections
from siag.live.protocol.frame_reader import FrameReader
from siag.live.protocol.reception import Close, Limits, Send, SendModel, model_frame
from siag.live.security import Tokens
from siag.live.task import StreamEnded

HANG_UP = b""  # an empty message ends a connection; a worker's next message begins another on the same pipe
PAUSE = 0.05  # seconds between two looks at everything that is no message
GRACE = 2.0  # seconds a process has to end by itself


def work(pipe, name, task):
    """The life of a worker's process: carry out the worker's actions, run the user's code, wait for the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's affair
    worker = at_worker.Worker(lambda method, w0: task, name=name)
    reader, actions = FrameReader(worker.expected), deque(worker.start(monotonic()))
    with suppress(EOFError, OSError):  # the server's process is gone, and so is the pipe
        while actions or worker.phase is not at_worker.Phase.ENDED:
            if not actions and worker.busy:
                actions += compute(worker)
            elif not actions:
                frames, now = pipe.recv_bytes(), monotonic()
                actions += worker.feed(reader, frames, now) if frames else worker.lost("the server hung up", now)
            elif isinstance(action := actions.popleft(), at_worker.Send):
                pipe.send_bytes(action.content)
            elif isinstance(action, at_worker.HangUp):
                pipe.send_bytes(HANG_UP)
            elif isinstance(action, at_worker.Connect):
                sleep(action.after)
                reader = FrameReader(worker.expected)
                actions += worker.connected(monotonic())


def compute(worker):
    """Run the user's code, and tell the worker what came of it."""
    try:
        send = worker.compute()
    except StreamEnded:
        return worker.stream_ended(monotonic())
    except BaseException as error:  # whatever the user's code raises
        return worker.failed(last_words(error), monotonic())
    return worker.computed(send, monotonic())


class Pipes(siag.runtimes.Runtime):
    """Workers are processes of this machine; each has a pipe to the server."""

    def carry(self, session, tasks):
        server = Server(session)
        try:
            for row, task in enumerate(tasks):
                server.start(row, task)
            with session.running(monotonic):  # the last save comes before goodbye
                server.serve()
        finally:
            server.stop()


class Server:
    """The server's ends of all pipes."""

    def __init__(self, session):
        self.session, self.processes = session, []
        self.connections = Connections(session, Tokens.none(), Limits(), now=monotonic())
        self.rows = {}  # pipe: the row of its worker
        self.open = {}  # pipe: its connection, if there is one

    def start(self, row, task):
        context = get_context("spawn")  # a forked process would keep the other workers' pipes open
        pipe, theirs = context.Pipe()
        name = self.session.server.members[row].name
        process = context.Process(target=work, args=(theirs, name, task), name=f"siag-worker-{name}", daemon=True)
        process.start()
        theirs.close()  # or the pipe would not end with the process
        self.rows[pipe] = row
        self.processes.append(process)

    def serve(self):
        """Until the session is over: messages, answers that waited for the disk, slow workers, all else."""
        session, connections = self.session, self.connections
        while self.rows and not session.over:
            pause = min(PAUSE, max(0.0, session.next_tick - monotonic()))
            for pipe in wait(list(self.rows), pause):
                self.hear(pipe, monotonic())
            now = monotonic()
            if connections.pending:  # durable: one write to disk for all reports that came together
                self.perform(connections.flush(now))
            cut, actions = connections.slow(now)
            self.perform([*actions, *map(Close, cut)])
            if connections.failure is not None:
                raise connections.failure
            session.look_after(now)

    def hear(self, pipe, now):
        try:
            frames = pipe.recv_bytes()
        except (EOFError, OSError):  # the process has ended, in order or not
            frames, row = HANG_UP, self.rows.pop(pipe)
            if self.session.server.members[row].state == "expected":
                self.session.died(row, "its process ended before it joined")
        if frames == HANG_UP:
            self.lost(pipe, now)
            return
        if pipe not in self.open:
            self.open[pipe] = self.connections.open(pipe, now)
        self.perform(self.connections.feed(self.open[pipe], frames, now))

    def lost(self, pipe, now):
        connection = self.open.pop(pipe, None)
        if connection is not None:
            self.connections.lost(connection, now)

    def perform(self, actions):
        """Carry out what the connections want done."""
        for action in actions:
            pipe = action.connection.place
            with suppress(OSError):  # the process has ended, which is about to be heard
                if isinstance(action, SendModel):
                    pipe.send_bytes(model_frame(self.connections, action))
                elif isinstance(action, Send):
                    pipe.send_bytes(action.frame)
                else:  # Close
                    self.lost(pipe, monotonic())
                    pipe.send_bytes(HANG_UP)

    def stop(self):
        """Say goodbye; a worker whose code does not return within a while is terminated."""
        self.perform(self.connections.goodbye(True, self.session.why))
        until = monotonic() + GRACE
        for process in self.processes:
            process.join(max(0.0, until - monotonic()))
            process.terminate()
            process.join()


def readings(level, pause):
    """An endless stream of noisy readings of a level, one every `pause` seconds."""
    rng = np.random.default_rng(0)
    while True:
        sleep(pause)
        yield level + 0.1 * rng.standard_normal()


def gradient(w, reading):
    """Of ½ (w − reading)²."""
    return w - reading


if __name__ == "__main__":
    streams = [partial(readings, 1.0, 0.001), partial(readings, 3.0, 0.02)]  # w should be their mean level, 2
    step, until = siag.steps.Harmonic(beta=2.0, gamma=20.0), siag.Until(reports=2000)
    run = siag.train(gradient, streams, np.zeros(1), step=step, until=until, runtime=Pipes())
    print(f"{run.about['ended']}: w = {run.w[0].round(1)}")
