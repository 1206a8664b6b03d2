"""One description of a run: what it refuses, and what it fills in."""

import itertools
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from jobs import Notes, pull

import siag
from instant import Instant
from siag.foundations.errors import Missing
from siag.foundations.printing import prints_alike
from siag.live.runtime import Runtime
from siag.live.spec import Spec, fields_of, renamed
from siag.streams import Batched, Buffered, Directory, Follow, Paced, Repeated

STEP = siag.steps.Constant(0.1)
PROBLEM = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
STREAMS = {"gradient": pull, "streams": [[1.0], [2.0]], "w0": np.zeros(3), "step": STEP}


@pytest.mark.parametrize("names", ["ab", b"ab", ["a"], ["a", "a"], ["a", ""], ["a", 1], 2, 3.5, []])
def test_names_are_as_many_different_texts_as_there_are_workers(names):
    with pytest.raises(siag.BadInput, match=r"names = .*2 different texts, one for each worker"):
        Spec(**STREAMS, names=names).validate()


@dataclass
class Table:
    """As a DataFrame, or a Series."""

    shape: tuple[int, ...]

    def __len__(self):
        return self.shape[0]

    def to_numpy(self):
        return np.zeros(self.shape)


@pytest.mark.parametrize(
    "streams", [(np.ones((3, 2)), np.ones(3)), (Table((3, 2)), Table((3,))), (Table((3, 2)), np.array(["a", "b", "c"]))]
)
def test_a_table_and_its_labels_are_not_two_workers(streams):
    words = r"^streams = .*: must be a list with one stream for each worker; did you mean \[\(X, y\)\]\?$"
    with pytest.raises(siag.BadInput, match=words):
        Spec(**STREAMS | {"streams": streams}).validate()
    assert Spec(**STREAMS | {"streams": [streams]}).validate().n == 1


@pytest.mark.parametrize(
    "streams",
    [
        (np.ones((3, 2)), np.ones((3, 2))),
        (np.ones(3), np.ones(3)),
        (np.ones((3, 2)), np.ones(4)),
        [np.ones((3, 2)), np.ones(3)],
        (np.ones((3, 2)), [1.0, 2.0, 3.0]),
    ],
)
def test_other_streams_in_a_tuple_are_two_workers(streams):
    assert Spec(**STREAMS | {"streams": streams}).validate().n == 2


@pytest.mark.parametrize(
    "stream",
    [
        Follow("a.csv"),
        Directory("."),
        Batched(Buffered(Paced(Follow("a.csv"), 1.0)), 2),
        Repeated(Follow("a.csv")),
        itertools.count(),
        itertools.cycle([1.0]),
        itertools.repeat(1.0),
    ],
    ids=lambda stream: type(stream).__name__,
)
def test_a_stream_that_never_ends_does_not_go_with_epochs_alone(stream):
    given = STREAMS | {"streams": [[1.0], stream]}
    words = (
        r"^streams\[1\] = .*: must be data with an end, where a run ends by epochs; end the run by iterations, repor"
    )
    with pytest.raises(siag.BadInput, match=words):
        Spec(**given, until=siag.Until(epochs=2)).validate()
    for until in (None, 5, siag.Until(), siag.Until(epochs=2, seconds=5)):
        Spec(**given, until=until).validate()


@pytest.mark.parametrize(
    "stream", [iter([1.0]), itertools.repeat(1.0, 5), Follow("a.csv", wait=False), Repeated([1.0]), itertools.count]
)
def test_streams_that_end_or_may_end_go_with_epochs(stream):
    Spec(**STREAMS | {"streams": [stream]}, until=siag.Until(epochs=2)).validate()


def test_what_is_left_out_is_filled_in():
    spec = Spec(problem=PROBLEM, step=STEP, until=5).validate()
    assert (spec.names, spec.pauses, spec.until) == (["0", "1"], [0.0, 0.0], siag.Until(iterations=5))
    assert (spec.method, spec.w0.tolist(), spec.n) == (siag.methods.SIAG(), [0.0] * 3, 2)
    assert spec.measure(PROBLEM.optimum) == 0.0


def test_a_problem_without_an_optimum_is_measured_by_its_gradient_and_starts_where_it_says():
    problem = siag.problems.Network.random(n=2, p=2, m=3, classes=2, hidden=2)
    spec = Spec(problem=problem, step=STEP, until=5).validate(serving=True)
    assert spec.w0.tolist() == problem.start.tolist()
    assert spec.measure(spec.w0) == pytest.approx(np.square(problem.full_gradient(spec.w0)).sum())
    assert spec.about["measure"] == "‖∇F(wᵗ)‖²"
    bare = pickle.loads(pickle.dumps(spec.without_data()))
    assert (bare.about, bare.measure(spec.w0)) == (spec.about, spec.measure(spec.w0))
    unknown = siag.problems.FromFunction(lambda i, w: w, n=2, d=3)
    dark = Spec(problem=unknown, step=STEP, until=5).validate()
    assert dark.measure is None
    assert "measure" not in dark.about


@pytest.mark.parametrize("given", [{"problem": PROBLEM, "step": STEP, "until": 5}, STREAMS], ids=["problem", "streams"])
def test_to_validate_twice_is_to_validate_once(given):
    once = Spec(**given).validate()
    assert replace(once).validate().about == once.about


def test_a_server_may_be_told_how_many_workers_there_are():
    assert Spec(w0=np.zeros(2), step=STEP, names=3).validate(serving=True).names == ["0", "1", "2"]
    with pytest.raises(siag.BadInput, match=r"^names = 3: must be 2, as many as the problem has"):
        Spec(problem=PROBLEM, step=STEP, names=3).validate(serving=True)


def test_what_only_a_problem_has_is_refused_with_streams():
    with pytest.raises(siag.BadInput, match=r"^pauses = .*: must be left out without a problem"):
        Spec(**STREAMS, pauses=[0.1, 0.1]).validate()
    assert Spec(**STREAMS, seed=1).validate().seed == 1  # of the order of finite data


def test_a_method_is_chosen_by_whether_there_is_a_step():
    assert Spec(**STREAMS).validate().method == siag.methods.SIAG()
    chosen = Spec(**STREAMS | {"step": None}).validate()
    assert (chosen.method, chosen.step) == (siag.methods.Automatic(), siag.steps.Constant(1.0))


def test_a_spec_without_the_workers_data_tells_the_same_of_the_run():
    whole = Spec(problem=PROBLEM, step=STEP, until=5, seed=3).validate()
    bare = whole.without_data()
    assert (bare.about, bare.identity, bare.problem) == (whole.about, whole.identity, None)
    assert bare.measure(PROBLEM.optimum) == 0.0


def test_train_and_serve_have_all_fields_but_their_own():
    train, serve = fields_of(serving=False), fields_of(serving=True)
    assert set(train) ^ set(serve) == {"gradient", "streams", "pauses", "preload", "linger", "open", "max_workers"}


@dataclass(frozen=True)
class Own:
    part: object


class Silent:
    pass


@pytest.mark.parametrize(
    ("value", "alike"),
    [
        (PROBLEM, True),
        (Own(3.0), True),
        (Own([1, (2.0, "x", None)]), True),
        (Own(pull), False),
        (Own({"a": Silent()}), False),
        (Silent(), False),
    ],
    ids=["a problem", "a number", "numbers", "a function", "an object within", "an object"],
)
def test_what_prints_its_place_in_memory_is_told_from_what_does_not(value, alike):
    assert prints_alike(value) is alike


def test_a_mistake_has_the_name_that_the_user_wrote():
    with pytest.raises(siag.BadInput, match=r"^max-age = -1: must be"), renamed({"age": "max-age"}):
        siag.server.Guard(age=-1)
    with pytest.raises(Missing, match=r"^eta is missing; give --eta"), renamed({}, {"step": ("eta", "give --eta")}):
        Spec(problem=PROBLEM, method=siag.methods.SIAG()).validate()


# Runtimes


def test_any_runtime_carries_a_run_and_it_is_the_same_each_time(tmp_path):
    def run(k):
        given = {"problem": PROBLEM, "step": STEP, "until": 40, "progress": False}
        return siag.train(**given, trace=tmp_path / f"{k}.csv", runtime=Instant())

    first, second = run(1), run(2)
    assert np.array_equal(first.w, second.w)
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    assert first.about == second.about
    assert first.about["ending"] == siag.runtimes.Ending.REACHED
    assert np.array_equal(siag.replay(tmp_path / "1.csv").w, first.w)


def test_gradients_that_stay_here_need_not_be_pickled():
    run = siag.train(**STREAMS | {"gradient": lambda w, x: w - x}, runtime=Instant(), progress=False)
    assert run.about["ending"] == siag.runtimes.Ending.EPOCHS


@pytest.mark.parametrize("runtime", [5, Instant, "ray"])
def test_what_is_no_runtime_is_refused(runtime):
    with pytest.raises(siag.BadInput, match=r"^runtime = .*must be a siag.runtimes.Runtime"):
        siag.train(**STREAMS, runtime=runtime)


class Counting(Instant):
    def __init__(self, most):
        self.most, self.sent = most, []

    def check_workers(self, workers):
        if workers > self.most:
            raise siag.BadInput("workers", workers, f"at most {self.most}")

    def check_sendable(self, parameter, value, remedy):
        self.sent.append(parameter)


def test_a_runtime_may_refuse_workers_and_is_asked_about_all_that_is_sent():
    with pytest.raises(siag.BadInput, match=r"^workers = 2: .* 1$"):
        siag.train(**STREAMS, runtime=Counting(1))
    runtime = Counting(2)
    siag.train(**STREAMS, runtime=runtime, progress=False)
    assert runtime.sent == ["gradient", "streams[0]", "streams[1]", "method"]
    assert issubclass(siag.runtimes.Ray, Runtime)


def test_modules_to_preload_are_checked_and_go_with_processes_of_this_machine():
    for preload, message in ((["no_such_module"], "a module that can be imported"), ("torch", "a list of names")):
        with pytest.raises(siag.BadInput, match=rf"^preload = .*{message}"):
            siag.train(**STREAMS, preload=preload)
    with pytest.raises(siag.BadInput, match=r"^preload = .*must be left out with a runtime of your own"):
        siag.train(**STREAMS, preload=["json"], runtime=Instant())


def test_what_a_run_says_goes_to_the_log_as_well(caplog):
    caplog.set_level("INFO", logger="siag")
    watcher = Notes()
    given = STREAMS | {"gradient": fails_once, "streams": [iter([1.0]), iter([2.0])]}
    siag.train(**given, runtime=Instant(), progress=watcher, names=["a", "b"])
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "siag"]
    assert [text for _, text in told] == watcher.events
    assert {level for level, _ in told} == {"WARNING", "INFO"}


def fails_once(w, sample):
    if sample == 1.0:
        raise ValueError("no")
    return w - sample


def test_a_spec_travels():
    spec = Spec(problem=PROBLEM, step=STEP, until=5).validate()
    assert pickle.loads(pickle.dumps(spec)).identity == spec.identity
