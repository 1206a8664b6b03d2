"""Servers that start fast: a process that has everything imported and compiled forks one for each line it reads.

A line is a JSON object: port, folder, durable, workers, d. A server that listens says its pid, its port, and the state
it begins with.
"""

import json
import os
import signal
import sys
import time

from peers import gap
from tests.specs import assembly_of

from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.security import Tokens
from siag.live.transports.tcp.endpoint import listen
from siag.live.transports.tcp.server import serve_eagerly
from siag.server.guard import Guard
from siag.steps import Constant


def say(**facts):
    os.write(1, (json.dumps(facts) + "\n").encode())


def assembly(workers, d, folder=None, durable=False):
    return assembly_of(workers, d, step=Constant(0.01), folder=folder, durable=durable, guard=Guard(jump=None))


def serve(port, **given):
    whole = assembly(**given)
    server = whole.server
    facts = {"version": server.version, "reports": server.reports, "gap": gap(server.state)}
    listeners = listen("127.0.0.1", port)
    ready = lambda host, port: say(pid=os.getpid(), port=port, **facts)  # noqa: E731  # one line of a script
    connections = Connections(whole.session, Tokens.none(), Limits(), now=time.monotonic())
    whole.run(lambda session: serve_eagerly(connections, listeners, context=None, ready=ready))
    ended = whole.session.ended
    say(ending=ended.ending, detail=ended.detail, version=server.version, reports=server.reports, gap=gap(server.state))


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    assembly(["0"], 1)
    for line in sys.stdin:
        if os.fork() == 0:
            status = 1
            try:
                serve(**json.loads(line))
                status = 0
            finally:
                os._exit(status)


if __name__ == "__main__":
    main()
