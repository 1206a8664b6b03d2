"""A stream in one file: a sensor that is read again and again. Run it: python examples/own_stream.py."""

from dataclasses import dataclass, replace

import numpy as np

import siag
from siag.streams import Stream


@dataclass(eq=False)
class Sensor(Stream):
    """Readings of a level, one every `seconds`."""

    level: float
    seconds: float
    first: int = 0  # the number of the first reading

    def samples(self, stop):
        k = self.first
        while not stop.wait(self.seconds):  # rather than time.sleep: it ends at once when the worker does
            yield self.level + 0.1 * (-1) ** k
            k += 1

    def after(self, samples):
        """The same without its first readings, so that a worker that is started again repeats none."""
        return replace(self, first=self.first + samples)


def gradient(w, reading):
    """Of ½ (w − reading)²."""
    return w - reading


if __name__ == "__main__":
    streams = [Sensor(1.0, 0.001), Sensor(3.0, 0.01)]  # w should be their mean level, 2
    step, until = siag.steps.Harmonic(beta=2.0, gamma=20.0), siag.Until(reports=1000)
    run = siag.train(gradient, streams, np.zeros(1), step=step, until=until)
    print(f"{run.about['ended']}: w = {run.w[0].round(1)}")
