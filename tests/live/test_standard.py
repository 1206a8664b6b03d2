"""Columns of any mean and size: ready-made losses on data that can be looked at are right by default."""

import numpy as np
import pytest

import siag
from siag.live.spec import Spec
from siag.losses import Logistic, Poisson, Softmax, Squared
from siag.methods import SIAG, Automatic, Standardised
from siag.steps import Constant
from siag.storage import read_model, read_version, read_versions
from siag.streams import Batched, Follow, Repeated, labelled

MEANS, SIZES = np.array([8.0, 12.0]), {"north": 300, "south": 100}
QUICK = siag.Simulated(times=siag.activity.Exponential(0.001), seed=1)  # so that there are few saves
SLOPES = {"north": [1.0, 2.0], "south": [3.0, 1.0]}


def shop(name, means=MEANS, classes=False, rows=None):
    """(X, y) of a shop, whose columns have these means."""
    rng = np.random.default_rng(len(SLOPES[name][:1]) + SIZES[name])
    x = rng.standard_normal((rows or SIZES[name], 2))
    u = x @ SLOPES[name] + 0.5
    return x + means, (u + 2.0 * rng.logistic(size=len(u)) > 0.0) * 1.0 if classes else u


def shops(means=MEANS, classes=False):
    return [shop(name, means, classes) for name in SIZES]


def file(folder, name, **given):
    X, y = shop(name, **given)
    path = folder / f"{name}.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="price,size,sales", comments="", fmt="%.17g")
    return path


def excess(loss, data, w):
    """The mean loss of w above the least, as a share of what it was at 0; by Newton's method in centred columns."""
    T = np.eye(w.size)
    if loss.intercept:
        T[-1, :-1] = -np.mean([X.mean(axis=0) for X, _ in data], axis=0)

    def value(z):
        return np.mean([loss.value(T @ z, part) for part in data])

    def slope(z):
        return T.T @ np.mean([loss(T @ z, part) for part in data], axis=0)

    z = np.zeros(w.size)
    for _ in range(30):
        bend = np.array([(slope(z + 1e-5 * e) - slope(z - 1e-5 * e)) / 2e-5 for e in np.eye(w.size)])
        z = z - np.linalg.solve(bend, slope(z))
    return (value(np.linalg.solve(T, w)) - value(z)) / (value(np.zeros(w.size)) - value(z))


def chosen(gradient, streams, d=3, **given):
    return Spec(gradient=gradient, streams=streams, w0=np.zeros(d), **given).validate().method


def train(loss, streams, method=None, **given):
    given = {"runtime": QUICK, "progress": False} | given
    return siag.train(loss, streams, np.zeros(3), method, **given)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_a_newcomers_files_with_columns_of_means_8_and_12_lead_to_the_fair_optimum_in_ten_passes(loss, tmp_path):
    """Within 1 % of what there is to gain; without standardised columns most of that is missing."""
    classes = isinstance(loss, Logistic)
    paths = [file(tmp_path, name, classes=classes) for name in SIZES]
    streams = [Repeated(stream) for stream in labelled(paths, "sales")]
    run = train(loss, streams)
    assert run.about["ending"] == "epochs"
    assert excess(loss, shops(classes=classes), run.w[0]) < 0.01
    assert run.warnings == []
    plain = train(loss, streams, Automatic())
    assert excess(loss, shops(classes=classes), plain.w[0]) > 0.3


def test_every_worker_counts_the_same_however_many_rows_it_has():
    one, other = np.array([[0.0], [2.0]] * 500), np.array([[10.0], [12.0]] * 5)
    method = chosen(Squared(), [(one, one[:, 0]), (other, other[:, 0])], d=2)
    assert method == Standardised(Automatic(), means=[6.0], deviations=[5.1])


@pytest.mark.parametrize(
    "streams",
    [
        shops(),
        [list(zip(*part, strict=True)) for part in shops()],
        [[(X[:50], y[:50]), (X[50:], y[50:])] for X, y in shops()],
        [Batched(part, 20) for part in shops()],
        [(X.tolist() and np.array(X, np.float32), y.tolist()) for X, y in shops()],
    ],
    ids=["pairs of arrays", "lists of pairs", "lists of batches", "batched", "other types"],
)
def test_data_that_are_here_are_looked_at(streams):
    method = chosen(Squared(), streams)
    assert isinstance(method, Standardised)
    assert np.allclose(method.means, MEANS, atol=0.3)


def test_one_sample_that_is_not_finite_is_left_out():
    X, y = shop("north")
    X[7, 1] = np.nan
    assert isinstance(chosen(Squared(), [(X, y), shop("south")]), Standardised)


@pytest.mark.parametrize(
    ("gradient", "streams", "given"),
    [
        (Squared(), shops(means=0.0), {}),
        (lambda w, sample: w, shops(), {}),
        (Squared(), [iter([]), iter([])], {}),
        (Squared(), [lambda: shop("north"), shop("south")], {}),
        (Squared(), [(np.full((3, 2), np.nan), np.ones(3))], {}),
        (Squared(), [(np.full((3, 2), 1e300) * [[1], [-1], [1]], np.ones(3))], {}),
        (Squared(), [(np.ones((3, 2)) * [[0.0], [1.0], [2.0]] + 9.0, np.ones(3))], {"d": 7}),
    ],
    ids=["already", "own", "read once", "functions", "NaN", "beyond squares", "another d"],
)
def test_all_else_is_trained_as_it_is(gradient, streams, given):
    assert chosen(gradient, streams, **given) == Automatic()


def test_a_file_that_grows_is_trained_as_it_is(tmp_path):
    follow = labelled([file(tmp_path, "north")], "sales", wait=True)
    assert isinstance(follow[0], Follow)
    assert chosen(Squared(), follow, until=5) == Automatic()


def test_a_method_or_a_step_of_ones_own_means_the_columns_as_they_are():
    assert chosen(Squared(), shops(), method=Automatic()) == Automatic()
    assert chosen(Squared(), shops(), step=Constant(0.1)) == SIAG()


def test_a_constant_column_and_one_that_is_mostly_zero():
    """The one is left to the intercept, the other is not shifted, so that its zeros stay zeros."""
    X, y = shop("north")
    rare = np.arange(len(X)) % 25 == 0
    X = np.column_stack([X, np.full(len(X), 7.0), rare])
    method = chosen(Squared(), [(X, y)], d=5)
    assert method.means[2:] == (7.0, 0.0)
    assert method.deviations[2:] == (7.0, 0.2)


@pytest.mark.parametrize("loss", [Squared(intercept=False), Logistic(intercept=False)], ids=repr)
@pytest.mark.parametrize("ones", [False, True], ids=["no constant", "a column of ones"])
def test_without_an_intercept_columns_far_from_0_lead_to_the_optimum_too(loss, ones):
    """Within 1 % of what there is to gain, where most is missing of it in the columns as they are."""
    data = shops(classes=isinstance(loss, Logistic))
    if ones:
        data = [(np.column_stack([X, np.ones(len(X))]), y) for X, y in data]
    runs = [
        siag.train(loss, data, np.zeros(2 + ones), method, runtime=QUICK, progress=False)
        for method in (None, Automatic())
    ]
    assert excess(loss, data, runs[0].w[0]) < 0.01
    assert runs[0].warnings == []
    assert excess(loss, data, runs[1].w[0]) > 0.03


def test_without_an_intercept_a_constant_column_is_one():
    """As large as what the others have in common, at any size."""
    data = [(np.column_stack([X, np.full(len(X), 700.0)]), y) for X, y in shops()]
    method = chosen(Squared(intercept=False), data)
    assert np.allclose(method.means, [*MEANS, 700.0], atol=0.3)
    assert method.deviations[2] == pytest.approx(700.0 / np.sqrt(1.0 + MEANS @ MEANS), rel=0.1)
    ones = [(np.column_stack([X - MEANS, np.ones(len(X))]), y) for X, y in shops()]
    assert chosen(Squared(intercept=False), ones) == Automatic()


@pytest.mark.parametrize("loss", [Squared(ridge=0.3), Logistic(ridge=0.1), Poisson(ridge=0.01)], ids=repr)
def test_the_objective_is_the_same_a_ridge_on_the_weights_of_the_columns_included(loss):
    data = shops(classes=isinstance(loss, Logistic))
    if isinstance(loss, Poisson):
        data = [(X, np.round(np.abs(y))) for X, y in data]
    w = train(loss, data, until=siag.Until(reports=4000)).w[0]
    assert excess(loss, data, w) < 0.03


@pytest.mark.parametrize("ridge", [0.0, 0.04])
def test_a_ridge_counts_as_so_much_deviation_more(ridge):
    X = np.array([[1e-3], [-1e-3]] * 20)
    for loss, part in ((Squared(ridge=ridge), 1.0), (Logistic(ridge=ridge), 4.0)):
        method = chosen(loss, [(X, np.array([0.0, 1.0] * 20))], d=2)
        assert method.deviations == pytest.approx([max(1e-3, np.sqrt(part * ridge))], rel=1e-2)


def test_several_classes_share_the_columns():
    data = [(X, (y > 0.0).astype(int) + (y > 2.0)) for X, y in shops()]
    loss = Softmax([0, 1, 2])
    run = siag.train(loss, data, np.zeros(9), runtime=QUICK, until=siag.Until(reports=4000))
    share = [(loss.predict(run.w[0], X) == y).mean() for X, y in data]
    assert min(share) > 0.65


def test_w_is_in_the_coordinates_of_the_data_wherever_it_is_seen(tmp_path):
    seen = []
    given = {"folder": tmp_path / "state", "keep": 2, "keep_every": 0.2, "trace": tmp_path / "run.trace"}
    run = train(Squared(), shops(), evaluate={"w": lambda w: seen.append(w.copy()) or 0.0}, until=2000, **given)
    assert excess(Squared(), shops(), run.w[0]) < 0.01
    assert np.array_equal(read_model(tmp_path / "state").w, run.w[0])
    assert np.array_equal(seen[-1], run.w[0])
    assert seen[0].tolist() == [0.0, 0.0, 0.0]
    (*_, last) = read_versions(tmp_path / "state")
    assert excess(Squared(), shops(), read_version(tmp_path / "state", last.version)) < 0.1


def test_a_run_goes_on_from_its_folder_with_the_coordinates_it_began_with_also_if_its_data_have_grown(tmp_path):
    given = {"folder": tmp_path / "state"}
    first = train(Squared(), shops(), until=500, **given)
    later = train(Squared(), [(X + 1.0, y) for X, y in shops()], until=600, **given)
    assert later.about["method"] == first.about["method"]
    assert later.about["before"] == 500
    assert chosen(Squared(), [(X + 1.0, y) for X, y in shops()]) != chosen(Squared(), shops())


def test_a_run_of_plain_automatic_steps_goes_on_as_it_began(tmp_path):
    train(Squared(), shops(), Automatic(), until=50, folder=tmp_path / "state")
    assert train(Squared(), shops(), until=60, folder=tmp_path / "state").about["method"] == repr(Automatic())


def test_a_run_changes_to_a_step_of_ones_own_from_the_w_it_has_reached(tmp_path):
    first = train(Squared(), shops(), until=2000, folder=tmp_path / "state")
    after = siag.train(
        Squared(),
        shops(),
        np.zeros(3),
        step=Constant(1e-9),
        until=5,
        folder=tmp_path / "state",
        runtime=QUICK,
        progress=False,
    )
    assert np.allclose(after.w[0], first.w[0], atol=1e-4)


def test_short_messages_do_as_well():
    run = train(Squared(), shops(), messages="int8", until=siag.Until(reports=4000))
    assert excess(Squared(), shops(), run.w[0]) < 0.02


def test_its_trace_replays_to_the_bit(tmp_path):
    problem = siag.problems.Ridge.random(n=2, d=3, m=20, regularization=0.1, seed=1)
    method = Standardised(Automatic(), means=[8.0, 12.0], deviations=[1.0, 2.0])
    run = siag.train(
        problem=problem,
        method=method,
        until=200,
        trace=tmp_path / "run.trace",
        runtime=QUICK,
        progress=False,
    )
    assert np.array_equal(siag.replay(tmp_path / "run.trace", problem=problem, compiled=False).w, run.w)
