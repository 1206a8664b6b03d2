"""When a live run ends, and the curve that is kept of it."""

from types import SimpleNamespace

import numpy as np
import pytest

import siag
from siag.foundations.errors import Missing
from siag.live.curve import Curve
from siag.live.until import until_of

SILENT = {"skips": 0, "seconds": float, "gauges": SimpleNamespace(progressive_loss=None)}  # workers tell no losses


def at(version, w=0.0, reports=None):
    """A server with these counts."""
    reports = version if reports is None else reports
    return SimpleNamespace(version=version, w=np.array([w]), reports=reports, **SILENT)


def curve_of(until, last, record=20, measure=lambda w: float(w[0])):
    """The curve of a run of so many iterations, each of one report and a tenth of a second."""
    curve = Curve(until, record, measure)
    for version in range(last + 1):
        if version >= curve.next:
            curve.note(at(version, 100.0 - version), version / 10)
    curve.note(at(last, 100.0 - last), last / 10)
    return curve.run(np.zeros(1), -1, {})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (100, siag.Until(iterations=100)),
        (np.int64(100), siag.Until(iterations=100)),
        (siag.Until(seconds=2), siag.Until(seconds=2.0)),
        (None, siag.Until()),
    ],
)
def test_until_is_a_number_of_iterations_or_an_until_or_for_streams_nothing(given, wanted):
    assert until_of(given, True) == wanted


@pytest.mark.parametrize("given", [0, -3, 2.5, True, "10", [10]])
def test_what_is_no_end_is_refused_under_the_name_the_user_wrote(given):
    with pytest.raises(siag.BadInput, match=r"^until = .*must be a number of iterations, at least 1, or an Until"):
        until_of(given, True)


@pytest.mark.parametrize("given", [None, siag.Until()])
def test_without_streams_that_end_some_end_must_be_given(given):
    with pytest.raises(Missing, match=r"^until is missing; give until=1000"):
        until_of(given, False)


@pytest.mark.parametrize("wrong", [{"iterations": 0}, {"reports": 1.5}, {"seconds": 0}, {"seconds": float("inf")}])
def test_until_refuses_what_is_no_end(wrong):
    with pytest.raises(siag.BadInput, match=next(iter(wrong))):
        siag.Until(**wrong)


def test_the_points_of_a_run_with_a_known_end_are_those_of_a_simulation():
    run = curve_of(siag.Until(iterations=1000), 1000, record=30)
    assert run.t.tolist() == siag.foundations.schedule.points(1000, 30).tolist()
    assert run.error[0].tolist() == [100.0 - t for t in run.t]


@pytest.mark.parametrize("record", [1, 2, 5, 50, 200])
def test_a_run_with_an_open_end_keeps_about_as_many_points_as_asked(record):
    for last in (0, 1, 7, 300, 30_000):
        t = curve_of(siag.Until(), last, record).t
        assert t[0] == 0
        assert t[-1] == last
        assert (np.diff(t) > 0).all()
        assert min(last + 1, record // 2, 50) <= len(t) <= 2 * record + 2


class Watched:
    """A curve that is looked at every tenth of a second, and how often it has measured w.

    Args:
        cost: seconds it takes to measure w.
    """

    def __init__(self, until=None, record=20, cost=0.0):
        self.measured, self.now, self.cost, self.fails = [], 0.0, cost, False
        self.curve = Curve(until or siag.Until(), record, self.measure, clock=lambda: self.now)
        self.curve.note(at(0), 0.0)

    def measure(self, w):
        self.now += self.cost
        self.measured.append(float(w[0]))
        if self.fails:
            raise ArithmeticError
        return float(w[0])

    def watch(self, seconds, rate=1000):
        """Let time pass, with `rate` versions a second; w is the version."""
        for tenth in range(1, 10 * seconds + 1):
            version = tenth * rate // 10
            server = at(version, float(version))
            if server.version >= self.curve.next:
                self.curve.note(server, tenth / 10)
            self.curve.refresh(server, tenth / 10)
            assert self.cost or version - self.curve.latest <= rate
        return self.curve.run(np.zeros(1), -1, {})


def test_on_an_open_end_the_loss_is_never_older_than_a_second_and_the_points_stay_as_few():
    watched = Watched()
    run = watched.watch(seconds=4000)
    assert 20 <= len(run.t) <= 42
    assert 4000 <= len(watched.measured) <= 4500
    assert run.time[0, -1] > 3700
    assert np.diff(run.time[0]).max() <= 300
    assert np.array_equal(run.error[0], run.t)


def test_for_days_the_points_stay_as_few_and_nothing_overflows():
    curve = Curve(siag.Until(), 1, None)
    curve.note(at(0), 0.0)
    for k in range(1, 60):
        curve.refresh(at(2**k), 2.0**k)
        assert len(curve.run(np.zeros(1), -1, {}).t) <= 4


def test_with_a_known_end_the_loss_is_fresh_too_and_the_points_are_those_of_a_simulation():
    watched = Watched(siag.Until(iterations=10**6), record=10)
    run = watched.watch(seconds=900)
    wanted = siag.foundations.schedule.points(10**6, 10)
    assert len(run.t) <= (wanted <= 900_000).sum()
    assert len(watched.measured) >= 900


def test_a_loss_that_takes_long_takes_a_hundredth_of_the_time():
    watched = Watched(cost=0.5)
    watched.watch(seconds=2000, rate=10)
    assert len(watched.measured) * 0.5 <= 0.01 * 2000 + 0.5 * (1 + np.log(20_000) / np.log(1.05))


def test_a_loss_that_fails_at_the_first_look_is_a_mistake_and_later_a_trouble():
    def never(w):
        raise ArithmeticError("no loss")

    with pytest.raises(ArithmeticError):
        Curve(siag.Until(), 10, never).note(at(0), 0.0)
    curve = Curve(siag.Until(), 10, lambda w: 1.0 / float(w[0] != 1.0))
    for version in range(3):
        curve.note(at(version, float(version)), float(version))
        assert (curve.trouble is None) == (version != 1)
    assert np.isnan(curve.run(np.zeros(1), -1, {}).error[0]).tolist() == [False, True, False]
    again = Curve(siag.Until(), 10, never)
    again.restore(curve.saved())
    again.note(at(3), 3.0)
    assert again.trouble.startswith("ArithmeticError: no loss")


def test_of_a_loss_that_fails_what_its_own_code_raised_is_told():
    def loss(w):
        try:
            return 1.0 / float(w[0] != 1.0)
        except ZeroDivisionError as error:
            raise siag.BadInput("loss", "shops:loss", "a function of w") from error

    curve = Curve(siag.Until(), 10, loss)
    curve.note(at(0), 0.0)
    curve.note(at(1, 1.0), 1.0)
    assert curve.trouble.startswith("ZeroDivisionError: ")


def test_a_loss_that_fails_after_long_takes_a_hundredth_of_the_time_too():
    watched = Watched(cost=0.5)
    watched.fails = True
    for tenth in range(1, 2000):
        watched.curve.refresh(at(tenth), tenth / 10)
    assert len(watched.measured) <= 6


def test_while_nothing_moves_nothing_is_measured():
    watched = Watched()
    for tenth in range(100):
        watched.curve.refresh(at(0), tenth / 10)
    assert len(watched.measured) == 1


def test_without_a_loss_the_error_is_not_a_number():
    run = curve_of(siag.Until(iterations=10), 10, measure=None)
    assert np.isnan(run.error).all()
    assert run.samples[0].tolist() == run.t.tolist()


def test_a_point_measured_again_takes_the_place_of_the_first():
    curve = Curve(siag.Until(), 10, None)
    curve.note(at(0), 0.0)
    curve.note(at(0, reports=3), 0.5)
    run = curve.run(np.zeros(1), -1, {})
    assert (run.t.tolist(), run.samples.tolist(), run.time.tolist()) == ([0], [[3]], [[0.5]])


@pytest.mark.parametrize("measure", [None, lambda w: float(w[0])])
@pytest.mark.parametrize("last", [0, 1, 50])
def test_any_curve_can_be_saved_loaded_and_drawn(tmp_path, measure, last):
    from matplotlib import pyplot

    run = curve_of(siag.Until(), last, measure=measure)
    run.save(tmp_path / "run.npz")
    assert np.array_equal(siag.load(tmp_path / "run.npz").t, run.t)
    ax = run.plot()
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)
