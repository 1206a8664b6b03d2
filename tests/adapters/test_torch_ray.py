"""A module of PyTorch on Ray: the model on one server, or split over several, in a network of its own."""

import os

import pytest
from torch import nn
from torch_jobs import STEP, X, line, linear

import siag
from siag.adapters import Torch
from siag.methods import SIAG
from siag.runtimes import Ray

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),  # JAX's, which other tests here have imported
]
SMALL = {"CPU": 0.5}


def at_zero(module):
    return module(0.0 * X)[0].item()


def test_a_module_comes_back_trained_from_two_shards_on_ray(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)  # where `at_zero` is
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    module = linear()
    model, streams = Torch(module, nn.MSELoss()), [line(1.0), line(3.0)]
    runtime = Ray(shards=2, resources=SMALL, server_resources=SMALL, start_timeout=120.0)
    options = {"method": SIAG(), "step": STEP, "until": 600, "runtime": runtime, "progress": False}
    run = siag.train(model, streams, evaluate={"level": at_zero}, **options)
    assert isinstance(run.model, nn.Linear)
    assert run.model.weight.item() == pytest.approx(2.0, abs=0.1)
    assert run.model.bias.item() == pytest.approx(2.0, abs=0.3)
    assert run.metrics["level"][0, -1] == run.model.bias.item()
    assert linear().weight.item() == module.weight.item()


def test_a_model_in_shards_needs_a_method_that_can_be_split_which_is_said_before_ray_starts():
    with pytest.raises(siag.Unsuitable, match=r"Automatic.s server cannot be split .* use shards=1, or SIAG"):
        siag.train(Torch(linear(), nn.MSELoss()), [line(1.0)], until=10, runtime=Ray(shards=2))
