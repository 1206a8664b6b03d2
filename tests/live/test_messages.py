"""Messages of float32: half the bytes; rounding of what workers read and send is all that differs."""

import threading

import numpy as np
import pytest
from pair import Desk, begun
from peers import wait_until
from splits import Split, finish, hands, same
from tests.instant import Instant

import siag
from siag.foundations.errors import BadFile, BadInput, Unsuitable
from siag.live.protocol import wire
from siag.live.protocol.welcome import parse_welcome
from siag.live.spec import check_messages
from siag.live.transports.simulated.runtime import Faults

D, REPORTS = 5, 60
ETA = 0.1
SAMPLES = np.random.default_rng(3).normal(size=(REPORTS, D))
SLOW = siag.steps.Constant(0.02)


def gradient(w, sample):
    """In doubles, of a w of float32."""
    if w.dtype != np.float32:
        raise TypeError(w.dtype)
    return (w - sample) * np.arange(1.0, D + 1.0) / 3.0


def rounded_by_hand():
    """sIAG with one worker, that reads and sends float32, in plain NumPy."""
    w, row, total = np.full(D, 1 / 3), np.zeros(D), np.zeros(D)
    for sample in SAMPLES:
        g = np.float32((np.float32(w) - sample) * np.arange(1.0, D + 1.0) / 3.0).astype(np.float64)
        total, row = total + (g - row), g
        w = w - ETA * total
    return w


def over_tcp(**given):
    """The same run by `serve` and `work`."""
    place, result = [], []
    arguments = {"port": 0, "ready": lambda *at: place.append(at), "until": siag.Until(reports=REPORTS), **given}
    server = threading.Thread(target=lambda: result.append(siag.serve(np.full(D, 1 / 3), 1, **arguments)))
    server.start()
    _, port = wait_until(lambda: place)[0]
    siag.work(f"127.0.0.1:{port}", gradient, list(SAMPLES).__iter__)
    server.join()
    return result[0]


RUNTIMES = {"shared memory": None, "virtual time": siag.Simulated(seed=1), "another": Instant()}


@pytest.mark.few(2)
@pytest.mark.parametrize("where", [*RUNTIMES, "TCP"])
def test_all_transports_make_what_rounding_by_hand_does(where):
    given = {"method": siag.methods.SIAG(resum=0), "step": siag.steps.Constant(ETA), "messages": "float32"}
    if where == "TCP":
        run = over_tcp(**given)
    else:
        runtime = RUNTIMES[where]
        run = siag.train(gradient, [list(SAMPLES).__iter__], np.full(D, 1 / 3), runtime=runtime, **given)
    assert np.array_equal(run.w[0], rounded_by_hand())
    assert run.about["messages"] == "float32"
    assert run.bytes[0, -1] == 2 * 4 * D * REPORTS


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [siag.methods.SIAG(), siag.methods.LAG()], ids=str)
def test_a_replay_is_the_run_to_the_bit(method, tmp_path):
    """LAG's workers remember, stay silent at times, and read a threshold beside w."""
    problem, path = siag.problems.LeastSquares.random(n=3, d=D, p=4, noise=0.1), tmp_path / "run.trace"
    given = {"problem": problem, "method": method, "step": SLOW, "until": 80, "seed": 5, "messages": "float32"}
    run = siag.train(**given, trace=path, runtime=siag.Simulated(seed=2))
    again = siag.replay(path)
    assert np.array_equal(again.w, run.w)
    assert again.about["method"] == run.about["method"]
    assert again.bytes[0, -1] <= run.bytes[0, -1]
    exact = siag.train(**given | {"messages": "float64"}, runtime=siag.Simulated(seed=2))
    assert not np.array_equal(exact.w, run.w)
    assert np.allclose(exact.w, run.w, rtol=0, atol=1e-5)


def test_a_durable_run_goes_on_after_crashes_and_replays_to_the_bit(tmp_path):
    problem, path = siag.problems.LeastSquares.random(n=3, d=D, p=4, noise=0.1), tmp_path / "run.trace"
    runtime = siag.Simulated(seed=4, faults=Faults(server=8.0, cuts=5.0))
    given = {"problem": problem, "step": SLOW, "until": 80, "messages": "float32", "runtime": runtime}
    run = siag.train(**given, folder=tmp_path / "state", durable=True, trace=path)
    assert run.about["before"] > 0  # it was killed at least once
    assert np.array_equal(siag.replay(path).w, run.w)
    with pytest.raises(BadFile, match="messages is 'float32' there and not given here; run what was saved"):
        siag.train(**given | {"messages": "float64"}, folder=tmp_path / "state", durable=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [siag.methods.SIAG(), siag.methods.SGD()], ids=str)
def test_a_model_that_is_split_is_what_one_server_makes_of_the_same_reports(method, tmp_path):
    path = tmp_path / "run.trace"
    with Split(2, method=method, trace=path, messages="float32") as split:
        run = finish(split, hands(split, method=method))
    assert run.reads[0, -1] == 400
    assert same(path, split, run)


def test_numbers_of_another_size_than_agreed_are_a_bad_frame():
    desk = Desk(begun(messages="float32", d=D))
    caller = desk.call()
    kind, _, welcome = caller.hello()
    assert (kind, welcome["messages"]) == (wire.WELCOME, "float32")
    assert wire.HEADER.unpack_from(caller.sent)[0] == 4 * D
    caller.sent, before = b"", desk.state()
    kind, _, refusal = caller.report(np.ones(D))
    assert (kind, refusal["reason"]) == (wire.REFUSAL, f"REPORT, {8 * D} bytes: {4 * D} are expected")
    assert caller.closed
    assert desk.state() == before


@pytest.mark.parametrize(
    ("messages", "why"),
    [("int3", "the server's messages are of int3, unknown here; install the same version"), (8, "messages are of 8")],
)
def test_a_worker_says_which_messages_it_does_not_know(messages, why):
    welcome = {"row": 0, "workers": 1, "d": 3, "samples": 0, "messages": messages}
    with pytest.raises(wire.BadFrame, match=why):
        parse_welcome(welcome)
    assert parse_welcome(welcome | {"messages": "float32"})[2].size(3) == 12
    del welcome["messages"]
    assert parse_welcome(welcome)[2].size(3) == 24


@pytest.mark.parametrize("messages", ["float16", "double", 32, np.float32])
def test_messages_of_another_kind_are_refused(messages):
    with pytest.raises(BadInput, match=r"messages = .*: must be one of 'float64', 'float32'"):
        siag.train(gradient, [[1.0]], np.zeros(1), messages=messages)
    with pytest.raises(BadInput, match=r"messages = .*: must be one of 'float64', 'float32'"):
        siag.serve(np.zeros(1), 1, messages=messages)


def test_a_gradient_may_say_in_which_numbers_it_computes():
    class Model:
        messages = "float32"

        def __call__(self, w, sample):
            return gradient(w, sample)

    given = {"step": siag.steps.Constant(ETA), "runtime": siag.Simulated(seed=1)}
    run = siag.train(Model(), [list(SAMPLES).__iter__], np.zeros(D), **given)
    assert run.about["messages"] == "float32"
    with pytest.raises(siag.SiagError, match="float64"):  # the gradient's own error
        siag.train(Model(), [list(SAMPLES).__iter__], np.zeros(D), messages="float64", **given)


@pytest.mark.thorough
def test_ready_made_losses_and_automatic_steps_need_not_know():
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(300, 3)), np.array([1.0, -2.0, 0.5, 3.0])
    data = [(X, X @ truth[:3] + truth[3])] * 2
    run = siag.train(siag.losses.Squared(), data, np.zeros(4), messages="float32", runtime=siag.Simulated(seed=1))
    assert np.allclose(run.w[0], truth, atol=1e-3)


def test_indices_that_would_be_rounded_are_refused():
    check_messages("float32", siag.methods.EF21(k=1), 2**24 + 1)
    check_messages("float64", siag.methods.EF21(k=1), 2**30)
    with pytest.raises(Unsuitable, match="EF21 sends indices up to 16777217, float32 rounds them above 16777216"):
        check_messages("float32", siag.methods.EF21(k=1), 2**24 + 2)
