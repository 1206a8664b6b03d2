"""Readings in Redis streams, one for each worker. Run it: python examples/redis_stream.py redis://localhost:6379/0.

Entries are acknowledged when the server has their reports on disk. Interrupted and started again, it goes on where it
was: no reading is lost, none counts twice.
"""

import sys

import numpy as np
import redis

import siag
from siag.streams import Redis

LEVELS = {"north": 1.0, "south": 3.0}  # w should be their mean, 2


def fill(url, count):
    """What sensors would do: append to the streams."""
    with redis.Redis.from_url(url) as broker:
        for k in range(count):
            for name, level in LEVELS.items():
                broker.xadd(name, {"level": level + 0.1 * (-1) ** k})


def gradient(w, level):
    """Of ½ (w − level)²."""
    return w - level


if __name__ == "__main__":
    url = sys.argv[1]
    fill(url, 200)
    streams = [Redis(name, url, value="level") for name in LEVELS]
    step, until = siag.steps.Harmonic(beta=2.0, gamma=20.0), siag.Until(reports=400)
    run = siag.train(gradient, streams, np.zeros(1), step=step, until=until, folder="state", durable=True)
    print(f"{run.about['ended']}: w = {run.w[0].round(1)}")
