"""A run on disk and on paper: whole or not there, and read-only."""

import errno
import gc
import io
import json
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import siag
from refusals import failing
from siag.simulation import run as run_module
from siag.simulation.run import ARRAYS, FORMAT


@pytest.fixture(scope="module")
def run():
    return siag.simulate(
        siag.problems.LeastSquares.random(n=4, d=3, p=2, noise=0.1),
        siag.methods.SIAG(),
        siag.activity.Uniform(3),
        siag.steps.Harmonic(0.5, 20),
        iterations=200,
        repeats=3,
        record=40,
    )


@pytest.fixture
def path(run, tmp_path):
    run.save(tmp_path / "run.npz")
    return tmp_path / "run.npz"


def test_what_is_saved_is_what_is_loaded(run, path):
    again = siag.load(path)
    for name in ARRAYS:
        one, two = getattr(run, name), getattr(again, name)
        assert np.array_equal(one, two), name
        assert one.dtype == two.dtype
    assert again.about == run.about


def test_a_path_may_be_a_string_and_needs_no_suffix(run, tmp_path):
    run.save(str(tmp_path / "result"))
    assert np.array_equal(siag.load(str(tmp_path / "result")).w, run.w)


def test_the_arrays_of_a_run_are_read_only(run, path):
    for one in (run, siag.load(path)):
        for name in ARRAYS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(one, name)[...] = 0
    with pytest.raises(AttributeError):
        run.t = run.t


def test_saving_leaves_nothing_else_behind(path):
    assert [found.name for found in path.parent.iterdir()] == ["run.npz"]


def test_a_save_that_fails_leaves_the_old_file_as_it_was(run, path, monkeypatch):
    before = path.read_bytes()

    def disk_full(stream, **arrays):
        stream.write(b"half of it")
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(run_module.np, "savez_compressed", disk_full)
    with failing(errno.ENOSPC):
        run.save(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == ["run.npz"]


def refused(path):
    """The message with which the file is refused: one line that names it."""
    with pytest.raises(siag.BadFile) as caught:
        siag.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_a_missing_file_is_refused(tmp_path):
    assert "nothing.npz" in refused(tmp_path / "nothing.npz")


@pytest.mark.parametrize("content", [b"", b"t,error\n0,1\n", b"PK\x03\x04", b"\x80\x04K\x01.", bytes(1000)])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "else.npz").write_bytes(content)
    assert "not a run, or a damaged one; write it with Run.save" in refused(tmp_path / "else.npz")


def test_a_folder_is_refused(tmp_path):
    assert str(tmp_path) in refused(tmp_path)


def test_arrays_of_another_program_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "some.npz", a=np.arange(3))
    assert "one.npy" in refused(tmp_path / "one.npy")
    assert "some.npz" in refused(tmp_path / "some.npz")


@pytest.mark.parametrize("about", [{"format": "siag-run-99"}, {}, [], "text", 1])
def test_another_format_is_refused(run, tmp_path, about):
    arrays = {name: getattr(run, name) for name in ARRAYS}
    np.savez(tmp_path / "other.npz", about=np.array(json.dumps(about)), **arrays)
    refused(tmp_path / "other.npz")


def test_a_format_from_the_future_is_refused_with_the_format_known_here(run, tmp_path):
    arrays = {name: getattr(run, name) for name in ARRAYS}
    np.savez(tmp_path / "new.npz", about=np.array('{"format": "siag-run-2"}'), **arrays)
    assert f"not of format {FORMAT}" in refused(tmp_path / "new.npz")


def test_a_truncated_file_is_refused_wherever_it_ends(path):
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        refused(path)


def test_a_file_that_is_refused_is_closed_again(path):
    path.write_bytes(path.read_bytes()[:100])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refused(path)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_a_damaged_file_is_refused_or_read_without_loss(run, path):
    # Some bytes of an archive carry nothing (dates, for instance); damage to the others must not go unnoticed.
    whole, noticed = path.read_bytes(), 0
    for where in range(0, len(whole), 13):
        path.write_bytes(whole[:where] + bytes([whole[where] ^ 0x55]) + whole[where + 1 :])
        try:
            again = siag.load(path)
        except siag.BadFile:
            noticed += 1
        else:
            assert all(np.array_equal(getattr(again, name), getattr(run, name)) for name in ARRAYS)
    assert noticed > len(whole) // 13 // 2


def test_plot_draws_on_the_given_axes_and_returns_them(run):
    ax = Figure().subplots()
    assert run.plot(ax, color="C3", label="sIAG") is ax
    (line,) = ax.get_lines()
    assert line.get_label() == "sIAG"
    np.testing.assert_array_equal(line.get_xdata(), run.t[1:])
    np.testing.assert_array_equal(line.get_ydata(), run.mean[1:])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert len(ax.collections) == 1  # the band
    ax.figure.savefig(io.BytesIO(), format="png")  # warnings are errors here: all its glyphs are there


def test_plot_without_axes_makes_its_own_with_labels(run):
    from matplotlib import pyplot

    with mpl.rc_context():
        pyplot.switch_backend("agg")
        ax = run.plot()
        assert "iteration" in ax.get_xlabel()
        assert "SIAG" in ax.get_title()
        ax.figure.savefig(io.BytesIO(), format="png")
        pyplot.close(ax.figure)


def test_plot_of_a_diverged_run_shows_what_there_is(run):
    error = np.array(run.error)
    error[:, 20:] = np.nan
    partial = siag.Run(run.t, error, run.samples, run.time, run.w, np.array([50, 50, 50]))
    ax = partial.plot(Figure().subplots())
    assert len(ax.get_lines()[0].get_xdata()) == 19


LIVE = {"method": "SIAG()", "activity": "live, 2 processes on one machine", "ended": "all workers have left"}


def live(error, last=40, **about):
    """A live run of two workers, one report a version, ten in a second."""
    t = np.arange(last + 1)
    error = np.full(t.size, np.nan) if error is None else error(t)
    return siag.Run(t, error[None], t[None], t[None] / 10, np.zeros((1, 2)), np.array([-1]), {**LIVE, **about})


def drawn(run, **options):
    """The axes that `plot` makes, rendered: warnings are errors here."""
    from matplotlib import pyplot

    with mpl.rc_context():
        pyplot.switch_backend("agg")
        ax = run.plot(**options)
        ax.figure.savefig(io.BytesIO(), format="png")
        pyplot.close(ax.figure)
    return ax


@pytest.mark.parametrize(
    ("x", "along", "up"),
    [
        (None, "seconds", "gradients computed"),
        ("t", "iteration t", "gradients computed"),
        ("samples", "gradients computed", "iteration t"),
    ],
)
def test_a_run_without_a_loss_shows_its_pace_and_says_so(x, along, up):
    run = live(None)
    ax = drawn(run, x=x)
    assert (run.measure, ax.get_xlabel(), ax.get_ylabel()) == ("", along, up)
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    (line,) = ax.get_lines()
    assert line.get_ydata().tolist() == list(range(41))
    assert "no loss was recorded" in ax.texts[0].get_text()


def test_a_pace_does_not_go_among_errors(run):
    ax = run.plot(Figure().subplots())
    live(None).plot(ax, label="live")
    assert len(ax.get_lines()[1].get_xdata()) == 0
    assert (ax.get_xscale(), ax.get_yscale(), len(ax.texts)) == ("log", "log", 0)


def test_a_loss_is_labelled_as_what_it_is(run):
    ax = drawn(live(lambda t: 1.0 / (1 + t), measure="loss"))
    assert (ax.get_ylabel(), ax.get_yscale()) == ("loss", "log")
    assert drawn(live(lambda t: 1.0 / (1 + t)), x="time").get_xlabel() == "seconds"
    assert drawn(live(lambda t: 1.0 / (1 + t))).get_ylabel() == "‖wᵗ − w*‖²"
    assert drawn(run).get_ylabel() == "‖wᵗ − w*‖², mean over repeats"
    assert drawn(run, x="time").get_xlabel() == "time"


def test_a_loss_below_zero_is_drawn_whole():
    ax = drawn(live(lambda t: 3.0 - t, measure="loss"))
    assert ax.get_yscale() == "linear"
    low, high = ax.get_ylim()
    assert low <= -37.0 < 2.0 <= high


@pytest.mark.parametrize("error", [None, lambda t: 1.0 + t])
def test_a_run_of_one_point_says_that_no_step_was_taken(error):
    ax = drawn(live(error, last=0))
    assert [text.get_text() for text in ax.texts] == ["no step was taken"]


def test_a_long_title_fits_into_the_figure():
    about = {"method": "SIAG(resum=64, wait=0.0, rows='float64')"}
    ax = drawn(live(None, **about))
    box = ax.title.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= ax.figure.bbox.width
