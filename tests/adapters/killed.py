"""A worker on a stream, killed again and again; the server, which is durable, counts how often it has each entry."""

import multiprocessing
import os
import random
import threading

import numpy as np

import siag
from siag.methods import SGD

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["siag.live.serve", "siag.methods", "redis", "paho.mqtt.client"])
PIPE = []


def count(w, entry):
    """The gradient: w is minus how often each entry was taken."""
    os.write(PIPE[0], b".")
    counted = np.zeros(w.size)
    counted[entry] = 1.0
    return counted


def work(port, stream, pipe):
    PIPE.append(pipe.fileno())
    siag.work(f"127.0.0.1:{port}", count, stream, name="north", give_up=20.0)


def counted_by_a_server(stream, entries, folder, *, kills, seed, most=30):
    """How often each entry was counted, and how many times the worker was killed.

    It is killed when it has begun a random number of gradients, at most `most`, wherever it is by then.
    """
    rng, killed, threads = random.Random(seed), [], []

    def live_and_die(port):
        for life in range(kills + 1):
            here, there = PROCESSES.Pipe(duplex=False)
            process = PROCESSES.Process(target=work, args=(port, stream, there))
            process.start()
            there.close()
            wanted = rng.randint(0, most) if life < kills else entries
            while wanted > 0 and (seen := os.read(here.fileno(), wanted)):
                wanted -= len(seen)
            if life < kills:
                process.kill()
                killed.append(process.pid)
            process.join()
            here.close()

    def ready(host, port):
        threads.append(threading.Thread(target=live_and_die, args=(port,)))
        threads[0].start()

    until = siag.Until(reports=entries, seconds=300)
    how = {"port": 0, "folder": folder, "durable": True, "progress": False, "ready": ready}
    run = siag.serve(np.zeros(entries), ["north"], SGD(), siag.steps.Constant(1.0), until, **how)
    threads[0].join()
    return -run.w[0], len(killed)
