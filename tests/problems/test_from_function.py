"""Problems made from Python functions: the method compiled, the numbers as in plain Python, mistakes in one line."""

import ctypes
import gc
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import siag
from refusals import refused
from siag.activity import Clock, Cyclic, Exponential, Recorded, Uniform
from siag.foundations.callback import _callbacks, callback_of
from siag.foundations.rng import SAMPLES, fresh
from siag.methods import IAG, SGD, SIAG, FedAvg
from siag.problems import FromFunction, sample
from siag.steps import Constant, Harmonic

N, D = 3, 2
CENTERS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]])
OPTIMUM = CENTERS.mean(axis=0)


def noisy(i, w, rng):
    return w - CENTERS[i] + 0.1 * rng.standard_normal(D)


def slope(i, w):
    return w - CENTERS[i]


def height(w):
    return 0.5 * float(np.square(w - CENTERS).sum(axis=1).mean())


NOISY = FromFunction(noisy, n=N, d=D, optimum=OPTIMUM)
KNOWN = FromFunction(slope, n=N, d=D, exact=slope, objective=height)


def simulate(problem, method=None, activity=None, step=None, **more):
    given = {"iterations": 60, **more}
    return siag.simulate(problem, method or SIAG(), activity or Uniform(3), step or Harmonic(1.0, 10.0), **given)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("method", "activity", "step"),
    [(SIAG(), Uniform(3), Harmonic(1.0, 10.0)), (FedAvg(steps=3, size=0.1), Clock(Exponential(1.0)), Constant(0.5))],
    ids=["sIAG", "local steps on a clock"],
)
def test_the_method_is_compiled_and_the_numbers_are_those_of_plain_python_to_the_bit(method, activity, step):
    fast, slow = (simulate(NOISY, method, activity, step, repeats=2, compiled=how) for how in (True, False))
    assert fast.w.tolist() == slow.w.tolist()
    assert fast.error.tolist() == slow.error.tolist()
    assert fast.mean[-1] < 0.1 * fast.mean[0]


def test_it_is_the_recursion_written_down_in_numpy():
    who = [[0, 2], [1], [], [0, 1, 2], [2], [1]]
    run = simulate(FromFunction(slope, n=N, d=D), activity=Recorded(who), step=Constant(0.3), iterations=len(who))
    w, rows = np.zeros(D), np.zeros((N, D))
    for active in who:
        for i in active:
            rows[i] = w - CENTERS[i]
        w = w - 0.3 * rows.mean(axis=0)
    np.testing.assert_allclose(run.w[0], w, rtol=1e-12)


def test_repeats_and_threads_do_not_change_what_is_drawn():
    """Worker i's k-th sample is a function of (seed, repeat, i, k) alone."""
    one, two = (simulate(NOISY, repeats=3, threads=threads, seed=5) for threads in (1, 2))
    assert one.w.tolist() == two.w.tolist()
    assert len(np.unique(one.w[:, 0])) == 3
    assert simulate(NOISY, seed=6).w.tolist() != one.w[:1].tolist()


def test_the_generator_depends_on_the_sample_alone_and_differs_from_sample_to_sample():
    seen = []
    problem = FromFunction(lambda i, w, rng: seen.append(rng.random()) or w, n=2, d=1)
    oracle, out = problem.oracle(), np.empty(1)
    for seed in (1, 1, 2):
        rng = fresh(seed, 0, SAMPLES)
        for _ in range(2):  # the second as a local step would
            sample(oracle, rng, 0, np.zeros(1), out)
    assert seen[:2] == seen[2:4]
    assert len(set(seen)) == 4


@pytest.mark.parametrize("kind", [list, tuple, np.float32, lambda g: np.asarray(g, object), lambda g: g[:, None]])
def test_whatever_holds_d_numbers_is_a_gradient(kind):
    problem = FromFunction(lambda i, w: kind(slope(i, w).astype(np.float64)), n=N, d=D)
    np.testing.assert_allclose(simulate(problem).w, simulate(KNOWN).w, rtol=1e-6)


def test_exact_gradients_serve_the_methods_that_need_them_and_are_measured():
    fast, slow = (simulate(KNOWN, IAG(), step=Constant(0.2), compiled=how) for how in (True, False))
    assert fast.w.tolist() == slow.w.tolist()
    assert fast.measure == "‖∇F(wᵗ)‖²"
    np.testing.assert_allclose(fast.error[0, -1], np.square(fast.w[0] - OPTIMUM).sum(), rtol=1e-9)
    np.testing.assert_allclose(fast.objective[0, -1], height(fast.w[0]), rtol=1e-12)
    np.testing.assert_allclose(KNOWN.gradient(1, np.ones(D)), [-2.0, -3.0])


@pytest.mark.parametrize(
    ("given", "measure"),
    [({"optimum": OPTIMUM}, "‖wᵗ − w*‖²"), ({"objective": height}, "F(wᵗ)"), ({}, "")],
)
def test_a_run_is_judged_by_what_is_known(given, measure):
    assert simulate(FromFunction(slope, n=N, d=D, **given)).measure == measure


def test_runs_begin_where_the_problem_says():
    run = simulate(FromFunction(slope, n=N, d=D, optimum=OPTIMUM, start=OPTIMUM + 1.0))
    assert run.error[0, 0] == pytest.approx(2.0)


def test_what_is_not_known_is_refused_with_what_to_give():
    with pytest.raises(siag.Unsuitable, match=r"IAG needs exact gradients, .* use SIAG, or give it exact=…"):
        simulate(NOISY, IAG())
    for ask in (lambda: NOISY.gradient(0, np.zeros(D)), lambda: NOISY.full_gradient(np.zeros(D))):
        with pytest.raises(siag.Unsuitable, match=r"FromFunction does not know ∇F_i; give it exact=…"):
            ask()
    with pytest.raises(siag.Unsuitable, match=r"does not know F; give it objective=…"):
        NOISY.objective(np.zeros(D))


def spoil(i, w):
    w[0] = 1.0
    return w


def spoil_as_torch_does(i, w):
    """Write where w is, whether it is read-only or not."""
    ctypes.c_double.from_address(w.ctypes.data).value += 1.0
    return w


def fail(i, w):
    raise KeyError("no such worker")


def at_call(number, what):
    """A gradient that is one until its worker's given call."""
    calls = dict.fromkeys(range(N), 0)

    def gradient(i, w):
        calls[i] += 1
        return what(i, w) if calls[i] == number else slope(i, w)

    return gradient


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda i, w: np.zeros(3), r"gradient returned array\(\[0., 0., 0.\]\) \(ndarray\); it must return 2 real"),
        (lambda i, w: "steep", r"gradient returned 'steep' \(str\); it must return 2 real numbers"),
        (lambda i, w: None, r"gradient returned None; it must return 2 real numbers"),
        (lambda i, w: w + 1j, r"gradient returned array.*; it must return 2 real numbers"),
        (spoil, r"ValueError: .*read-only \(test_from_function.py, line \d+\); copy w before you change it"),
        (spoil_as_torch_does, "ValueError: it has changed w, which is read-only; copy w before you change it"),
        (fail, r"KeyError: 'no such worker' \(test_from_function.py, line \d+\)"),
    ],
    ids=["shape", "text", "nothing", "complex", "writes to w", "writes to w at its address", "raises"],
)
def test_a_mistake_in_the_middle_of_a_run_is_one_line_with_worker_and_call(what, words, compiled):
    activity = Recorded([[0], [1], [2], [1], [1], [0]])
    with pytest.raises(siag.SiagError, match=rf"^gradient of worker 1, call 2: {words}") as caught:
        simulate(FromFunction(at_call(2, what), n=N, d=D), activity=activity, iterations=6, compiled=compiled)
    assert caught.value.__cause__ is not None
    assert "\n" not in str(caught.value)


def test_nothing_is_asked_of_a_function_that_has_failed():
    asked = []

    def gradient(i, w):
        asked.append(i)
        raise ValueError

    with pytest.raises(siag.SiagError, match="gradient of worker"):
        simulate(FromFunction(gradient, n=N, d=D), iterations=1000)
    assert len(asked) == 1


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_gradient_that_is_no_number_is_a_divergence_whose_cause_is_told(number, compiled):
    problem = FromFunction(at_call(2, lambda i, w: np.array([0.0, number])), n=N, d=D, optimum=OPTIMUM)
    activity = Recorded([[0], [1], [2], [1], [1], [0]])
    words = (
        r"diverged, .* at iteration 3 .*; the gradient of worker 1, call 2, has NaN or infinity at a w whose largest "
        r"number is 0\.\d+; mend it, or use a smaller step if that w is far off already$"
    )
    with pytest.warns(siag.DivergenceWarning, match=words):
        run = simulate(problem, activity=activity, iterations=6, compiled=compiled)
    assert run.diverged.tolist() == [3]
    assert "worker 1, call 2" in repr(run)


def test_in_a_sweep_one_combination_fails_in_one_line_and_the_others_go_on():
    bad = FromFunction(at_call(3, fail), n=N, d=D)
    words = (
        r"FromFunction\(.*\) × SIAG\(.*\) × Uniform\(T=3\) × Constant\(eta=0.1\): gradient of worker \d, call \d: Key"
    )
    with pytest.raises(siag.simulation.Incomplete, match=words) as caught:
        siag.sweep([KNOWN, bad], SIAG(), Uniform(3), Constant(0.1), iterations=60, repeats=2)
    found = caught.value.sweep
    assert len(caught.value.failed) == 1
    assert [run.about["problem"] for run in found.runs] == [repr(KNOWN)]
    assert found.steps == ["Constant(eta=0.1)"]
    assert set(found.table()["problem"]) == {repr(KNOWN)}


def test_one_thread_at_a_time_is_in_the_function():
    """Meanwhile no other thread gets hold of what it takes to call it."""
    got = []

    def gradient(i, w):
        other = threading.Thread(target=lambda: got.append(problem.functions[2].acquire(blocking=False)))
        other.start()
        other.join()
        return slope(i, w)

    problem = FromFunction(gradient, n=N, d=D)
    simulate(problem, iterations=5)
    assert set(got) == {False}


def test_several_are_if_it_says_that_it_bears_that():
    both = threading.Barrier(2, timeout=60.0)  # seconds until it fails instead

    def gradient(i, w):
        both.wait()
        return slope(i, w)

    simulate(FromFunction(gradient, n=N, d=D, parallel=True), repeats=2, threads=2, iterations=5, activity=Cyclic())
    assert not both.broken


def test_ctrl_c_ends_a_run_and_its_thread():
    sent = []

    def gradient(i, w):
        if not sent:
            sent.append(i)
            os.kill(os.getpid(), signal.SIGINT)
        return slope(i, w)

    with pytest.raises(KeyboardInterrupt):
        simulate(FromFunction(gradient, n=N, d=D), iterations=10**12, record=2)
    for thread in threading.enumerate():
        if thread.name.startswith("siag-pool"):
            thread.join(30.0)
            assert not thread.is_alive()


def test_w_may_be_kept_it_is_read_only_and_of_an_array_that_stays_alive():
    kept = []

    def gradient(i, w):
        kept.append(w)
        return slope(i, w)

    run = simulate(FromFunction(gradient, n=N, d=D), iterations=50)
    gc.collect()
    assert not any(w.flags.writeable for w in kept)
    np.testing.assert_array_equal(kept[-1], run.w[0])  # the server's own w, after the last step


def test_nothing_is_left_of_a_problem_that_is_gone():
    gc.collect()
    before = len(_callbacks)
    oracle = NOISY.oracle()
    assert callback_of(oracle) is not None
    assert len(_callbacks) == before + 1
    del oracle
    assert len(_callbacks) == before


def test_it_can_be_sent_to_another_process():
    again = pickle.loads(pickle.dumps(NOISY))
    assert repr(again) == "FromFunction(noisy, n=3, d=2)"
    assert simulate(again).w.tolist() == simulate(NOISY).w.tolist()


def test_a_live_run_takes_it_with_the_same_samples():
    """Virtual time: every worker's k-th sample is the simulator's, so the replay of the trace is the run."""
    run = siag.train(problem=NOISY, method=SGD(), step=Constant(0.1), until=200, runtime=siag.Simulated(), seed=3)
    assert run.measure == "‖wᵗ − w*‖²"
    assert run.error[0, -1] < 0.5 * run.error[0, 0]
    known = siag.train(problem=KNOWN, method=SIAG(), step=Constant(0.1), until=300, runtime=siag.Simulated())
    assert known.measure == "‖∇F(wᵗ)‖²"
    assert known.error[0, -1] == pytest.approx(np.square(known.w[0] - OPTIMUM).sum(), rel=1e-9)
    nothing = siag.train(problem=FromFunction(slope, n=N, d=D), until=50, runtime=siag.Simulated())
    assert nothing.measure == ""


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        ("gradient", {"gradient": 3}),
        ("gradient", {"gradient": lambda w: w}),
        ("gradient", {"gradient": lambda i, w, rng, more: w}),
        ("exact", {"exact": "slope"}),
        ("exact", {"exact": lambda i, w, rng: w}),
        ("objective", {"objective": 1.0}),
        ("n", {"n": 0}),
        ("d", {"d": 1.5}),
        ("optimum", {"optimum": np.zeros(3)}),
        ("start", {"start": [np.nan, 0.0]}),
        ("parallel", {"parallel": 1}),
    ],
)
def test_a_bad_argument_is_refused_by_name(parameter, given):
    with refused(parameter):
        FromFunction(**{"gradient": slope, "n": N, "d": D} | given)


def test_arguments_with_defaults_are_left_alone():
    problem = FromFunction(lambda i, w, centers=CENTERS: w - centers[i], n=N, d=D)
    assert simulate(problem).w.tolist() == simulate(KNOWN).w.tolist()


def test_an_objective_that_is_no_number_is_told():
    with pytest.raises(siag.SiagError, match=r"objective returned array.*; it must return a number"):
        simulate(FromFunction(slope, n=N, d=D, objective=lambda w: w))
