"""What a system does not have is said in one line, before anything is started."""

import pytest

import siag
from siag.live.transports.shared_memory import server


def test_without_forkserver_training_is_refused_and_virtual_time_is_named(monkeypatch):
    monkeypatch.setattr(server, "get_all_start_methods", lambda: ["spawn"])
    problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    with pytest.raises(siag.SiagError, match=r"forkserver.*siag\.Simulated\(\)") as refusal:
        siag.train(problem=problem, until=10, progress=False)
    assert "\n" not in str(refusal.value)
