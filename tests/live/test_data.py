"""The data of all workers, looked at together before a run."""

import numpy as np
import pytest
from jobs import pull

import siag
from instant import Instant
from siag.live.spec import Spec
from siag.losses import Squared
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
