"""Short messages: fewer bytes; rounding of what workers read and send is all that differs."""

import threading

import numpy as np
import pytest
from pair import Desk, begun
from peers import wait_until
from splits import Split, finish, hands, same
from tests.instant import Instant
from tests.packed import sent

import siag
from siag.foundations.errors import BadFile, BadInput, Unsuitable
from siag.live.protocol import wire
from siag.live.protocol.welcome import parse_welcome
from siag.live.spec import check_messages
from siag.live.transports.simulated.runtime import Faults

D, REPORTS = 5, 60
SHORT = ("float32", "bfloat16", "int8")
BYTES = {"float32": 20, "bfloat16": 10, "int8": 9}  # of a report
ETA = 0.1
SAMPLES = np.random.default_rng(3).normal(size=(REPORTS, D))
SLOW = siag.steps.Constant(0.02)


def gradient(w, sample):
    """In doubles, of a w of float32."""
    if w.dtype != np.float32:
        raise TypeError(w.dtype)
    return (w - sample) * np.arange(1.0, D + 1.0) / 3.0


def rounded_by_hand(messages):
    """sIAG with one worker, that reads float32 and sends short messages, in plain NumPy."""
    w, row, total = np.full(D, 1 / 3), np.zeros(D), np.zeros(D)
    for k, sample in enumerate(SAMPLES):
        g = sent(messages, (np.float32(w) - sample) * np.arange(1.0, D + 1.0) / 3.0, seed=0, row=0, sample=k)
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
@pytest.mark.parametrize("messages", SHORT)
@pytest.mark.parametrize("where", [*RUNTIMES, "TCP"])
def test_all_transports_make_what_rounding_by_hand_does(where, messages):
    given = {"method": siag.methods.SIAG(resum=0), "step": siag.steps.Constant(ETA), "messages": messages}
    if where == "TCP":
        run = over_tcp(**given)
    else:
        runtime = RUNTIMES[where]
        run = siag.train(gradient, [list(SAMPLES).__iter__], np.full(D, 1 / 3), runtime=runtime, **given)
    assert np.array_equal(run.w[0], rounded_by_hand(messages))
    assert run.about["messages"] == messages
    assert run.bytes[0, -1] == (BYTES[messages] + 4 * D) * REPORTS


LAG = [(siag.methods.LAG(), messages) for messages in ("float32", "int8")]
REPLAYED = [*((siag.methods.SIAG(), messages) for messages in SHORT), *LAG]


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "messages"), REPLAYED, ids=str)
def test_a_replay_is_the_run_to_the_bit(method, messages, tmp_path):
    """LAG's workers remember, stay silent at times, and read a threshold beside w."""
    problem, path = siag.problems.LeastSquares.random(n=3, d=D, p=4, noise=0.1), tmp_path / "run.trace"
    given = {"problem": problem, "method": method, "step": SLOW, "until": 80, "seed": 5, "messages": messages}
    run = siag.train(**given, trace=path, runtime=siag.Simulated(seed=2))
    again = siag.replay(path)
    assert np.array_equal(again.w, run.w)
    assert again.about["method"] == run.about["method"]
    assert again.bytes[0, -1] <= run.bytes[0, -1]
    exact = siag.train(**given | {"messages": "float64"}, runtime=siag.Simulated(seed=2))
    assert not np.array_equal(exact.w, run.w)
    assert np.allclose(exact.w, run.w, rtol=0, atol={"float32": 1e-5, "bfloat16": 0.05, "int8": 0.05}[messages])


@pytest.mark.thorough
@pytest.mark.parametrize("messages", ["float32", "int8"])
def test_a_durable_run_goes_on_after_crashes_and_replays_to_the_bit(messages, tmp_path):
    problem, path = siag.problems.LeastSquares.random(n=3, d=D, p=4, noise=0.1), tmp_path / "run.trace"
    runtime = siag.Simulated(seed=4, faults=Faults(server=8.0, cuts=5.0))
    given = {"problem": problem, "step": SLOW, "until": 80, "messages": messages, "runtime": runtime}
    run = siag.train(**given, folder=tmp_path / "state", durable=True, trace=path)
    assert run.about["before"] > 0  # it was killed at least once
    assert np.array_equal(siag.replay(path).w, run.w)
    with pytest.raises(BadFile, match=f"messages is '{messages}' there and not given here; run what was saved"):
        siag.train(**given | {"messages": "float64"}, folder=tmp_path / "state", durable=True)


SPLIT = [(siag.methods.SIAG(), "float32"), (siag.methods.SGD(), "float32"), (siag.methods.SIAG(), "int8")]


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "messages"), [*SPLIT, (siag.methods.SIAG(), "bfloat16")], ids=str)
def test_a_model_that_is_split_is_what_one_server_makes_of_the_same_reports(method, messages, tmp_path):
    path = tmp_path / "run.trace"
    with Split(2, method=method, trace=path, messages=messages) as split:
        run = finish(split, hands(split, method=method))
    assert run.reads[0, -1] == 400
    assert same(path, split, run)


@pytest.mark.parametrize(("messages", "other"), [(each, 8 * D) for each in SHORT] + [("int8", 10), ("bfloat16", 9)])
def test_a_message_of_another_encoding_than_agreed_is_a_bad_frame(messages, other):
    desk = Desk(begun(messages=messages, d=D))
    caller = desk.call()
    kind, _, welcome = caller.hello()
    assert (kind, welcome["messages"]) == (wire.WELCOME, messages)
    assert wire.HEADER.unpack_from(caller.sent)[0] == 4 * D
    caller.sent, before = b"", desk.state()
    caller.give(wire.head(wire.REPORT, other) + bytes(other))
    kind, _, refusal = caller.frame()
    assert (kind, refusal["reason"]) == (wire.REFUSAL, f"REPORT, {other} bytes: {BYTES[messages]} are expected")
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
    assert parse_welcome(welcome | {"messages": "int8"})[2].size(3) == 7
    del welcome["messages"]
    assert parse_welcome(welcome)[2].size(3) == 24


@pytest.mark.parametrize("messages", ["float16", "double", 32, np.float32])
def test_messages_of_another_kind_are_refused(messages):
    with pytest.raises(BadInput, match=r"messages = .*: must be one of 'float64', 'float32', 'bfloat16', 'int8'"):
        siag.train(gradient, [[1.0]], np.zeros(1), messages=messages)
    with pytest.raises(BadInput, match=r"messages = .*: must be one of 'float64', 'float32', 'bfloat16', 'int8'"):
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
@pytest.mark.parametrize("messages", ["float32", "int8"])
def test_ready_made_losses_and_automatic_steps_need_not_know(messages):
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(300, 3)), np.array([1.0, -2.0, 0.5, 3.0])
    data = [(X, X @ truth[:3] + truth[3])] * 2
    run = siag.train(siag.losses.Squared(), data, np.zeros(4), messages=messages, runtime=siag.Simulated(seed=1))
    assert np.allclose(run.w[0], truth, atol=1e-3)


def test_indices_that_would_be_rounded_are_refused():
    check_messages("float32", siag.methods.EF21(k=1), 2**24 + 1)
    check_messages("float64", siag.methods.EF21(k=1), 2**30)
    with pytest.raises(Unsuitable, match="EF21 sends indices up to 16777217, float32 rounds them above 16777216"):
        check_messages("float32", siag.methods.EF21(k=1), 2**24 + 2)
    check_messages("bfloat16", siag.methods.EF21(k=1), 257)
    with pytest.raises(
        Unsuitable, match="EF21 sends indices up to 4, int8 rounds them above 0; use messages='float64'"
    ):
        check_messages("int8", siag.methods.EF21(k=1), 5)


GRADIENTS = {
    "doubles": gradient,
    "float32": lambda w, sample: gradient(w, sample).astype(np.float32),
    "a list and the loss": lambda w, sample: (0.5, gradient(w, sample).tolist()),
    "not contiguous": lambda w, sample: np.repeat(gradient(w, sample), 2)[::2],
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_a_gradient_may_be_of_any_kind_of_numbers(kind):
    given = {"method": siag.methods.SIAG(resum=0), "step": siag.steps.Constant(ETA), "messages": "int8"}
    run = siag.train(GRADIENTS[kind], [list(SAMPLES).__iter__], np.full(D, 1 / 3), runtime=Instant(), **given)
    assert np.allclose(run.w[0], rounded_by_hand("int8"), atol=0.0 if kind != "float32" else 0.1)


def test_a_gradient_that_is_not_finite_is_refused_packed_or_not():
    def once(w, sample):
        return np.full(D, np.nan if sample[0] == SAMPLES[3, 0] else 1.0)

    run = siag.train(once, [list(SAMPLES).__iter__], np.zeros(D), messages="int8", step=SLOW, runtime=Instant())
    assert run.workers[0]["refused"] == 1
    assert np.isfinite(run.w).all()


def test_a_step_that_looks_at_ages_measures_packed_reports_itself():
    """In shared memory, where workers measure all others; one by one, as for every step of this kind."""
    step = siag.steps.DelayAdaptive(gamma=0.02, ages="table")
    given = {"method": siag.methods.SIAG(resum=0), "step": step, "messages": "int8"}
    run = siag.train(gradient, [list(SAMPLES).__iter__], np.full(D, 1 / 3), **given)
    assert run.workers[0]["refused"] == 0
    assert run.workers[0]["reports"] == REPORTS
