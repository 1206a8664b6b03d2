"""Flower's simulation engine: every client sends one stochastic gradient per round, the server averages and steps.

With everyone active sIAG is just this. Only the rounds are timed, not the start of the engine.
"""

from __future__ import annotations

import os
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

import numpy as np  # the engine reads its settings when it is imported
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from job import BETA, GAMMA, NOISE, D, P, answer, centers
from serving import serve

CLIENTS = 10
CENTERS = centers(CLIENTS)

client = ClientApp()


@client.train()
def train(message, context):
    """Worker: one stochastic gradient at the w of the message."""
    i = int(context.node_config["partition-id"])
    rng = np.random.default_rng([int(message.content["config"]["seed"]), i])
    (w,) = message.content["w"].to_numpy_ndarrays()
    A = rng.standard_normal((P, D))
    g = A.T @ (A @ (w - CENTERS[i]) - NOISE * rng.standard_normal(P))
    return Message(content=RecordDict({"g": ArrayRecord([g])}), reply_to=message)


def run(seed: int, iterations: int) -> dict[str, object]:
    """Some rounds, the first of which, when the engine warms up, is not counted."""
    found: dict[str, object] = {}
    server = ServerApp()

    @server.main()
    def main(grid, context):
        w, began = np.zeros(D), 0.0
        nodes = list(grid.get_node_ids())
        while len(nodes) < CLIENTS:
            nodes = list(grid.get_node_ids())
        for t in range(iterations + 1):
            if t == 1:
                began, w = time.perf_counter(), np.zeros(D)
            content = {"w": ArrayRecord([w]), "config": ConfigRecord({"seed": seed * 10_000 + t})}
            messages = [Message(RecordDict(content), dst_node_id=node, message_type="train") for node in nodes]
            replies = list(grid.send_and_receive(messages))
            gradients = [reply.content["g"].to_numpy_ndarrays()[0] for reply in replies]
            w = w - BETA / (max(t - 1, 0) + GAMMA) * np.mean(gradients, axis=0)
        found.update(answer(time.perf_counter() - began, CLIENTS * iterations, w))

    config = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": 2, "log_to_driver": False},
    }
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=config)
    return found


if __name__ == "__main__":
    serve(run)
