"""The live chapter judges real runs by what their traces imply."""

import numpy as np
import pytest

import siag
from siag.activity import Trace
from siag.experiments.live import CHANCE, LINES, Noise, _goes_where_taken, _mean, _noise, _replay
from siag.experiments.setting import STEP, draw


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "method"), [(name, method) for name, method, _ in LINES])
def test_a_replay_with_exact_gradients_ends_at_the_mean_of_all_replays(tmp_path, name, method):
    """The mean of 400 runs in 20 dimensions is this far off once in 1000 seeds."""
    problem, path = draw(8, 0), tmp_path / "trace.csv"
    times = siag.Simulated(times=siag.activity.Exponential(1.0), seed=1)
    run = siag.train(
        problem=problem, method=method, step=STEP, until=siag.Until(reports=300), runtime=times, trace=path
    )
    trace = Trace.read(path)
    runs = _replay(problem, method, trace, 5, 400).w
    gap = runs.mean(axis=0) - _mean(problem, name, trace)
    assert gap @ gap < 2.27 * runs.var(axis=0, ddof=1).sum() / 400
    noise = _noise(problem, name, method, trace, 5, run)
    assert noise.replayed == pytest.approx(np.square(runs - runs.mean(axis=0)).sum(axis=1).mean(), rel=0.5)
    assert _goes_where_taken(name, noise).holds


def test_a_run_that_ends_elsewhere_than_its_trace_implies_is_told():
    assert _goes_where_taken("sIAG", Noise(live=0.99 * CHANCE, replayed=1.0, bias=0.0)).holds
    assert not _goes_where_taken("sIAG", Noise(live=1.01 * CHANCE, replayed=1.0, bias=0.0)).holds
    assert not _goes_where_taken("sIAG", Noise(live=np.nan, replayed=1.0, bias=0.0)).holds
