"""Warnings while a run goes on: each when it should, none on runs that go well."""

import itertools
import re
import warnings

import numpy as np
import pytest

import siag
from siag.live.first_loss import FirstLoss
from siag.live.health import BUSY, KNOWN, LOOKS, OFTEN, PATIENCE, RARE, Health, Kind
from siag.losses import Logistic
from siag.methods import SIAG, Automatic, Weighted
from siag.server import ParameterServer
from siag.server.ledger import EARLY, WINDOW
from siag.steps import Constant, Harmonic


def server_of(n=3, d=2, method=None, eta=0.1):
    server = ParameterServer(method or SIAG(), Constant(eta), np.zeros(d), n)
    for row in range(n):
        server.join(row, 0.0)
    return server


def report(server, row, message, now=0.0, loss=float("nan"), stamp=None):
    sample = server.members[row].samples
    server.push(row, server.version if stamp is None else stamp, np.array(message, float), sample, now, loss=loss)


def kinds(health):
    return [each.kind for each in health.warned]


def test_gradients_that_are_always_zero_are_told_once_with_the_workers_name():
    server = server_of()
    health = Health(server)
    for k in range(KNOWN):
        report(server, 0, [0.0, 0.0])
        report(server, 1, [1.0, -1.0])
        assert (health.look(0.0) == []) == (k + 1 < KNOWN)
    assert health.look(0.0) == []
    assert [each[:2] for each in health.warned] == [(Kind.ZERO, "0")]
    assert "all 20 gradients of worker 0 are zero" in health.texts[0]


@pytest.mark.parametrize(("joined", "usual"), [(False, BUSY), (True, RARE)])
def test_a_worker_that_never_reports_is_missed_once_the_others_have_often(joined, usual):
    server = ParameterServer(Automatic(), Constant(1.0), np.zeros(1), ["a", "b"])
    server.join("a", 0.0)
    if joined:
        server.join("b", 0.0)
    health = Health(server)
    server.members[0].reports, server.members[0].largest = 2 * usual, 1.0
    server.reports = 2 * usual - 1
    server.begin(0.0)
    assert health.look(PATIENCE) == []
    server.reports += 1
    assert health.look(PATIENCE - 1) == []
    (text,) = health.look(PATIENCE)
    assert text.startswith("worker b has reported nothing in 60 seconds: the model does not know its data")


def test_a_loss_above_where_it_began_is_told_and_one_by_chance_is_not():
    rng = np.random.default_rng(0)
    for level, wanted in ((1.0, []), (1.05, []), (2.0, [Kind.LOSS])):
        server = server_of(n=2)
        health = Health(server)
        for k in range(400):
            for row in range(2):
                report(server, row, [1.0, 0.0], loss=(1.0 if k < 100 else level) + 0.5 * rng.normal())
            health.look(0.0)
        assert kinds(health) == wanted, level


def test_a_loss_above_that_of_the_very_first_samples_is_told_where_many_tell_it():
    """With steps far too large it is high after a few reports, so that the mean of the first 100 is of no use."""
    rng = np.random.default_rng(0)
    for level, n, wanted in ((1.0, 8, []), (5.0, 8, [Kind.LOSS]), (5.0, 7, [])):
        server = server_of(n=n)
        health = Health(server)
        for k in range(KNOWN):
            for row in range(n):
                report(server, row, [1.0, 0.0], loss=(1.0 if k < 1 else level) + 0.3 * rng.normal())
            health.look(0.0)
        assert kinds(health) == wanted, (level, n)


def first_of(*means, samples=20, more=9.0):
    """As told by workers whose samples' losses at w_0 are one of two numbers, and larger at the w of then."""
    first = FirstLoss(len(means))
    for row, mean in enumerate(means):
        for k in range(samples):
            first.add(row, mean + (1.4 if k % 2 else -1.4), more * mean)
    return first


LEVELS = {
    "as it was": (lambda k, rng: 1.1 * rng.exponential(), []),
    "high from the second sample on": (lambda k, rng: 4.0 * rng.exponential(), [Kind.LOSS]),
    "ever higher, and ever more uneven": (lambda k, rng: np.exp(0.05 * k + 1.5 * rng.normal()), [Kind.LOSS]),
    "one sample unlike all others": (lambda k, rng: 1e5 if k == 395 else rng.exponential(), []),
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_loss_above_that_at_the_start_is_told_of_few_workers_too_where_that_is_known(name):
    """Five standard errors of exponential losses; one sample in 400 is no reason, however large its loss."""
    losses, wanted = LEVELS[name]
    rng = np.random.default_rng(0)
    server = server_of(n=2)
    health = Health(server, first_of(1.0, 1.2))
    for k in range(400):
        for row in range(2):
            report(server, row, [1.0, 0.0], loss=1.1 if k < 1 else losses(k, rng))
        health.look(0.0, regular=False)
    assert kinds(health) == wanted


def logistic(w, sample):
    x, y = sample
    return np.logaddexp(0.0, -y * (x @ w)), -y * x / (1.0 + np.exp(y * (x @ w)))


def squares(w, sample):
    x, y = sample
    return 0.5 * (x @ w - 3.0 * y) ** 2, (x @ w - 3.0 * y) * x


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("gradient", "step", "wanted"),
    [(logistic, 0.05, 0), (logistic, 5.0, 1), (squares, 0.01, 0), (squares, 0.3, 1), (squares, None, 0)],
)
def test_a_step_that_spoils_w_at_once_is_told_of_two_workers_with_a_loss_of_ones_own(gradient, step, wanted):
    """All but the first report of each are of a w that is worse: only the loss at w_0 of more samples tells."""
    rng = np.random.default_rng(0)
    streams = []
    for _ in range(2):
        x = rng.normal(size=(300, 4))
        streams.append((x, np.where(x @ [1.0, -1.0, 2.0, 0.0] + rng.logistic(size=300) > 0.0, 1.0, -1.0)))
    given = {"step": None if step is None else Constant(step), "until": 3000, "runtime": siag.Simulated(seed=1)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = siag.train(gradient, streams, np.zeros(4), progress=False, **given)
    assert len(run.warnings) == len(caught) == wanted
    assert all("above the" in text for text in run.warnings)


def test_a_loss_that_rises_for_one_worker_because_the_other_one_counts_too_is_not_told():
    """The fast one begins near its own optimum; the slow one has told few losses yet, and moves w away from there."""
    rng = np.random.default_rng(0)
    streams = [list(center + 0.3 * rng.normal(size=200)) for center in (0.0, 10.0)]
    runtime = siag.Simulated(seed=1, times=siag.activity.Exponential(1.0), slowness=[1.0, 40.0])
    step = Constant(0.01)
    run = siag.train(
        lambda w, x: (0.5 * (w[0] - x) ** 2, w - x), streams, np.zeros(1), step=step, until=400, runtime=runtime
    )
    slow, fast = sorted(worker["reports"] for worker in run.workers)
    assert slow < KNOWN < fast
    assert run.w[0, 0] > 1.0
    assert not [text for text in run.warnings if "above the" in text]


SCALES = {
    "alike": (lambda x: x, lambda x: x, []),
    "one column 100 times as large": (lambda x: x * [100.0, 1.0, 1.0], lambda x: x, ["column 1 is "]),
    "far from 0": (lambda x: 10.0 * x + 300.0, lambda x: x, ["the mean of column "]),
    "one 100 times as large, scaled by the gradient": (lambda x: x * [100.0, 1, 1], lambda x: x / [100.0, 1, 1], []),
    "far from 0, centred by the gradient": (lambda x: x + 30.0, lambda x: x - 30.0, []),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SCALES)
def test_columns_are_doubtful_for_a_gradient_of_ones_own_if_it_takes_them_as_they_are(name):
    given, taken, wanted = SCALES[name]
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(200, 3)) for _ in range(2)]
    streams = [(given(x), x @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=200)) for x in tables]

    def gradient(w, sample):
        x = np.append(taken(sample[0]), 1.0)
        return (x @ w - sample[1]) * x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = siag.train(gradient, streams, np.zeros(4), until=2000, runtime=siag.Simulated(seed=1), progress=False)
    assert [text[: len(start)] for text, start in zip(run.warnings, wanted, strict=True)] == wanted


def test_a_run_that_stays_where_it_began_is_not_called_worse():
    """Where w is w_0 the same samples have the same loss, however rarely one is very large."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        server, first = server_of(n=2), FirstLoss(2)
        health = Health(server, first)
        for k in range(400):
            for row, loss in enumerate(np.exp(1.5 * rng.normal(size=2))):
                report(server, row, [0.1, 0.0], loss=loss)
                if k < 20 or k % 20 == 0:
                    first.add(row, loss, loss)
            if k % 10 == 0:
                health.look(0.0, regular=False)
        assert kinds(health) == []


def test_a_loss_that_has_grown_tenfold_is_told_though_it_differs_much_from_sample_to_sample():
    rng = np.random.default_rng(0)
    server = server_of(n=2)
    health = Health(server)
    for k in range(400):
        for row in range(2):
            report(server, row, [1.0, 0.0], loss=np.exp(0.02 * k + 1.5 * rng.normal()))
        health.look(0.0, regular=False)
    assert kinds(health) == [Kind.LOSS]


@pytest.mark.few(1)
@pytest.mark.parametrize(("step", "wanted"), [(0.01, 0), (1.0, 1), (3.0, 1)])
def test_a_step_too_large_for_a_ready_made_loss_is_told_of_four_workers(step, wanted):
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(200, 3)) for _ in range(4)]
    streams = [(X, X @ [1.0, -1.0, 0.5] + rng.logistic(size=200) > 0.0) for X in tables]
    given = {"step": Constant(step), "until": 3000, "runtime": siag.Simulated(seed=1), "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", siag.TrainingWarning)
        run = siag.train(Logistic(), streams, np.zeros(4), **given)
    assert len(run.warnings) == wanted
    assert all("above the 0.6931 it began with" in text for text in run.warnings)


@pytest.mark.parametrize(("falls", "wanted"), [(False, [Kind.STEP]), (True, [])])
def test_gradients_that_grow_look_after_look_are_told_unless_the_loss_falls(falls, wanted):
    server = server_of(n=2)
    health = Health(server)
    for k in range(2 * KNOWN):
        for row in range(2):
            report(server, row, [1.0 if k < KNOWN else 100.0, 0.0], loss=10.0 - 0.01 * k if falls else float("nan"))
        health.look(0.0)
    assert kinds(health) == wanted
    assert all("gradients are 1e+02 times as long as the first" in text for text in health.texts)


def test_gradients_that_are_long_now_and_then_are_not_told():
    server = server_of(n=2)
    health = Health(server)
    for k in range(300):
        for row in range(2):
            report(server, row, [100.0 if k % 3 == 2 else 1.0, 0.0])
        health.look(0.0)
    assert kinds(health) == []


def test_a_worker_that_was_missed_and_reports_after_all_is_not_in_the_list():
    server = ParameterServer(SIAG(), Constant(0.1), np.zeros(1), ["a", "b"])
    server.join("a", 0.0)
    health = Health(server)
    server.begin(0.0)
    for _ in range(2 * BUSY):
        report(server, 0, [1.0])
    assert len(health.look(PATIENCE)) == len(health.texts) == 1
    server.join("b", PATIENCE)
    report(server, 1, [1.0], now=PATIENCE)
    assert health.look(PATIENCE) == []
    assert health.texts == ()


def test_a_worker_that_was_kept_waiting_once_is_not_slow():
    server = server_of(n=2, d=1, eta=1.0)
    health = Health(server)
    for k in range(200):
        report(server, k % 2, [1.0 if k % 2 else -1.0])
    for k in range(60):
        report(server, 0, [-1.0 if k % 2 else -0.999])
        health.look(0.0)
    assert kinds(health) == []


def test_steps_too_large_for_the_ages_are_told_before_w_overflows():
    """On F(w) = ½‖w‖² with gradients 20 versions old and a step of 0.5, w swings further and further."""
    server = server_of(n=1, d=1, eta=0.5)
    server.state.w[:] = 1.0
    health, seen = Health(server), [1.0] * 20
    for _ in range(600):
        seen.append(float(server.state.w[0]))
        report(server, 0, [seen[-21]])
        server.members[0].stamp = server.version - 20
        health.look(0.0)
        if Kind.STEP in kinds(health):
            break
    assert Kind.STEP in kinds(health)
    assert abs(server.state.w[0]) < 1e12


def test_one_old_gradient_that_moves_w_more_than_all_else_is_told():
    server = server_of(n=2, d=1, eta=1.0)
    health = Health(server)
    for _ in range(10):
        report(server, 1, [1.0])
    for k in range(200):
        report(server, 0, [-1.0 if k % 2 else -0.999])  # what 0 wants cancels what 1 once wanted
        health.look(0.0)
    assert kinds(health) == [Kind.OLD]
    assert re.match(r"one gradient of worker 1, \d+ versions old, moves w by", health.texts[0])


SOUND = {
    "automatic": ({}, {}),
    "a small step": ({"method": SIAG(), "step": Constant(0.01)}, {}),
    "a falling step": ({"step": Harmonic(2.0, 100.0)}, {}),
    "unequal workers": ({}, {"slowness": [1.0, 30.0]}),
    "a start at the optimum": ({"w0": np.full(2, 2.0)}, {}),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SOUND)
def test_runs_that_go_well_have_no_warnings(name):
    chosen, times = SOUND[name]
    rng = np.random.default_rng(1)
    streams = [[mean + rng.normal(size=2) for _ in range(500)] for mean in (1.0, 3.0)]
    given = {"w0": np.zeros(2), "until": 5000} | chosen
    runtime = siag.Simulated(times=siag.activity.Exponential(1.0), seed=1, **times)
    run = siag.train(lambda w, x: (float(((w - x) ** 2).sum()), w - x), streams, runtime=runtime, **given)
    assert run.warnings == []


def test_warnings_reach_the_run_and_python_and_outlive_a_save(tmp_path):
    streams = [itertools.repeat(1.0), itertools.repeat(3.0)]
    with pytest.warns(siag.TrainingWarning, match="gradients of worker [01] are zero"):
        run = siag.train(lambda w, x: 0.0 * w, streams, np.zeros(2), until=100, runtime=siag.Simulated())
    assert len(run.warnings) == 2
    run.save(tmp_path / "run.npz")
    assert siag.load(tmp_path / "run.npz").warnings == run.warnings


def goes(server, directions, reports=600, length=lambda k: 1.0, losses=lambda k: float("nan")):
    """Two workers whose gradients have these directions and lengths; what is said at last."""
    health = Health(server)
    for k in range(reports):
        for row in range(2):
            report(server, row, length(k) * np.asarray(directions(k)), loss=losses(k))
        health.look(0.0, regular=False)
    health.look(0.0, last=True)
    return kinds(health)


def test_w_that_goes_straight_on_along_gradients_as_long_as_the_first_is_told_at_the_end():
    """As with gradients of the wrong sign and a loss whose gradients are bounded."""
    assert goes(server_of(n=2), lambda k: [1.0, 2.0]) == [Kind.ASTRAY]
    assert goes(server_of(n=2), lambda k: [1.0, 2.0], length=lambda k: 1.0 / (1.0 + k)) == []
    assert goes(server_of(n=2), lambda k: [np.cos(k / 99), np.sin(k / 99)]) == []
    assert goes(server_of(n=2), lambda k: [1.0, 2.0], losses=lambda k: 700.0 - k) == []
    assert goes(server_of(n=2), lambda k: [1.0, 2.0], reports=5) == []


def test_a_run_that_has_recovered_ends_without_the_warning():
    server = server_of(n=2)
    health = Health(server)
    for length, wanted in ((1.0, []), (100.0, [Kind.STEP]), (0.5, [])):
        for _ in range(5):
            for row in range(2):
                report(server, row, [length, 0.0])
            health.look(0.0)
        assert kinds(health) == wanted
    server = server_of(n=8)
    health = Health(server)
    for level, wanted in ((1.0, []), (9.0, [Kind.LOSS]), (0.1, [])):
        for _ in range(5 * WINDOW):
            for row in range(8):
                report(server, row, [1.0, 0.0], loss=level)
            health.look(0.0, regular=False)
        assert kinds(health) == wanted


def test_the_first_gradient_of_a_worker_is_too_old_only_after_very_long():
    for seconds, wanted in ((PATIENCE, [Kind.OLD]), (1.0, [])):
        server = server_of(n=2, d=1, eta=0.1)
        server.begin(0.0)
        health = Health(server)
        report(server, 1, [1.0])
        for k in range(2 * BUSY + 10):
            report(server, 0, [-1.0 if k % 2 else -0.999])
            health.look(seconds, regular=False)
            assert server.version >= 2 * BUSY or kinds(health) == []
        assert kinds(health) == wanted


def test_of_many_workers_the_first_few_are_named():
    server = server_of(n=10)
    health = Health(server)
    for _ in range(KNOWN):
        for row in range(10):
            report(server, row, [0.0, 0.0])
    health.look(0.0)
    assert [each.worker for each in health.warned] == ["0", "1", "2", "others"]
    assert health.texts[-1] == "all gradients of 7 other workers are zero, too"


def test_of_many_parameters_every_so_manieth_is_looked_at():
    server = server_of(n=1, d=25_000)
    health, message = Health(server), np.ones(25_000)
    message[6] = 1e6
    for _ in range(OFTEN + LOOKS):
        report(server, 0, message)
        health.look(0.0)
    assert kinds(health) == [Kind.SCALE]
    assert "derivatives by parameter 6 are 1e+06 times" in health.texts[0]


def mean_of(streams, seed, **given):
    runtime = siag.Simulated(seed=seed, times=siag.activity.Exponential(1.0))
    return siag.train(lambda w, x: w - x, streams, np.zeros(1), runtime=runtime, progress=False, **given)


@pytest.mark.thorough
@pytest.mark.parametrize("near", [0.0, 0.01])
def test_a_worker_that_begins_at_its_own_optimum_is_no_reason_for_a_warning(near):
    """Its gradients become many times as long as the first while w goes where it should."""
    for seed in range(6):
        run = mean_of([[near] * 100, [3.0] * 100], seed)
        assert run.warnings == []
        assert run.w[0, 0] == pytest.approx((near + 3.0) / 2, abs=0.05)


def test_moves_that_become_shorter_are_an_approach_however_straight():
    server = server_of(n=1, d=1, eta=0.01)
    health = Health(server)
    for _ in range(2000):
        report(server, 0, [1.0 if server.version < 200 else 0.6 * 200 / server.version])
        health.look(0.0, regular=False)
    assert health.look(0.0, last=True) == []


def test_gradients_of_which_many_are_zero_from_the_start_are_told():
    """As where a formula for labels −1 and 1 meets 0: these samples teach nothing."""
    server = server_of(n=2)
    health = Health(server)
    for k in range(EARLY):
        for row in range(2):
            report(server, row, [0.0, 0.0] if k % 3 == row else [1.0, -1.0])
    assert health.look(0.0) == [
        "7 of the first 20 gradients are zero: these samples teach the model nothing; "
        "check that labels are those that the gradient is for, as −1 and 1, not 0, or make the step smaller"
    ]
    for _ in range(100):
        report(server, 0, [0.0, 0.0])  # as of a hinge, later
    assert len(health.warned) == 1


def test_a_loss_that_falls_without_end_is_no_excuse_for_going_away():
    server = server_of(n=1, eta=0.1)
    health = Health(server)
    for k in range(4 * BUSY * OFTEN):
        report(server, 0, [1.0, 0.0], loss=1.0 - 0.1 * k)
        health.look(0.0, regular=False)
    endless, astray = health.look(0.0, last=True)
    assert endless.startswith("the loss falls without end, from 1 to -3")
    assert "w goes straight away" in astray


def test_zeros_of_steps_that_are_too_large_are_not_taken_for_wrong_labels():
    """As where a sigmoid is saturated: what is said is that the loss has risen."""
    server = server_of(n=2)
    health = Health(server, first_of(1.0, 1.2))
    for k in range(KNOWN):
        for row in range(2):
            report(server, row, [0.0, 0.0] if k % 3 == row else [1.0, -1.0], loss=1.0 if k < 1 else 50.0)
        health.look(0.0, regular=False)
    assert kinds(health) == [Kind.LOSS]


@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "until"), [(0, 10_000), (1, 3000), (3, 3000)])
def test_a_gradient_for_labels_0_and_1_on_labels_1_and_minus_1_is_told_though_many_are_zero(seed, until):
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(m, 3)) for m in (400, 60)]
    streams = [(X, np.where(X @ [1.0, -1.0, 0.5] + rng.logistic(size=len(X)) > 0.0, 1, -1)) for X in tables]

    def gradient(w, sample):
        x, y = sample
        return (0.5 * (1.0 + np.tanh(0.5 * (x @ w))) - y) * x

    given = {"until": until, "seed": seed, "runtime": siag.Simulated(seed=seed), "progress": False}
    with pytest.warns(siag.TrainingWarning, match="w goes straight away from where it began"):
        siag.train(gradient, streams, np.zeros(3), **given)


def test_a_worker_that_has_not_reported_by_the_end_is_told_however_short_the_run_was():
    server = ParameterServer(SIAG(), Constant(0.1), np.zeros(1), ["a", "b", "c"])
    server.begin(0.0)
    for name in ("a", "b"):
        server.join(name, 0.0)
    health = Health(server)
    for _ in range(3 * OFTEN):
        report(server, 0, [1.0])
    assert health.look(2.0) == []
    assert [text.partition(":")[0] for text in health.look(2.0, last=True)] == [
        "worker b has reported nothing in 2 seconds",
        "worker c has reported nothing in 2 seconds",
    ]


# Weights


@pytest.mark.parametrize(("weights", "others", "kind"), [([1, 1000], -1000.0, [Kind.OLD]), ([1000, 1], 1.0, [])])
def test_an_old_gradient_moves_w_as_far_as_its_worker_counts(weights, others, kind):
    """Worker 0 cancels what 1 once wanted, or swings to and fro, beside which 1 counts for nothing."""
    server = server_of(n=2, d=1, method=Weighted(SIAG(), weights), eta=1.0)
    health = Health(server)
    for _ in range(10):
        report(server, 1, [1.0])
    for k in range(200):
        report(server, 0, [others * (1.0 if k % 2 else -1.0 if others > 0.0 else 0.999)])
        health.look(0.0)
    assert kinds(health) == kind


def test_gradients_grow_as_far_as_their_workers_count():
    for weights, growth in (([1.0, 1.0], 3.0), ([3.0, 1.0], 2.0), ([0.0, 1.0], 5.0)):
        server = server_of(n=2, method=Weighted(SIAG(), weights), eta=0.1)
        for row, factor in ((0, 1.0), (1, 5.0)):
            report(server, row, [1.0, 0.0])
            report(server, row, [1.0, 0.0])
            report(server, row, [factor, 0.0])
        assert Health(server)._growth(server.members) == pytest.approx(growth)


@pytest.mark.parametrize(("weights", "kind"), [([1.0, 1.0], [Kind.LOSS]), ([9.0, 1.0], []), ([1.0, 9.0], [Kind.LOSS])])
def test_the_loss_that_may_not_rise_is_that_of_the_weighted_objective(weights, kind):
    """One gets better from 2 to 1, the other one worse from 1 to 3."""
    server = server_of(n=2, method=Weighted(SIAG(), weights), eta=0.001)
    health = Health(server)
    for k in range(4 * WINDOW):
        late = k > WINDOW
        report(server, 0, [0.1, 0.0], loss=1.0 if late else 2.0)
        report(server, 1, [0.1, 0.0], loss=3.0 if late else 1.0)
    health.look(0.0)
    assert kinds(health) == kind


def test_automatic_steps_with_weights_are_told_what_to_do_without_a_step_of_their_own():
    assert "make the step" not in Health(server_of(method=Weighted(Automatic(), [1.0, 2.0, 3.0])))._remedy()
    assert "make the step" in Health(server_of(method=Weighted(SIAG(), [1.0, 2.0, 3.0])))._remedy()


def test_uneven_columns_are_seen_through_weights():
    server = server_of(d=3, method=Weighted(SIAG(), [1.0, 2.0, 3.0]), eta=1e-9)
    health = Health(server)
    for _ in range(LOOKS + 1):
        for _ in range(OFTEN):
            for row in range(3):
                report(server, row, [1e5, 1.0, 1.0])
        health.look(0.0)
    assert kinds(health) == [Kind.SCALE]
