"""The time that the best number of workers takes for some gradients, by which Rennala and Ringmaster are judged."""

import numpy as np

from siag.experiments.claims.concurrent import time_for


def test_the_time_for_some_gradients_is_that_of_the_best_number_of_workers():
    assert time_for(6, np.array([2.0])) == 14.0
    assert time_for(6, np.array([1.0, 1.0])) == 4.0
    assert time_for(6, np.array([100.0, 1.0])) == 7.0  # the slow one would only be waited for
