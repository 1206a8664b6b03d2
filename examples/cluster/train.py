"""Sites fit one line to their readings, some far more often than others: on this machine, or on a Ray cluster.

`python train.py --local` trains here; `python train.py` on the Ray cluster it finds, or on one of its own.
"""

import argparse
import time

import numpy as np

import siag

FEATURES = 5


def slopes(site):
    """What this site's readings follow; the model should find the mean of all sites."""
    return np.random.default_rng([1, site]).uniform(-1.0, 1.0, FEATURES)


class Readings:
    """An endless stream of (features, target): the first site has the fastest, each further one a slower one."""

    def __init__(self, site, first=0):
        self.site, self.first = site, first

    def after(self, samples):
        """Go on after so many readings: a worker that is started again does."""
        return Readings(self.site, samples)

    def __iter__(self):
        k = self.first
        while True:
            time.sleep(0.001 * (1 + self.site))
            rng = np.random.default_rng([2, self.site, k])
            x = rng.standard_normal(FEATURES)
            yield x, x @ slopes(self.site) + 0.1 * rng.standard_normal()
            k += 1


def gradient(w, reading):
    """Of ½ (x·w − y)²."""
    x, y = reading
    return (x @ w - y) * x


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sites", type=int, default=8, help="one worker each")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--readings", type=int, help="end after so many, if that is before the seconds have passed")
    options.add_argument("--folder", help="where to save: a path all nodes see, or a URL such as s3://bucket/run")
    options.add_argument("--local", action="store_true", help="processes of this machine, without Ray")
    options.add_argument("--fewest", type=int, help="start when so many workers fit; the others join later")
    options.add_argument("--shards", type=int, default=1)
    options.add_argument("--tls", action="store_true")
    given = options.parse_args()

    wanted = np.mean([slopes(site) for site in range(given.sites)], axis=0)
    runtime = None if given.local else siag.runtimes.Ray(fewest=given.fewest, shards=given.shards, tls=given.tls)
    run = siag.train(
        gradient,
        [Readings(site) for site in range(given.sites)],
        np.zeros(FEATURES),
        step=siag.steps.Harmonic(beta=3.0, gamma=100.0),
        until=siag.Until(seconds=given.seconds, reports=given.readings),
        folder=given.folder,
        runtime=runtime,
    )
    off = np.linalg.norm(run.w[0] - wanted) / np.linalg.norm(wanted)
    print(f"{run.about['activity']}: {run.samples[0, -1]} readings, {100 * off:.1f} % off; ended: {run.about['ended']}")


if __name__ == "__main__":
    main()
