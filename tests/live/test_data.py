"""The data of all workers, looked at together before a run."""

import re
import warnings

import numpy as np
import pytest
from jobs import Notes, pull

import siag
from instant import Instant
from siag.live.data import doubts_about
from siag.live.spec import Spec
from siag.losses import Huber, Logistic, Softmax, Squared
from siag.streams import Batched, Follow, Repeated, labelled

STEP = siag.steps.Constant(0.1)


def spec(*streams, gradient=pull, d=3):
    return Spec(gradient=gradient, streams=streams, w0=np.zeros(d), step=STEP).validate()


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(np.arange(12.0).reshape(4, 3), columns=["a", "b", "c"])


def test_frames_with_columns_in_another_order_are_refused(frame):
    y, turned = np.ones(4), frame[["c", "b", "a"]]
    words = r"^column 1 is 'a' in streams\[0\] and 'c' in streams\[1\]; give all frames the same columns in the same or"
    for pair in (
        (frame, turned),
        ((frame, y), (turned, y)),
        (Repeated((frame, y)), Batched((turned, y), 2)),
    ):
        with pytest.raises(siag.Unsuitable, match=words):
            spec(*pair)
    with pytest.raises(siag.Unsuitable, match=words):
        siag.train(Squared(intercept=False), [(frame, y), (turned, y)], np.zeros(3), runtime=Instant())


def test_frames_with_other_columns_are_refused(frame):
    words = r"^column 3 is 'c' in streams\[1\] and missing in streams\[3\]; give all"
    with pytest.raises(siag.Unsuitable, match=words):
        spec([1.0], frame, frame, frame[["a", "b"]])
    with pytest.raises(siag.Unsuitable, match=r"^column 2 is 'b' in streams\[0\] and 'x' in streams\[1\]; give all"):
        spec(frame, frame.rename(columns={"b": "x"}))


def test_columns_are_compared_where_they_have_names(frame):
    numbered = frame.set_axis([2, 1, 0], axis=1)
    for streams in ((frame, frame.copy()), (frame, frame.to_numpy()), (frame, numbered), (numbered, numbered[[0, 1]])):
        assert spec(*streams).n == 2


def test_a_folder_knows_files_by_their_names_labels_and_features(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text("price,sold,area\n1,1,2\n")
    (read,) = labelled([path], "sold")
    known = {"files": ["shop.csv", None], "label": "sold", "row of features": ["price", "area"]}
    assert spec(Repeated(read), [1.0]).identity.items() >= known.items()
    assert spec(*labelled([path, path], "sold", wait=True)).identity["files"] == ["shop.csv", "shop.csv"]
    assert "files" not in spec([1.0], Follow(path)).identity
    assert "files" not in spec(Repeated(read)).about


WORDS = "are of one class, {}: the model can learn nothing but that; add samples of another class, or check what is giv"


@pytest.mark.parametrize(
    ("loss", "labels", "shown"),
    [
        (Logistic(), ([1, 1], [1, 1, 1]), "1"),
        (Logistic(ridge=0.1, intercept=False), ([True], [1.0]), "True"),
        (Logistic(), ([0, 0], [-1]), "0"),
        (Softmax(["cat", "dog"]), (["cat"], ["cat", "cat"]), "'cat'"),
    ],
)
def test_labels_of_one_class_alone_are_doubtful(loss, labels, shown):
    streams = [(np.ones((len(y), 2)), np.array(y)) for y in labels]
    (doubt,) = spec(*streams, gradient=loss).doubts
    assert doubt.startswith(f"all labels {WORDS.format(shown)}")


def test_labels_in_frames_are_seen_too(frame):
    assert spec((frame, frame.a > 4), Batched((frame, [1, 1, 1, 1]), 2), gradient=Logistic()).doubts == ()
    (doubt,) = spec((frame, frame.a < 20), Batched((frame, [1, 1, 1, 1]), 2), gradient=Logistic()).doubts
    assert doubt.startswith("all labels are of one class, True: ")


@pytest.mark.parametrize(
    ("loss", "streams"),
    [
        (Logistic(), [(np.ones((2, 2)), np.zeros(2)), (np.ones((2, 2)), np.ones(2))]),  # one class a worker is usual
        (Softmax([1, 2]), [(np.ones((2, 2)), np.array([1, 2]))]),
        (Softmax(["a", "b"]), [(np.ones((1, 2)), np.array(["a"])), (np.ones((1, 2)), np.array([1.0]))]),
        (Logistic(), [(np.ones((2, 2)), np.ones(2)), iter([([1.0, 1.0], 0)])]),  # nobody knows what will come
        (Logistic(), [(np.ones((2, 2)), ["a", "a"])]),  # refused later
        (Logistic(), [(np.ones((2, 2)), [1, [1, 1]])]),
        (Squared(), [(np.ones((2, 2)), np.ones(2))]),
    ],
)
def test_labels_of_several_classes_or_unknown_ones_are_not_doubtful(loss, streams):
    assert spec(*streams, gradient=loss).doubts == ()


def test_a_table_that_seems_to_be_transposed_is_doubtful(frame):
    words = "; if its columns are the samples, give its transpose"
    table = np.ones((4, 500))
    assert spec(table).doubts == (f"streams[0] has 4 samples of 500 numbers for 3 parameters{words}",)
    several = spec([1.0], type(frame)(table), Batched(table, 2)).doubts
    assert several == (f"streams[1] has 4 samples of 500 numbers for 3 parameters (1 more like it){words}",)
    for fine in (table.T, np.ones((7, 500)), np.ones((4, 30)), np.ones((4, 50, 50)), (table, np.ones(4)), [table]):
        assert spec(fine).doubts == ()


def test_doubts_are_told_when_a_run_begins_and_warned_of_when_it_ends(capsys):
    notes, streams = Notes(), [(np.ones((4, 2)), np.ones(4))] * 2
    given = {"until": 20, "runtime": Instant(), "progress": notes}
    with pytest.warns(siag.TrainingWarning, match="^all labels are of one class, 1.0: "):
        run = siag.train(Logistic(), streams, np.zeros(3), **given)
    (doubt,) = run.warnings
    assert notes.events[0] == f"warning: {doubt}"
    with pytest.warns(siag.TrainingWarning):
        siag.train(Logistic(), streams, np.zeros(3), **given | {"progress": None})
    assert capsys.readouterr().err == f"siag: warning: {doubt}\n"
    once = spec(*streams, gradient=Logistic())
    assert once.validate().doubts == once.without_data().doubts == once.doubts == (doubt,)


def scaled(change, gradient=None):
    """What is said of two workers' standard normal features after a change."""
    rng = np.random.default_rng(0)
    tables = [change(rng.normal(size=(m, 3))) for m in (400, 60)]
    streams = [(X, rng.integers(0, 2, len(X))) for X in tables]
    return spec(*streams, gradient=gradient or Squared(), d=4).doubts


@pytest.mark.parametrize("factor", [100, 500, 1000, 0.01])
@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_columns_of_very_unequal_size_are_doubtful(factor, loss):
    (doubt,) = scaled(lambda X: X * [1, 1, factor], loss)
    assert "times as large as column" in doubt
    assert "standardise: subtract each column's mean, divide by its standard deviation" in doubt


@pytest.mark.parametrize("change", [lambda X: 10 * X + 300, lambda X: X + 2013])
def test_columns_far_from_zero_are_doubtful(change):
    (doubt,) = scaled(change)
    assert "times its standard deviation (2 more like it): the model will hardly learn" in doubt


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X,
        lambda X: X * [1, 3, 10],
        lambda X: X * 1000,
        lambda X: (X > 2.5) * 1.0,  # rare
        lambda X: (X < 2.5) * [1.0, 1.0, 100.0],  # usual, and of two values
        lambda X: np.hstack([X[:, :1], np.eye(len(X), 2)]),
        lambda X: X * (np.abs(X) > 1.9),  # most are 0
    ],
)
def test_columns_of_ordinary_size_and_of_zeros_and_ones_are_not_doubtful(change):
    assert scaled(change) == ()


def alike(eps, share, intercept=True):
    """What is said of two workers' columns that differ by noise of this size, on which labels depend by this share."""
    rng = np.random.default_rng(0)
    streams = []
    for rows in (400, 60):
        one, noise = rng.normal(size=(2, rows))
        X = np.column_stack([one, one + eps * noise]) + 8.0 * intercept
        streams.append((X, one + share * noise + 0.1 * rng.normal(size=rows)))
    return doubts_about(Squared(intercept=intercept), streams, 3, scaled=True)


@pytest.mark.parametrize("eps", [0.03, 0.01, 1e-4])
@pytest.mark.parametrize("intercept", [True, False])
def test_columns_that_are_much_alike_are_doubtful_if_labels_depend_on_the_difference(eps, intercept):
    (doubt,) = alike(eps, 1.0, intercept)
    assert doubt.startswith("columns 1 and 2 nearly determine one another")


@pytest.mark.parametrize(("eps", "share"), [(0.01, 0.0), (0.0, 0.0), (1e-9, 0.0), (0.3, 1.0)])
def test_columns_that_are_much_alike_are_not_doubtful_where_it_does_not_matter(eps, share):
    assert alike(eps, share) == []


def test_levels_that_follow_from_whose_row_it_is_are_doubtful():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    streams = [(X + level, X @ [1.0, 2.0]) for level in ([0.0, 100.0], [50.0, 0.0])]
    (doubt,) = doubts_about(Squared(), streams, 3, scaled=True)
    assert "nearly determine one another" in doubt


def test_a_label_far_from_all_others_is_doubtful_unless_the_loss_bears_it():
    y = np.random.default_rng(1).normal(size=300)
    X = np.stack([y, y**2], axis=1)
    assert doubts_about(Squared(), [(X, y)], 3) == []
    y[7] = 1e8
    (doubt,) = doubts_about(Squared(), [(X[:9], y[:9]), (X[9:], y[9:])], 3)
    assert doubt.startswith("the label 1e+08 is 9e+07 times the interquartile range of all labels away from")
    assert doubts_about(Huber(), [(X, y)], 3) == []


def test_labels_that_the_loss_refuses_are_not_called_of_one_class():
    assert spec((np.ones((2, 2)), np.array([1, 2])), gradient=Logistic()).doubts == ()


@pytest.mark.parametrize(
    ("gradient", "streams", "wanted"),
    [
        (Logistic(), [[(np.ones(2), 1)] * 9, [(np.zeros(2), 1)] * 9], ["all labels are of one class, 1: "]),
        (Logistic(), [[(np.ones(2), 1)] * 9, [(np.zeros(2), 0)] * 9], []),
        (Squared(), [[(np.ones(2), 1.0)] * 9, [(np.zeros(2), 1.0)] * 11], ["all labels are the same, 1.0: "]),
        (Huber(), [(np.eye(30), np.full(30, 7.0))], ["all labels are the same, 7.0: "]),
        (Squared(), [(np.eye(30), np.arange(30.0))], []),
        (Squared(), [[(np.ones(2), 1.0)] * 19], []),  # too few to tell
        (lambda w, s: w, [[(np.ones(2), 1.0)] * 30], []),  # of one's own: a weight, perhaps
    ],
)
def test_labels_that_are_all_the_same_are_doubtful_in_lists_of_pairs_too(gradient, streams, wanted):
    found = doubts_about(gradient, streams, 3)
    assert [text[: len(start)] for text, start in zip(found, wanted, strict=True)] == wanted


def test_a_large_column_that_is_constant_is_doubtful_in_words_of_ours():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 1] = 1000.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (text,) = doubts_about(Squared(), [(X, X[:, 0])], 4)
        X[:, 1] = 1.0
        assert doubts_about(Squared(), [(X, X[:, 0])], 4) == []
    assert re.match(r"column 2 is \d+ times as large as column \d: what is small is hardly learned; standardise", text)
