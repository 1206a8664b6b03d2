"""A run that goes on with another step than it began with: said, and replayed rightly."""

import shutil

import numpy as np
import pytest
from jobs import Notes

import siag
from siag.live.assembly import Assembly
from siag.live.spec import Spec
from siag.steps import Constant, DelayAdaptive, Harmonic, Switched
from siag.storage.generations import read_header

pytestmark = pytest.mark.thorough

PROBLEM = siag.problems.LeastSquares.random(n=3, d=4, p=2, noise=0.1, seed=1)


@pytest.fixture
def go_on(tmp_path):
    def run(step, until, **given):
        places = {"folder": tmp_path / "state", "trace": tmp_path / "run.trace"}
        runtime = siag.Simulated(seed=until)
        return siag.train(problem=PROBLEM, step=step, until=until, runtime=runtime, **places, **given)

    return run


def test_the_trace_of_a_run_that_went_on_with_another_step_replays_to_the_bit(go_on, tmp_path):
    go_on(Constant(0.2), 60)
    notes = Notes()
    go_on(Constant(0.01), 100, progress=notes)
    assert notes.heard("the step is Constant(eta=0.01) from version 60 on")
    run = go_on(Harmonic(1, 100), 150)
    step = Switched(Switched(Constant(0.2), 60, Constant(0.01)), 100, Harmonic(1, 100))
    assert run.about["step"] == repr(step)
    again = siag.replay(tmp_path / "run.trace")
    assert again.about["step"] == repr(step)
    assert np.array_equal(again.w, run.w)
    assert not np.array_equal(siag.replay(tmp_path / "run.trace", step=Constant(0.2)).w, run.w)


def test_the_same_step_is_no_other(go_on):
    go_on(Constant(0.2), 60)
    assert go_on(Constant(0.2), 100).about["step"] == "Constant(eta=0.2)"


def test_a_step_that_took_no_step_is_not_kept(go_on):
    go_on(Constant(0.2), 60)
    go_on(Constant(0.3), 60)
    assert go_on(Constant(0.1), 80).about["step"] == repr(Switched(Constant(0.2), 60, Constant(0.1)))


WAYS = [
    ({"step": Constant(0.2)}, {}),  # to automatic steps
    ({}, {"step": Harmonic(1, 100)}),  # and from them
    ({"step": DelayAdaptive(gamma=0.1)}, {"step": Constant(0.1)}),
    ({"step": Constant(0.1)}, {"step": DelayAdaptive(gamma=0.1)}),
    ({"step": DelayAdaptive(gamma=0.1)}, {"step": DelayAdaptive(gamma=0.01)}),
]


@pytest.mark.thorough
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("first", "second"), WAYS)
def test_another_way_to_choose_steps_begins_from_w_with_samples_not_used_yet(first, second, durable, tmp_path):
    def go_on(until, given, notes=None):
        trace = tmp_path / f"{until}.trace"
        places = {"folder": tmp_path / "state", "trace": trace, "durable": durable, "progress": notes}
        return siag.train(problem=PROBLEM, until=until, runtime=siag.Simulated(seed=until), **places, **given), trace

    old, old_trace = go_on(60, first)
    notes = Notes()
    run, trace = go_on(100, second, notes)
    assert notes.heard("begins from w of ")
    assert run.about["from"] == f"{old.about['method']} with {old.about['step']}, 60 reports"
    assert run.about["w0"] == old.w[0].tolist()
    assert run.t[-1] == 100
    for worker in range(3):
        used = [[line[3] for line in lines(path) if line[1] == worker] for path in (old_trace, trace)]
        assert used[1] == list(range(max(used[0]) + 1, max(used[0]) + 1 + len(used[1])))
    again = siag.replay(trace)
    assert np.array_equal(again.w, run.w)
    given = {"folder": tmp_path / "state", "trace": trace, "durable": durable, **second}
    further = siag.train(problem=PROBLEM, until=150, runtime=siag.Simulated(), **given)
    assert further.about["before"] == 100
    assert {key: further.about[key] for key in ("from", "w0")} == {key: run.about[key] for key in ("from", "w0")}
    assert np.array_equal(siag.replay(trace).w, further.w)


def lines(path):
    """The reports of a trace: version, worker, stamp, sample."""
    trace = siag.activity.Trace.parse(str(path), path.read_bytes())
    columns = (trace.version, trace.worker, trace.stamp, trace.sample)
    return [*zip(*(column[np.isnan(trace.factor)].tolist() for column in columns), strict=True)]


def test_a_trace_is_of_one_run(go_on):
    go_on(Constant(0.2), 60)
    with pytest.raises(siag.SiagError, match="must be a file that does not exist yet"):
        go_on(None, 100)


def test_another_method_is_refused_as_before(go_on):
    go_on(Constant(0.2), 60)
    with pytest.raises(siag.SiagError, match="method is"):
        go_on(Constant(0.2), 100, method=siag.methods.IAG())
    with pytest.raises(siag.SiagError, match="seed is"):
        go_on(None, 100, seed=1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (siag.methods.SIAG(average=5), siag.methods.SIAG()),
        (siag.methods.Automatic(), siag.methods.Automatic(start=1e-3)),
    ],
)
def test_other_ways_to_average_or_to_start_are_other_methods(first, second, go_on):
    step = None if isinstance(first, siag.methods.Automatic) else Constant(0.1)
    go_on(step, 60, method=first)
    with pytest.raises(siag.SiagError, match="method is"):
        go_on(step, 100, method=second)


def toward(w, x):
    return w - x


def test_epochs_are_counted_from_there_and_those_of_a_run_that_has_ended_are_known(tmp_path):
    def go_on(epochs=3, **given):
        streams = [[1.0] * 20, [3.0] * 20]
        given = {"folder": tmp_path / "state", "until": siag.Until(epochs=epochs), "runtime": siag.Simulated(), **given}
        return siag.train(toward, streams, np.zeros(1), **given)

    first = go_on(step=Constant(0.1))
    assert first.samples[0, -1] >= 120
    for _ in range(2):
        again = go_on(step=Constant(0.1))
        assert again.about["ending"] == "reached before"
        assert again.samples[0, -1] == first.samples[0, -1]
    automatic = go_on()
    assert automatic.about["ending"] == "epochs"
    assert automatic.samples[0, -1] >= 120
    assert go_on().about["ending"] == "reached before"
    assert go_on(epochs=5).samples[0, -1] >= 200


@pytest.mark.parametrize("durable", [False, True])
def test_workers_that_had_left_are_not_expected_again(durable, tmp_path):
    def assembled(folder="state", **given):
        given |= {"folder": tmp_path / folder, "progress": False, "durable": durable}
        assembly = Assembly(Spec(w0=np.zeros(1), names=("a", "b"), **given).validate(serving=True))
        assembly.session.begin(0.0)
        return assembly

    first = assembled(step=Constant(0.1))
    for row in range(2):
        first.session.join(row, 0.0)
        first.session.push(row, 0, np.ones(1), 0, 0.1)
    first.session.left(0, 0.2, "its stream ended")
    first.session.finish(1.0)
    first.close()
    second = assembled()
    if not durable:
        second.session.save(0.0, wait=True)
    shutil.copytree(tmp_path / "state", tmp_path / "killed")  # what is left if it is killed now
    second.close()
    third = assembled("killed")
    for each in (second, third):
        assert [member.state for member in each.server.members] == ["left", "expected"]
        assert each.server.fading.gone == {0}
    third.close()


def test_what_is_read_and_what_is_replaced_is_the_same(tmp_path):
    go = {"problem": PROBLEM, "folder": tmp_path / "state", "runtime": siag.Simulated()}
    siag.train(step=Constant(0.2), until=60, **go)
    (newest,) = (tmp_path / "state").glob("state-*")

    def meanwhile(w):
        newest.write_bytes(newest.read_bytes() + b"more")
        return 0.0

    with pytest.raises(siag.SiagError, match="has changed while it was read"):
        siag.train(until=90, loss=meanwhile, **go)


def cut_off(**given):
    """A run that ends in the middle, after thirty reports, without a word to its disk."""
    measured = []

    def crash(w):
        if measured.append(w) or len(measured) > 30:
            raise KeyboardInterrupt
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        siag.train(step=Constant(0.2), until=60, loss=crash, runtime=siag.Simulated(), **given)


def test_a_run_that_was_cut_off_must_end_before_its_steps_are_chosen_otherwise(tmp_path):
    given = {"problem": PROBLEM, "folder": tmp_path / "state", "durable": True, "record": 1000}
    cut_off(**given)
    with pytest.raises(siag.SiagError, match="was cut off, and what was logged since then, 1 in number, would be lost"):
        siag.train(until=90, runtime=siag.Simulated(), **given)
    siag.train(step=Constant(0.2), until=60, runtime=siag.Simulated(), **given)
    run = siag.train(until=90, runtime=siag.Simulated(), **given)
    assert "60 reports" in run.about["from"]


def test_what_was_logged_is_done_again_with_its_own_step(tmp_path):
    trace = tmp_path / "run.trace"
    given = {"problem": PROBLEM, "folder": tmp_path / "state", "durable": True, "record": 1000, "trace": trace}
    cut_off(**given)
    run = siag.train(step=Constant(0.1), until=90, runtime=siag.Simulated(), **given)
    assert run.about["step"] == repr(Switched(Constant(0.2), 30, Constant(0.1)))
    assert np.array_equal(siag.replay(tmp_path / "run.trace").w, run.w)


@pytest.mark.thorough
def test_a_durable_run_that_diverged_can_be_given_up_for_automatic_steps(tmp_path):
    given = {"problem": PROBLEM, "folder": tmp_path / "state", "durable": True, "runtime": siag.Simulated()}
    with pytest.warns(siag.DivergenceWarning, match="w left the range of numbers"):
        siag.train(step=Constant(50.0), until=2000, **given)
    notes = Notes()
    run = siag.train(until=3000, progress=notes, **given)
    assert notes.heard("what was logged before it diverged, ")
    assert run.error[0, -1] < 0.1


@pytest.fixture
def damaged(tmp_path):
    """A folder in which a run with automatic steps followed another, and whose newest file has no intact save."""
    given = {"problem": PROBLEM, "folder": tmp_path / "state", "runtime": siag.Simulated()}
    siag.train(step=DelayAdaptive(gamma=0.1), until=60, **given)
    siag.train(until=90, **given)
    newest = max((tmp_path / "state").glob("state-*"))
    with newest.open("r+b") as file:
        read_header(file, str(newest), newest.stat().st_size)
        file.truncate()  # whose run it is can still be read
    return given


def test_where_the_newest_file_is_damaged_the_run_before_counts_and_that_is_said(damaged):
    notes = Notes()
    run = siag.train(step=Constant(0.1), until=120, progress=notes, **damaged)
    assert run.about["from"].endswith(
        "DelayAdaptive(gamma=0.1, variant='first', alpha=0.9, ages='table', horizon=65536), 60 reports"
    )
    assert notes.heard("no save in it is intact; used generation")


def test_where_the_newest_file_is_damaged_the_run_before_goes_on(damaged):
    notes = Notes()
    run = siag.train(step=DelayAdaptive(gamma=0.1), until=120, progress=notes, **damaged)
    assert run.about["before"] == 60
    assert notes.heard("no save in it is intact; used generation")


def test_where_the_newest_file_is_damaged_and_only_it_was_of_this_run_both_are_said(damaged):
    with pytest.raises(siag.SiagError, match=r"cut short, no save in it is intact; .*(method|step) is"):
        siag.train(until=120, **damaged)


def test_automatic_steps_whose_factor_changed_replay_to_the_bit(go_on, tmp_path):
    go_on(Constant(1.0), 60, method=siag.methods.Automatic())
    run = go_on(Constant(0.5), 100, method=siag.methods.Automatic())
    assert np.array_equal(siag.replay(tmp_path / "run.trace").w, run.w)


class Unnamed(DelayAdaptive):
    """A step that looks at ages and prints its place in memory, which another process would print otherwise."""

    __repr__ = object.__repr__


def test_a_step_that_prints_its_place_in_memory_is_no_other_after_a_restart(go_on):
    go_on(Unnamed(gamma=0.1), 60)
    run = go_on(Unnamed(gamma=0.1), 100)
    assert run.about["before"] == 60
    assert "from" not in run.about


def test_a_durable_run_that_begins_after_another_is_another_life(tmp_path):
    """A worker that still holds w of the old run at some version must not take it for that version of the new one."""

    def life(sample, **given):
        spec = Spec(w0=np.zeros(1), names=("a",), folder=tmp_path / "state", progress=False, durable=True, **given)
        assembly = Assembly(spec.validate(serving=True))
        assembly.session.begin(0.0)
        assembly.session.join(0, 0.0)
        assembly.session.push(0, 0, np.ones(assembly.server.message_size), sample, 0.1)
        assembly.session.finish(1.0)
        assembly.close()
        return assembly.session.life

    first = life(0, step=Constant(0.1))
    assert life(1, step=Constant(0.1)) == first
    assert life(2) != first


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [siag.methods.SIAG(wait=1.0), siag.methods.Averaged(siag.methods.SIAG(wait=0.5))])
def test_where_the_first_step_was_waited_for_steps_are_counted_from_it(method, go_on, tmp_path):
    """The slow worker comes after dozens of the others' reports; η_0 belongs to the step after that."""
    steps, given = (
        (Harmonic(2.0, 5.0), Harmonic(1.0, 50.0)),
        {"method": method, "server": siag.activity.EveryArrivals(1)},
    )
    runtime = siag.Simulated(times=siag.activity.Exponential(1.0), slowness=[1.0, 10.0, 200.0], seed=3)
    places = {"folder": tmp_path / "state", "trace": tmp_path / "run.trace"}
    for step, until in ((steps[0], 20), (steps[0], 400), (steps[1], 500)):
        run = siag.train(problem=PROBLEM, step=step, until=until, runtime=runtime, **places, **given)
    lines = siag.activity.Trace.parse("", (tmp_path / "run.trace").read_bytes())
    first = [int(np.flatnonzero(lines.worker == i)[0]) for i in range(3)]
    waited = sorted(first)[method.quorum(3) - 1]
    assert waited > 0
    assert run.about["step"] == repr(Switched(steps[0], 400 - waited, steps[1]))
    assert np.array_equal(siag.replay(tmp_path / "run.trace").w, run.w)
