"""A gradient that tells its loss, too: what is taken for one, and where it goes."""

import math

import jobs
import numpy as np
import pytest
from pair import D, Desk, Pair, begun
from peers import Served, Working, wait_until
from trainings import VIRTUAL, train

import siag
from siag.activity import EveryArrivals, Trace
from siag.foundations.returned import write_checked
from siag.live.curve import Curve
from siag.live.protocol import wire
from siag.live.protocol.welcome import make_method
from siag.live.session import Session
from siag.live.task import UNKNOWN, FromStream
from siag.live.transports.shared_memory.server import Embedded
from siag.live.until import Until
from siag.methods import SIAG, Automatic, FedAvg
from siag.server import Guard, ParameterServer
from siag.server.ledger import FIRST_LOSS, LOSS, LOSSES, NORM, REPORTS
from siag.steps import Constant
from siag.storage import Store
from siag.streams.remarks import heard_by

# What is one


@pytest.mark.parametrize(
    "loss",
    [0.5, np.float32(0.5), np.array(0.5), np.array([0.5]), np.array([[0.5]]), [0.5]],
    ids=["a float", "float32", "no axes", "one axis", "two axes", "a list"],
)
@pytest.mark.parametrize("gradient", [np.array([1.0, 2.0]), [1, 2], np.array([[1.0], [2.0]])], ids=repr)
def test_a_loss_and_a_gradient_are_a_pair(loss, gradient):
    out = np.empty(2)
    assert write_checked((loss, gradient), out) == 0.5
    assert out.tolist() == [1.0, 2.0]


def test_two_numbers_are_a_gradient_of_two_parameters():
    out = np.empty(2)
    assert write_checked((3.0, 4.0), out) is None
    assert out.tolist() == [3.0, 4.0]
    one = np.empty(1)
    assert write_checked((3.0, 4.0), one) == 3.0  # and of one parameter a loss and a gradient
    assert one.tolist() == [4.0]


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (np.array([1.0, 2.0]), "array([1., 2.])"),
        ("much", "'much'"),
        (None, "None"),
        (1j, "1j"),
        ([], "[]"),
        ({"loss": 1.0}, "{'loss': 1.0}"),
    ],
    ids=["a vector", "a text", "None", "imaginary", "nothing", "a dict"],
)
def test_what_is_no_loss_is_refused_in_one_line(loss, text):
    with pytest.raises(siag.SiagError) as refusal:
        write_checked((loss, np.zeros(3)), np.empty(3))
    said = f"gradient returned (loss, gradient) with the loss {text}"
    assert str(refusal.value) == f"{said}; it must be one real number, such as the mean over the batch"


def test_a_pair_whose_second_is_no_gradient_is_refused_as_before():
    for found in ((1.0, np.zeros(4)), (1.0, ["1", "2", "3"]), (1.0, np.full(3, 1j)), (1.0, None)):
        with pytest.raises(siag.SiagError, match="it must return 3 real numbers"):
            write_checked(found, np.empty(3))


def test_a_run_whose_loss_is_a_vector_says_so():
    def gradient(w, sample):
        return (w - sample) ** 2, w - sample

    with pytest.raises(siag.SiagError, match=r"worker 0 failed: gradient returned \(loss, gradient\) with the loss"):
        train([[1.0]], gradient=gradient, runtime=VIRTUAL)


# Whose it is


def begun_task(gradient, stream, method=None, d=2):
    task = FromStream(gradient, stream, method or SIAG(), np.zeros(d))
    task.begin(0, 1, d, 0)
    return task


def test_a_task_knows_the_loss_of_the_last_message_or_none():
    def sometimes(w, sample):
        return (sample, w - sample) if sample > 0 else w - sample

    task = begun_task(sometimes, iter([3.0, -1.0, 4.0, math.nan]))
    out, found = np.empty(2), [task.loss]
    for _ in range(3):
        task.compute(np.zeros(2), out)
        found.append(task.loss)
    assert np.array_equal(found, [math.nan, 3.0, math.nan, 4.0], equal_nan=True)


def test_of_several_local_steps_the_first_is_at_the_w_that_was_read():
    task, out = begun_task(jobs.priced, iter(map(float, range(1, 10))), FedAvg(steps=3, size=0.1)), np.empty(2)
    found = []
    for _ in range(3):
        task.compute(np.zeros(2), out)
        found.append(task.loss)
    assert found == [1.0, 4.0, 7.0]


def test_the_gradient_with_which_a_curvature_is_measured_has_no_loss():
    asked = []

    def gradient(w, sample):
        asked.append((w.tolist(), sample))
        return 10 * sample + w[0], w - sample

    task, out = begun_task(gradient, iter([1.0, 2.0, 3.0]), Automatic()), np.empty(4)
    task._next = 9  # the loss at w_0 is not asked for
    for k in range(2):
        task.compute(np.full(2, float(k)), out)
    assert asked == [([0.0, 0.0], 1.0), ([1.0, 1.0], 2.0), ([0.0, 0.0], 2.0)]  # the second sample at both points
    assert task.loss == 21.0
    assert out.tolist() == [-1.0, -1.0, -2.0, 1.0]


def test_the_losses_of_this_package_tell_theirs():
    loss, sample = siag.losses.Squared(), (np.array([1.0, 2.0]), 3.0)
    w = np.full(loss.dimension(2), 0.5)
    task, out = begun_task(loss, iter([sample]), d=w.size), np.empty(w.size)
    task.compute(w, out)
    assert task.loss == pytest.approx(loss.value(w, sample))
    assert np.allclose(out, loss.gradient(w, sample) if hasattr(loss, "gradient") else loss(w, sample))


def test_the_loss_at_the_first_w_is_told_of_the_first_samples_and_then_of_ever_fewer():
    def gradient(w, sample):
        return sample + float(w[0]), w - sample

    task, out, told = begun_task(gradient, iter(np.arange(1.0, 101.0)), SIAG()), np.empty(2), []
    for _ in range(100):
        task.compute(np.full(2, 9.0), out)
        if task.first is not UNKNOWN:
            assert task.loss == task.first + 9.0  # of the same sample
            told.append(task.first)
    assert told[:10] == [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0, 11.0, 14.0, 17.0]
    assert len(told) == 19


@pytest.mark.parametrize("wrong", [lambda w: 1 / 0 if w[0] == 0.0 else 1.0, lambda w: np.nan if w[0] == 0.0 else 1.0])
def test_a_loss_that_cannot_be_computed_at_the_first_w_is_not_told(wrong):
    task, out = begun_task(lambda w, sample: (wrong(w), w - sample), iter([1.0]), SIAG()), np.empty(2)
    task.compute(np.ones(2), out)
    assert task.loss == 1.0
    assert task.first is UNKNOWN
    assert out.tolist() == [0.0, 0.0]


def test_a_server_pairs_the_loss_at_the_first_w_with_that_of_the_report_that_follows():
    desk = Desk(begun())
    caller = desk.call()
    caller.join()
    for k, (first, loss) in enumerate([(1.0, 4.0), (3.0, math.nan), (math.nan, 7.0), (math.inf, 8.0), (2.0, 9.0)]):
        caller.give(wire.head(wire.ALIVE, loss=first))
        caller.give(wire.head(wire.REPORT, 8 * D, k, k, loss) + np.ones(D).tobytes())
    assert desk.session.first.told[0].tolist() == [2.0, 3.0, 5.0, 10.0, 58.0]


# Where it goes


def check_ledger(server, reports):
    """All losses of `priced` on samples 1, 2, 3, … have come."""
    line = server.ledger[0]
    assert (line[REPORTS], line[LOSSES]) == (reports, reports)
    assert line[LOSS] == line[FIRST_LOSS] == pytest.approx((reports + 1) / 2)
    assert line[NORM] > 0


def test_through_shared_memory_to_the_ledger():
    server = ParameterServer(SIAG(), Constant(0.1), np.zeros(2), 1, server=EveryArrivals(1), guard=Guard(jump=None))
    whole = Session(server, Curve(Until(), 10, None))
    Embedded(whole, [FromStream(jobs.priced, iter(map(float, range(1, 31))), SIAG(), np.zeros(2))]).run()
    check_ledger(server, 30)


def test_through_the_protocol_to_the_ledger():
    desk = Desk(begun())
    Pair(desk, stream=iter(map(float, range(1, 31))), gradient=jobs.priced).run()
    check_ledger(desk.server, 30)


@pytest.mark.parametrize("share", [False, True], ids=["tcp", "memory"])
def test_over_tcp_to_the_ledger(share):
    def make(description, w0):
        return FromStream(jobs.priced, iter(map(float, range(1, 31))), make_method(description), w0)

    with Served(["a", "b"], 30_000, share=share, guard=Guard(jump=None)) as served:
        with Working(("127.0.0.1", served.port), make, share=share, name="a") as worker:
            wait_until(lambda: worker.outcome is not None)
        check_ledger(served.server, 30)


@pytest.mark.parametrize("runtime", [None, VIRTUAL], ids=["processes", "simulated"])
def test_to_the_trace(tmp_path, runtime):
    path = tmp_path / "run.trace"
    streams = [[float(k) for k in range(1, 11)], [float(-k) for k in range(1, 11)]]
    train(streams, gradient=jobs.priced, trace=path, runtime=runtime, guard=Guard(jump=None))
    trace = Trace.read(path)
    reports = np.isnan(trace.factor)
    assert reports.sum() == 20
    expected = np.where(trace.worker == 0, 1.0 + trace.sample, -1.0 - trace.sample)
    assert np.array_equal(trace.loss[reports], expected[reports])
    assert np.isnan(trace.loss[~reports]).all()


def test_a_loss_that_is_not_told_is_none_in_the_trace(tmp_path):
    train([[1.0] * 5], trace=tmp_path / "run.trace", runtime=VIRTUAL)
    assert np.isnan(Trace.read(tmp_path / "run.trace").loss).all()


def test_a_loss_that_is_no_number_harms_nobody(tmp_path):
    streams = [[1.0, math.nan, 3.0, math.inf] * 5]
    path = tmp_path / "run.trace"
    run = train(streams, gradient=jobs.priced_of_ones, trace=path, runtime=VIRTUAL, progress=(notes := jobs.Notes()))
    assert run.samples[0, -1] == 20
    assert "failed" not in run.about
    assert np.isfinite(run.w).all()
    loss = Trace.read(path).loss[np.isnan(Trace.read(path).factor)]
    assert np.array_equal(loss, streams[0], equal_nan=True)
    assert not notes.heard("refused")


def test_losses_that_are_no_numbers_are_said_now_and_then():
    heard = []
    with heard_by(heard.append):
        task, out = begun_task(lambda w, x: (x, w), [math.nan] * 5), np.empty(2)
        for _ in range(5):
            task.compute(np.ones(2), out)
    assert heard == ["the loss of a sample is nan; it is left out of the mean loss, its gradient is not"]


def test_a_loss_is_on_disk_with_its_report(tmp_path):
    def session():
        store = Store(tmp_path / "state", {"n": 1}, durable=True)
        server = ParameterServer(SIAG(), Constant(0.1), np.zeros(2), 1)
        made = Session(server, Curve(Until(), 10, None), store=store, durable=True)
        made.recover(0.0)
        return made

    first = session()
    first.begin(0.0)
    first.join(0, 0.0)
    for k in range(4):
        first.push(0, first.server.version, np.ones(2), k, 0.1 * k, loss=math.nan if k == 2 else float(k))
    first.commit()
    first.store.close()  # nothing was saved since the beginning
    second = session()
    second.store.close()
    entries = [LOSSES, LOSS, FIRST_LOSS, NORM]
    assert first.server.ledger[0, entries].tolist() == [3.0, pytest.approx(4 / 3), pytest.approx(4 / 3), math.sqrt(2)]
    assert second.server.ledger[0, entries].tolist() == first.server.ledger[0, entries].tolist()
