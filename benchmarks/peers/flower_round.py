"""Flower's simulation engine as a parameter server: messages are pushed to clients and their replies pulled.

Whoever has replied is updated and sent the new w, and nobody waits for anybody. All requests are answered by one
server app, so that the engine, which takes seconds to start, is started once.
"""

from __future__ import annotations

import os
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict  # the engine reads its settings when it is imported
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from live_job import Server, gradient, serve

CLIENTS = 4
client, server = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    """Worker: its gradient at the w of the message."""
    (w,) = message.content["w"].to_numpy_ndarrays()
    g = gradient(w, int(message.content["config"]["worker"]))
    return Message(content=RecordDict({"g": ArrayRecord([g])}), reply_to=message)


@server.main()
def main(grid, context):
    """Answer requests."""
    nodes = list(grid.get_node_ids())
    while len(nodes) < CLIENTS:
        nodes = list(grid.get_node_ids())

    def send(i: int, w) -> str:
        content = RecordDict({"w": ArrayRecord([w]), "config": ConfigRecord({"worker": i})})
        (number,) = grid.push_messages([Message(content, dst_node_id=nodes[i], message_type="train")])
        return number

    def run(d: int, workers: int, seconds: float) -> dict[str, object]:
        found = Server(workers, d, seconds)
        waiting = {send(i, found.w): i for i in range(workers)}
        while waiting:
            time.sleep(0.0005)  # pulling all the time would keep the engine from working
            for reply in grid.pull_messages(list(waiting)):
                i = waiting.pop(reply.metadata.reply_to_message_id)
                if not found.meter.over:
                    found.update(i, reply.content["g"].to_numpy_ndarrays()[0])
                if not found.meter.over:
                    waiting[send(i, found.w)] = i
        return found.answer()

    serve(run)


if __name__ == "__main__":
    config = {
        "client_resources": {"num_cpus": 0.5, "num_gpus": 0.0},
        "init_args": {"num_cpus": 2, "log_to_driver": False},
    }
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=config)
