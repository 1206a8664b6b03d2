"""gRPC: workers send a gradient as bytes and are sent w.

Three ways, told apart by the argument: a call for every gradient ("unary"), one stream of messages for each worker
("stream"), both with threads, and such streams with asyncio ("asyncio"). Server and workers are processes of their own,
forked before gRPC has started anything. Without serializers bytes stay bytes.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from live_job import Server, gradient, serve, together

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
PUSH, FLOW = "/siag/push", "/siag/flow"
STOP = b""


class Handler(grpc.GenericRpcHandler):
    """What the server does; a lock keeps updates apart."""

    def __init__(self, server: Server, over) -> None:
        self.server, self.lock, self.over = server, threading.Lock(), over
        self.told = 0  # workers that it is over

    def service(self, call):
        """gRPC asks who answers."""
        if call.method == PUSH:
            return grpc.unary_unary_rpc_method_handler(lambda message, _: self.take(message))
        return grpc.stream_stream_rpc_method_handler(lambda messages, _: map(self.take, messages))

    def take(self, message: bytes) -> bytes:
        """A worker's number, then its gradient; nothing but the number asks for w."""
        with self.lock:
            if len(message) > 8 and not self.server.meter.over:
                self.server.update(int.from_bytes(message[:8], "little"), np.frombuffer(message, np.float64, offset=8))
            if self.server.meter.over:
                self.told += 1
                if self.told == self.server.n:
                    self.over.set()
                return STOP
            return self.server.w.tobytes()


class AsyncHandler(Handler):
    """The same for asyncio."""

    def service(self, call):
        """gRPC asks who answers."""
        return grpc.stream_stream_rpc_method_handler(self.flow)

    async def flow(self, _, context) -> None:
        """One worker's messages."""
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(self.take(message))


def threads(outbox, ports, *job) -> None:
    """The server's process: job is d, workers, seconds."""
    d, workers, seconds = job
    handler = Handler(Server(workers, d, seconds), threading.Event())
    server = grpc.server(ThreadPoolExecutor(workers + 2), handlers=[handler], options=OPTIONS)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    for _ in range(workers):
        ports.put(port)
    handler.over.wait()
    server.stop(0.5).wait()
    outbox.send(handler.server.answer())


def loop(outbox, ports, *job) -> None:
    """The same for asyncio."""

    async def main() -> None:
        d, workers, seconds = job
        handler = AsyncHandler(Server(workers, d, seconds), asyncio.Event())
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers([handler])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        for _ in range(workers):
            ports.put(port)
        await handler.over.wait()
        await server.stop(0.5)
        outbox.send(handler.server.answer())

    asyncio.run(main())


def hello(i: int) -> bytes:
    """What worker i sends first."""
    return i.to_bytes(8, "little")


def message(i: int, w: bytes) -> bytes:
    """What worker i sends when it is sent w."""
    return b"".join((hello(i), gradient(np.frombuffer(w), i).data))


def unary(ports, i: int) -> None:
    """A worker's process."""
    with grpc.insecure_channel(f"127.0.0.1:{ports.get()}", options=OPTIONS) as channel:
        push = channel.unary_unary(PUSH)
        w = push(hello(i), wait_for_ready=True)
        while w != STOP:
            w = push(message(i, w))


def stream(ports, i: int) -> None:
    """A worker's process."""
    with grpc.insecure_channel(f"127.0.0.1:{ports.get()}", options=OPTIONS) as channel:
        outbox: queue.SimpleQueue = queue.SimpleQueue()
        outbox.put(hello(i))
        for w in channel.stream_stream(FLOW)(iter(outbox.get, None), wait_for_ready=True):
            if w == STOP:
                break
            outbox.put(message(i, w))
        outbox.put(None)


def async_stream(ports, i: int) -> None:
    """A worker's process."""

    async def main() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ports.get()}", options=OPTIONS) as channel:
            call = channel.stream_stream(FLOW)(wait_for_ready=True)
            await call.write(hello(i))
            while (w := await call.read()) != STOP:
                await call.write(message(i, w))
            await call.done_writing()

    asyncio.run(main())


WAYS = {"unary": (threads, unary), "stream": (threads, stream), "asyncio": (loop, async_stream)}

if __name__ == "__main__":
    chosen = WAYS[sys.argv[1]]
    serve(lambda d, workers, seconds: together(*chosen, workers, d, workers, seconds))
