"""torch.distributed.rpc: workers call the server's update with a tensor and are returned w.

Server and workers are processes of their own, forked before torch has started anything. A lock keeps updates apart.
"""

from __future__ import annotations

import os
import socket
import threading

import torch
from torch.distributed import rpc

from live_job import ETA, Meter, gradient, report, serve, together

torch.set_num_threads(1)


class Server:
    """The update in torch, in place."""

    def __init__(self, n: int, d: int, seconds: float) -> None:
        self.n, self.lock, self.over = n, threading.Lock(), threading.Event()
        self.w, self.total, self.rows = (torch.zeros(*shape, dtype=torch.float64) for shape in ((d,), (d,), (n, d)))
        self.meter = Meter(n, seconds)

    def update(self, i: int, g: torch.Tensor) -> None:
        """A gradient of worker i."""
        row = self.rows[i]
        self.total.sub_(row).add_(g)
        row.copy_(g)
        self.w.add_(self.total, alpha=-ETA / self.n)
        self.meter(i)


HERE: list[Server] = []  # of this process, if it is the server's


@torch.inference_mode()
def push(i: int, g: torch.Tensor | None) -> torch.Tensor | None:
    """Runs in the server: returns w, or nothing when it is over."""
    server = HERE[0]
    with server.lock:
        if g is not None and not server.meter.over:
            server.update(i, g)
        if server.meter.over:
            server.over.set()
            return None
        return server.w.clone()


def join(name: str, rank: int, world: int, port: int) -> None:
    """Become one of the group."""
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", num_worker_threads=max(4, world))
    rpc.init_rpc(name, rank=rank, world_size=world, rpc_backend_options=options)


def server(outbox, ports, d: int, workers: int, seconds: float) -> None:
    """The server's process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(workers):
        ports.put((port, workers))
    found = Server(workers, d, seconds)
    HERE.append(found)
    join("server", 0, workers + 1, port)
    found.over.wait()
    rpc.shutdown()
    outbox.send(report(found.meter, found.w.numpy(), found.total.numpy(), found.rows.numpy()))


def work(ports, i: int) -> None:
    """A worker's process."""
    port, workers = ports.get()
    join(f"worker{i}", i + 1, workers + 1, port)
    w = rpc.rpc_sync("server", push, args=(i, None))
    while w is not None:
        w = rpc.rpc_sync("server", push, args=(i, torch.from_numpy(gradient(w.numpy(), i))))
    rpc.shutdown()


if __name__ == "__main__":
    os.environ |= {"TP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    serve(lambda d, workers, seconds: together(server, work, workers, d, workers, seconds))
