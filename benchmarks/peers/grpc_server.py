"""gRPC: workers send a gradient as bytes and are sent w, by a call each (unary) or along one stream of messages.

Server and workers are processes of their own, forked before gRPC has started anything. A lock keeps updates apart.
"""

from __future__ import annotations

import multiprocessing
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from live_job import Server, gradient, serve

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
SERVICE = "siag"
STOP = b""


class Handler(grpc.GenericRpcHandler):
    """Both ways to call."""

    def __init__(self, server: Server) -> None:
        self.server, self.lock, self.over = server, threading.Lock(), threading.Event()

    def service(self, call):
        """gRPC asks who answers; without serializers bytes stay bytes."""
        if call.method == f"/{SERVICE}/push":
            return grpc.unary_unary_rpc_method_handler(lambda message, _: self.take(message))
        return grpc.stream_stream_rpc_method_handler(lambda messages, _: map(self.take, messages))

    def take(self, message: bytes) -> bytes:
        """A worker's number, then its gradient; nothing but the number asks for w."""
        with self.lock:
            if self.server.meter.over:
                return STOP
            if len(message) > 8:
                self.server.update(int.from_bytes(message[:8], "little"), np.frombuffer(message, np.float64, offset=8))
            if self.server.meter.over:
                self.over.set()
                return STOP
            return self.server.w.tobytes()


def server(ports, answers, d: int, workers: int, seconds: float, updates: int) -> None:
    """The server's process."""
    handler = Handler(Server(workers, d, seconds, updates))
    found = grpc.server(ThreadPoolExecutor(workers + 2), handlers=[handler], options=OPTIONS)
    port = found.add_insecure_port("127.0.0.1:0")
    found.start()
    for _ in range(workers):
        ports.put(port)
    handler.over.wait()
    answers.put(handler.server.answer())
    found.stop(0.5).wait()


def message(i: int, w: bytes) -> bytes:
    """What worker i sends when it is sent w."""
    return b"".join((i.to_bytes(8, "little"), gradient(np.frombuffer(w), i).data))


def unary(ports, i: int) -> None:
    """A worker's process."""
    with grpc.insecure_channel(f"127.0.0.1:{ports.get()}", options=OPTIONS) as channel:
        push = channel.unary_unary(f"/{SERVICE}/push")
        w = push(i.to_bytes(8, "little"), wait_for_ready=True)
        while w != STOP:
            w = push(message(i, w))


def stream(ports, i: int) -> None:
    """A worker's process."""
    with grpc.insecure_channel(f"127.0.0.1:{ports.get()}", options=OPTIONS) as channel:
        outbox: queue.SimpleQueue = queue.SimpleQueue()
        outbox.put(i.to_bytes(8, "little"))
        for w in channel.stream_stream(f"/{SERVICE}/flow")(iter(outbox.get, None), wait_for_ready=True):
            if w == STOP:
                break
            outbox.put(message(i, w))
        outbox.put(None)


def main(work) -> None:
    """Answer requests with the given worker."""
    context = multiprocessing.get_context("fork")

    def run(d: int, workers: int, seconds: float, updates: int) -> dict[str, object]:
        ports, answers = context.SimpleQueue(), context.SimpleQueue()
        processes = [context.Process(target=server, args=(ports, answers, d, workers, seconds, updates))]
        processes += [context.Process(target=work, args=(ports, i)) for i in range(workers)]
        for process in processes:
            process.start()
        found = answers.get()
        for process in processes:
            process.join()
        return found

    serve(run)


if __name__ == "__main__":
    main({"unary": unary, "stream": stream}[sys.argv[1]])
