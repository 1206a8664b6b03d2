"""Servers and workers over TCP that cannot be are refused in one line, before anything is made."""

import math
import threading

import numpy as np
import pytest
from peers import D, Served, in_thread, pull, wait_until

import siag
from refusals import refused
from siag.foundations.errors import BadInput, Unsuitable
from siag.live.serve import parse_address, serve, work

PROBLEM = siag.problems.LeastSquares.random(n=2, d=D, p=3, noise=0.1)


STEP = siag.steps.Constant(0.02)


def test_a_server_of_a_problem_takes_all_from_it_and_its_trace_says_all(tmp_path):
    place, result = [], []
    options = {"until": 200, "port": 0, "trace": tmp_path / "t", "ready": lambda *at: place.append(at)}
    server = threading.Thread(target=lambda: result.append(serve(problem=PROBLEM, seed=6, step=STEP, **options)))
    server.start()
    host, port = wait_until(lambda: place)[0]
    workers = [in_thread(f"{host}:{port}", problem=PROBLEM, seed=6)[0] for _ in range(2)]
    for thread in (server, *workers):
        thread.join()
    (run,) = result
    assert (run.about["problem"], run.about["seed"]) == (repr(PROBLEM), 6)
    assert run.error[0, -1] == np.square(run.w[0] - PROBLEM.optimum).sum()
    assert np.array_equal(siag.replay(tmp_path / "t").w[0], run.w[0])


def test_a_worker_of_a_problem_the_server_does_not_have_is_refused():
    for n, d in ((3, D), (2, D + 1)):
        other = siag.problems.LeastSquares.random(n=n, d=d, p=3, noise=0.1)
        with (
            Served(2) as served,
            pytest.raises(BadInput, match=rf"one of 2 workers and {D} parameters, as the server's"),
        ):
            work(served.address, problem=other)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"^w0 is missing; give .*, or a problem"),
        ({"w0": np.zeros(2)}, r"^workers is missing; .*, or a problem"),
        ({"w0": np.zeros(2), "workers": 1, "method": siag.methods.IAG()}, r"^IAG needs exact gradients"),
        ({"w0": np.zeros(2), "workers": 1, "method": siag.methods.SAG()}, r"^SAG draws one sample per iteration"),
        ({"problem": PROBLEM, "method": siag.methods.SAG()}, r"^SAG draws one sample per iteration"),
        ({"problem": PROBLEM, "w0": np.zeros(2)}, r"^w0 = "),
        ({"problem": PROBLEM, "workers": 3}, r"^workers = 3: must be 2, as many as the problem has"),
        ({"problem": PROBLEM, "seed": -1}, r"^seed = -1"),
        ({"problem": "LeastSquares"}, r"^problem = 'LeastSquares': must be a Problem"),
        ({"problem": PROBLEM, "linger": -1}, r"^linger = -1"),
        ({"problem": PROBLEM, "linger": math.nan}, r"^linger = nan"),
        ({"problem": PROBLEM, "linger": "long"}, r"^linger = 'long'"),
    ],
)
def test_a_server_that_cannot_be_is_refused_in_one_line(given, words):
    with pytest.raises((BadInput, Unsuitable), match=words):
        serve(**given, step=STEP, port=0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"^gradient is missing"),
        ({"gradient": pull}, r"^stream is missing"),
        ({"gradient": pull, "stream": "data.csv"}, r"^stream = 'data.csv': must be a stream, not a name; siag.streams"),
        ({"gradient": pull, "stream": 5}, r"^stream = 5: must be something to iterate over"),
        ({"gradient": pull, "problem": PROBLEM}, r"^problem = .*: must be given alone"),
        ({"problem": 5}, r"^problem = 5: must be a Problem"),
        ({"problem": PROBLEM, "seed": "x"}, r"^seed = 'x'"),
        ({"problem": PROBLEM, "pause": -1}, r"^pause = -1"),
    ],
)
def test_a_worker_that_cannot_be_is_refused_before_it_connects(given, words):
    with pytest.raises(BadInput, match=words):
        work("127.0.0.1:1", **given)


def test_a_function_that_makes_a_name_makes_no_stream():
    with Served(1) as served, pytest.raises(BadInput, match=r"^stream = 'data.csv': must be a stream, not a name"):
        work(served.address, pull, lambda: "data.csv")


@pytest.mark.parametrize(
    "text", ["::1", "::1:7460", "fe80::1", "[::1", "[::1]x", "::1]", "a b:1", "host:\u0662", "[]:1"]
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(text):
    with pytest.raises(BadInput, match=r"^address = .*: must be like host:7460") as caught:
        parse_address(text)
    assert ("in brackets, as in [::1]:7460" in str(caught.value)) == (text.count(":") > 1 and "[" not in text)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0", "insecure": "false"}, "insecure = 'false': must be True or False"),
        ({"host": 3}, "host = 3: must be an address or a name; write it as text"),
        ({"tokens": 3}, "tokens = 3: must be a path"),
    ],
)
def test_what_opens_a_server_is_never_taken_for_something_else(given, says):
    with pytest.raises(siag.BadInput, match=says):
        siag.runtimes.Network(**given).secured(["a"])


def test_a_worker_on_a_stream_has_no_pause_and_a_seed_of_the_order():
    with refused("pause"):
        siag.work("127.0.0.1:1", abs, [1.0], give_up=0.0, pause=3.0)
    with refused("seed"):
        siag.work("127.0.0.1:1", abs, [1.0], give_up=0.0, seed=-1)
    with pytest.raises(siag.SiagError, match="connection refused"):
        siag.work("127.0.0.1:1", abs, [1.0], give_up=0.0, seed=3)
