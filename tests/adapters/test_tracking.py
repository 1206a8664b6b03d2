"""MLflow and TensorBoard as watchers, with the real libraries, on local files."""

import threading
from pathlib import Path

import numpy as np
import pytest

import siag
from siag.adapters import MLflow, TensorBoard, tracking
from siag.server import Snapshot

pytest.importorskip("mlflow")
pytest.importorskip("tensorboard")
mlflow_files = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

PAIRS = [([x], 2.0 * x) for x in (0.5, 1.0, 1.5)]
OTHERS = [([x], 4.0 * x) for x in (0.5, 1.0, 1.5)]


def trained(progress, **options):
    """A run of two workers in virtual time, with all that can be tracked."""
    return siag.train(
        siag.losses.Squared(intercept=False),
        [PAIRS, OTHERS],
        np.zeros(1),
        step=siag.steps.Constant(0.1),
        until=300,
        names=["north", "sou:th"],
        evaluate={"slope": lambda w: w[0]},
        runtime=siag.Simulated(),
        progress=progress,
        **options,
    )


@mlflow_files
def test_mlflow_has_parameters_curves_and_the_model(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()
    tracker = MLflow("shops", "first", uri=uri)
    run = trained(tracker)
    client = mlflow.MlflowClient(tracking_uri=uri)
    kept = client.get_run(tracker.run_id)
    assert (kept.info.status, kept.info.run_name) == ("FINISHED", "first")
    assert kept.data.params["method"] == repr(siag.methods.SIAG())
    assert (kept.data.params["workers"], kept.data.params["d"]) == ("2", "1")
    assert kept.data.metrics["slope"] == pytest.approx(run.w[0, 0])
    assert {"progressive loss", "mean age", "worker loss/north", "worker age/sou_th"} <= set(kept.data.metrics)
    points = client.get_metric_history(tracker.run_id, "reports")
    assert points[-1].step == 300
    found = client.download_artifacts(tracker.run_id, "w.npy", str(tmp_path))
    np.testing.assert_array_equal(np.load(found), run.w[0])
    assert siag.load(client.download_artifacts(tracker.run_id, "run.npz", str(tmp_path))).t[-1] == 300


def test_tensorboard_has_curves_texts_and_the_model(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trained(TensorBoard(tmp_path / "run"))
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert {"slope/scalar_summary", "slope"} & set(events.Tags()["tensors"])
    slopes = events.Tensors("slope")
    assert slopes[-1].step == 300
    assert slopes[-1].tensor_proto.float_val[0] == pytest.approx(run.w[0, 0])
    assert b"SIAG" in events.Tensors("parameters")[0].tensor_proto.string_val[0]
    assert "worker rate/sou:th" in events.Tags()["tensors"]
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "w.npy"), run.w[0])


def test_warnings_are_texts_and_the_view_may_be_there_too(tmp_path, capsys):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytest.warns(siag.TrainingWarning):
        siag.train(
            lambda w, x: (1.0, np.zeros(1)),
            [[0.0], [1.0]],
            np.zeros(1),
            until=400,
            runtime=siag.Simulated(),
            progress=[True, TensorBoard(tmp_path)],
        )
    assert "iteration 400" in capsys.readouterr().err
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert "warning 1" in events.Tags()["tensors"]


def test_what_goes_away_is_said_once_and_costs_no_training(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    run = trained(TensorBoard(tmp_path / "file" / "below"))
    assert run.t[-1] == 300
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("siag: TensorBoard cannot be written: ")
    assert "training goes on" in said[0]


def test_there_is_a_point_every_second_and_one_at_the_end(monkeypatch):
    steps, now = [], [0.0]

    class Noted(tracking.Tracker):
        title = "Noted"

        def _open(self, about):
            pass

        def _write(self, step, at, values, texts):
            steps.append(step)

        def _keep(self, run):
            pass

    monkeypatch.setattr(tracking.time, "monotonic", lambda: now[0])
    tracker = Noted(1.0, 0)
    for k in range(25):
        now[0] = 100.0 + k / 10
        tracker.show(Snapshot(k, k, 0, k / 10, 1.0, (), ()))
    tracker.close()
    assert steps == [0, 10, 20, 24]


def test_what_comes_back_has_all_points(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tracking, "AGAIN", 0.0)
    down, seen = [True], []

    class Flaky(tracking.Tracker):
        title = "Flaky"

        def _open(self, about):
            if down:
                raise ConnectionError("gone")
            seen.append("open")

        def _write(self, step, at, values, texts):
            seen.append(step)

        def _keep(self, run):
            seen.append("kept")

    tracker = Flaky(1.0, 5)
    tracker.begin({})
    tracker._writing.result()
    down.clear()
    tracker.result(None)
    assert seen == ["open", "kept"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[2].split()[:3] for line in lines] == [
        ["Flaky", "cannot", "be"],
        ["Flaky", "is", "written"],
    ]


def test_a_tracker_that_hangs_is_not_waited_for(capsys, monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE", 0.01)
    forever = threading.Event()

    class Hung(tracking.Tracker):
        title = "Hung"

        def _open(self, about):
            forever.wait()

        def _write(self, step, at, values, texts):
            pass

        def _keep(self, run):
            pass

    assert trained(Hung(1.0, 0)).t[-1] == 300
    assert "Hung: no answer within 0.01 seconds" in capsys.readouterr().err
    forever.set()


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(siag.BadInput, match=r"every = 0\.01"):
        TensorBoard(tmp_path, every=0.01)
    with pytest.raises(siag.BadInput, match="folder = 5"):
        TensorBoard(5)
    used = TensorBoard(tmp_path / "one")
    trained(used)
    with pytest.raises(siag.SiagError, match="one for each run"):
        trained(used)
    assert Path(tmp_path / "one").is_dir()
