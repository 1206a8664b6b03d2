"""Traces: what a live run leaves behind is read as it was written, refused if it cannot be, and runs again."""

import gzip

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.activity.trace_cases import HEAD, N, histories, lines_of, texts

import siag
from refusals import refused
from siag.activity import EveryArrivals, Tick, Trace
from siag.activity.agenda import FADE, FORGET, STEP
from siag.activity.trace import COLUMNS, FORMAT, _columns
from siag.foundations.errors import BadFile, Unsuitable
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import compute
from siag.server import DROP, KEEP, Departed, Guard, ParameterServer, Refused
from siag.storage.trace_writer import TraceLines

quick = settings(deadline=None, max_examples=60)
D = 3
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.1, seed=2)
STEPS = siag.steps.Harmonic(beta=0.3, gamma=40)


def traced(lines, end=None, name="t"):
    """The trace with these lines; `end=None`: as a crash leaves it."""
    return Trace.parse(name, written(lines, end, name))


def written(lines, end=None, name="t"):
    last = "" if end is None else f"# end {end}\n"
    content = "".join([HEAD, *texts(lines), last]).encode()
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@quick
@given(histories(), st.floats(0, 1), st.sampled_from([b"", bytes(600), b"\x03\xff12,"]))
def test_a_torn_file_is_read_as_far_as_it_goes(name, history, share, garbage):
    """Cut anywhere, and whatever the disk has put in place of the rest, it has the first of its lines and no others."""
    lines, _ = history
    raw = written(lines, name=name)
    least = len(HEAD) if name == "t.csv" else 0
    cut = round(least + share * (len(raw) - least))
    try:
        trace = Trace.parse(name, raw[:cut] + (garbage if name == "t.csv" else b""))
    except BadFile as error:
        assert "not a trace" in str(error)  # noqa: PT017  # not even the head has come through
        assert share < 1
        return
    found = lines_of(trace)
    assert found == lines[: len(found)]
    if share == 1:
        assert found == lines
    reports = [line[0] + 1 for line in found if len(line) > 4]
    assert trace.length == max(reports + [line[0] for line in found], default=0)


def test_what_was_run_is_in_the_first_line():
    head = f'# {FORMAT} {{"workers": 4, "seed": 7}}\n{COLUMNS}\n'
    assert Trace.parse("t", head.encode()).about == {"workers": 4, "seed": 7}


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("0,4,0,0,0.1,,\n", r"line 3: names a worker that is not among the 4 \(worker 4\)"),
        ("0,0,0,0,0.1,,\n0,-1,0,0,0.1,,\n", "line 4: names a worker below 0"),
        ("0,0,0,0,0.2,,\n1,0,1,1,0.1,,\n", "line 4: goes back in time"),
        ("1,0,1,0,0.1,,\n0,1,0,0,0.1,,\n", "line 4: goes back in time"),
        ("-1,0,0,0,0.1,,\n", "line 3: goes back in time"),
        ("0,0,0,0,-0.1,,\n", "line 3: goes back in time"),
        ("0,0,0,0,0.1,,\n1,1,2,0,0.1,,\n", "line 4: has a stamp from the future"),
        ("0,0,-1,0,0.1,,\n", "line 3: has a stamp from the future, or below 0"),
        ("0,0,0,-1,0.1,,\n", "line 3: has a sample below 0"),
        ("0,0,0,3,0.1,,\n1,1,1,3,0.1,,\n1,0,1,3,0.1,,\n", r"line 5: goes back to a sample.*\(worker 0\)"),
        ("0,2,0,0,0.1,,\n2,2,0,1,0.1,,\n3,2,1,2,0.1,,\n", r"line 5: goes back to .* version .*\(worker 2\)"),
        ("0,0,0,0,0.1,,\n1,1,,,0.1,0.5,\n5,0,5,1,0.1,,\n# end 3\n", "line 5: comes after the end, at version 3"),
        ("0,0,0,0,0.1,\n", "line 3: not of the form version,worker,stamp,sample,seconds,factor,loss"),
        ("0,0,0,0,0.1,,\n0,0,0,0,0.1,,,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,,\n0,0,0,0,0.1,,much\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,,\n0,0,,0,0.1,,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,,\n0,0,,,0.1,,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,0.5,\n", "line 3: not of the form"),
        ("0,0,,,0.1,nan,\n", "line 3: not of the form"),
        ("0,0,,,0.1,-0.5,\n", "line 3: not of the form"),
        ("0,0,,,0.1,1.5,\n", "line 3: not of the form"),
        ("0,0,0,0,nan,,\n", "line 3: not of the form"),
        ("0,0,0,0,inf,,\n", "line 3: not of the form"),
        ("0,0,0,0,0.1,,\n0,1,0,99999999999999999999,0.1,,\n", "line 4: not of the form"),
        ("0,0,0,0.5,0.1,,\n", "line 3: not of the form"),
        ("0,0,0,0,0.1,,\n\n1,0,1,1,0.1,,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,,\n# end 1\n1,0,1,1,0.1,,\n", "line 4: not of the form"),
        ("0,0,0,0,0.1,,\n# end soon\n", "line 4: '# end soon' does not say how many steps"),
        ("0,0,0,0,0.1,,\n# end -1\n", "line 4: '# end -1' does not say"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_trace_that_cannot_have_happened_is_refused_with_file_and_line(tmp_path, name, body, words):
    path = tmp_path / name
    content = (HEAD + body).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    with pytest.raises(BadFile, match=rf"{name}, {words}"):
        Trace.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello\n",
        b"\x89PNG\r\n\x1a\n\xff\xfe",
        b"# siag-trace-1 {}\n" + COLUMNS.encode() + b"\n",
        b"# siag-trace-2 {}\nversion,worker\n",
        b"# siag-trace-2 {}\n",
        gzip.compress(b"hello\n", mtime=0),
        gzip.compress(HEAD.encode(), mtime=0)[:12],
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_foreign_file_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadFile, match=rf"{name}: not a (trace of format siag-trace-2; siag serve|text; give)"):
        Trace.read(tmp_path / name)


def test_a_head_that_is_not_json_is_refused_with_its_line(tmp_path):
    for head in ("{broken", '{"a": }', "{" + '{"a":' * 100_000):
        (tmp_path / "t").write_text(f"# {FORMAT} {head}\n{COLUMNS}\n")
        with pytest.raises(BadFile, match="t, line 1: what was run is not in JSON"):
            Trace.read(tmp_path / "t")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadFile, match="nothing: no such file or directory; give the path of a trace"):
        Trace.read(tmp_path / "nothing")
    with pytest.raises(BadFile, match="is a directory"):
        Trace.read(tmp_path)


def plain_columns(lines):
    """Line by line, written to be read."""
    rows = []
    for line in lines:
        version, worker, stamp, sample, seconds, factor, loss = line.split(",")
        if factor:
            rows.append((int(version), int(worker), 0, 0, float(seconds), float(factor), np.nan))
        else:
            rows.append(
                (int(version), int(worker), int(stamp), int(sample), float(seconds), np.nan, float(loss or "nan"))
            )
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 7


@quick
@given(histories())
def test_reading_by_columns_is_reading_line_by_line(history):
    lines = [line.removesuffix("\n") for line in texts(history[0])]
    for fast, plain in zip(_columns(lines), plain_columns(lines), strict=True):
        assert np.array_equal(fast, np.array(plain, fast.dtype), equal_nan=fast.dtype == float)


def test_a_worker_that_numbers_its_samples_beyond_all_bounds_does_not_exhaust_the_memory():
    trace = traced([(0, 0, 0, 2**53, 0.0)], 1)
    with pytest.raises(Unsuitable, match="its samples may be numbered wrongly"):
        again(trace, siag.methods.SIAG())


# Events --------------------------------------------------------------------------------------------------------------


def history_of(trace, iterations, cost=1 << 21):
    parts = [tuple(map(np.copy, chunk)) for chunk in trace.events(N, iterations, seed=0, repeat=0, cost=cost)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


@quick
@given(histories(), st.floats(0, 1))
def test_the_invariants_hold_for_every_trace_and_any_part_of_it(history, share):
    lines, end = history
    assume(end > 0)
    trace = traced(lines, end)
    iterations = max(1, round(share * end))
    code, age, time, factor = history_of(trace, iterations)
    assert (np.diff(time, prepend=0.0) >= 0).all()
    version, read, drawn, found = 0, {}, [0] * N, []
    for c, a, now, f in zip(code.tolist(), age.tolist(), time.tolist(), factor.tolist(), strict=True):
        if c == STEP:
            version += 1
        elif c <= FADE + N:
            found.append((version, c - FADE, f, now))
        elif c < 0:
            read[-1 - c] = version
            drawn[-1 - c] += 1
        else:
            stamp = read.pop(c)
            assert a == version - stamp
            found.append((version, c, stamp, drawn[c] - 1, now))
    assert version == iterations
    assert code[-1] == STEP
    assert found == [line[:5] for line in lines if line[0] < iterations]
    for one, two in zip((code, age, time, factor), history_of(trace, iterations, cost=1), strict=True):
        assert np.array_equal(one, two, equal_nan=one.dtype == float)


def test_more_steps_than_were_taken_and_fewer_workers_than_reported_are_refused():
    trace = traced([(0, 3, 0, 0, 0.5), (1, 0, 0, 0, 0.5)], 2)
    with refused("iterations"):
        siag.simulate(PROBLEM, siag.methods.SIAG(), trace, STEPS, iterations=3)
    small = siag.problems.LeastSquares.random(n=3, d=D, p=2, noise=0.1)
    with refused("trace"):
        siag.simulate(small, siag.methods.SIAG(), trace, STEPS, iterations=2)
    with pytest.raises(Unsuitable, match="a Trace has no fixed iterations"):
        siag.theory.exact_error(PROBLEM, siag.methods.SIAG(), trace, STEPS, iterations=2)


def test_the_last_step_is_as_late_as_the_last_report_it_took():
    """Not as one that came after it."""
    trace = traced([(0, 0, 0, 0, 1.0), (1, 1, 0, 0, 3.0), (2, 2, 0, 0, 9.0)], 2)
    run = again(trace, siag.methods.SIAG())
    assert run.time[0].tolist() == [0.0, 1.0, 3.0]


@quick
@given(histories())
def test_recorded_are_the_sets_of_those_who_reported(history):
    lines, end = history
    assume(end > 0)
    tape = traced(lines, end).recorded.tape
    sets = [sorted({line[1] for line in lines if len(line) > 4 and line[0] == t}) for t in range(end)]
    assert [workers.tolist() for workers in np.split(tape.worker, tape.start[1:-1])] == sets


# The same run again --------------------------------------------------------------------------------------------------


def again(trace, method, seed=0, **options):
    return siag.simulate(PROBLEM, method, trace, STEPS, iterations=trace.length, seed=seed, record=10**4, **options)


class Hand:
    """Workers of a problem, moved by hand, on a server that is traced."""

    def __init__(self, method, server, departed, seed):
        self.server = ParameterServer(
            method, STEPS, np.zeros(D), N, server=server, departed=departed, guard=Guard(jump=None, strikes=10**6)
        )
        self.server.trace = TraceLines()
        self.oracle, self.memory = PROBLEM.oracle(), method.recruit(np.zeros(D), N)
        self.seed, self.now, self.drawn, self.flying = seed, 0.0, [0] * N, {}
        self.errors = [float(np.square(PROBLEM.optimum).sum())]

    def traced(self):
        """The run so far."""
        text = "".join([HEAD, *self.server.trace.lines, f"# end {self.server.version}\n"])
        return Trace.parse("t", text.encode())

    def read(self, i):
        """What it had computed before, and not reported, is lost."""
        rng, message = blank(), np.empty(D)
        rewind(rng, key(self.seed, 0, SAMPLES), i, self.drawn[i])
        compute(self.memory, self.oracle, rng, i, self.server.w, message)
        self.flying[i] = (self.server.version, message, self.drawn[i])
        self.drawn[i] += 1

    def play(self, what, i, seconds):
        self.now += seconds
        server = self.server
        if what == "read":
            self.read(i)
        elif what == "report" and i in self.flying:
            stamp, message, sample = self.flying.pop(i)
            server.push(i, stamp, message, sample, self.now)
        elif what == "bad" and i in self.flying:
            stamp, message, sample = self.flying.pop(i)
            with pytest.raises(Refused):
                server.push(i, stamp, message * np.nan, sample, self.now)
        elif what == "leave":
            server.leave(i, self.now)
        elif what == "tick" and isinstance(server.pace, Tick):
            server.tick(self.now)
        if server.version == len(self.errors):
            self.errors.append(float(np.square(server.w - PROBLEM.optimum).sum()))


moves = st.tuples(
    st.sampled_from(["read"] * 6 + ["report"] * 6 + ["tick"] * 3 + ["leave", "bad"]),
    st.integers(0, N - 1),
    st.sampled_from([0.0, 0.001, 0.5]),
)
METHODS = [
    siag.methods.SIAG(),
    siag.methods.SIAG(resum=1, rows="float32", wait=0.5),
    siag.methods.SIAG(average=3),
    siag.methods.SGD(),
    siag.methods.IAG(),
]


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS, ids=repr)
@settings(deadline=None, max_examples=40)
@given(
    plan=st.lists(moves, min_size=20, max_size=120),
    server=st.sampled_from([EveryArrivals(), EveryArrivals(3), Tick(1.0)]),
    departed=st.sampled_from([KEEP, DROP, Departed(1.0), Departed(20.0)]),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_live_run_is_repeated_bit_for_bit(method, plan, server, departed, seed):
    hand = Hand(method, server, departed, seed)
    for move in plan:
        hand.play(*move)
    live = hand.server
    trace = hand.traced()
    assert trace.length == live.version
    assert (np.isnan(trace.factor).sum(), (~np.isnan(trace.factor)).sum()) == (live.reports, live.fades)
    assume(live.version > 0)
    run = again(trace, method, seed)
    assert np.array_equal(run.w[0], live.w)
    np.testing.assert_allclose(run.error[0], np.array(hand.errors)[run.t], rtol=1e-12)
    # Any shorter part of it is that part.
    half = (live.version + 1) // 2
    part = siag.simulate(PROBLEM, method, trace, STEPS, iterations=half, seed=seed, record=10**4)
    assert np.array_equal(part.error[0], run.error[0, : half + 1])
    assert np.array_equal(part.time[0], run.time[0, : half + 1])


def test_a_trace_runs_as_plain_python_too():
    hand = Hand(siag.methods.SIAG(), EveryArrivals(2), Departed(2.0), seed=3)
    rng = np.random.default_rng(0)
    for k in range(200):
        hand.play(("read", "report")[k % 2], int(rng.integers(N)), 0.1)
        if k == 100:
            hand.play("leave", 2, 0.0)
    trace = hand.traced()
    fast, slow = (again(trace, siag.methods.SIAG(), 3, compiled=compiled) for compiled in (True, False))
    assert np.array_equal(fast.w, slow.w)
    assert np.array_equal(fast.w[0], hand.server.w)


@pytest.mark.parametrize("factor", ["-0.5", "-2.0", "1.5", "-1.0000001"])
def test_no_other_number_below_zero_is_a_factor(tmp_path, factor):
    (tmp_path / "a.trace").write_text(f'# {FORMAT} {{"workers": 2}}\n{COLUMNS}\n0,1,,,0.5,{factor},\n# end 1\n')
    with pytest.raises(BadFile, match="line 3"):
        Trace.read(tmp_path / "a.trace")


def codes_of(tmp_path, lines, versions):
    text = "\n".join([f'# {FORMAT} {{"workers": 3}}', COLUMNS, *lines, f"# end {versions}", ""])
    (tmp_path / "a.trace").write_text(text)
    (events,) = Trace.read(tmp_path / "a.trace").events(3, versions, 0, 0, 1)
    names = {STEP: "step"} | {-1 - i: f"read {i}" for i in range(3)} | {i: f"arrive {i}" for i in range(3)}
    names |= {FORGET + i: f"forget {i}" for i in range(3)} | {FADE + i: f"fade {i}" for i in range(3)}
    return [names[code] for code in events.code.tolist()]


def test_what_was_lost_with_a_memory_is_read_before_and_the_next_read_comes_after(tmp_path):
    lines = ["0,0,0,0,0.1,,", "1,0,,,0.2,-1.0,", "1,0,1,2,0.3,,"]  # sample 1 was refused at version 1
    events = ["read 0", "arrive 0", "step", "read 0", "forget 0", "read 0", "arrive 0", "step"]
    assert codes_of(tmp_path, lines, 2) == events


def test_a_read_some_versions_after_a_memory_was_lost_stays_where_its_stamp_says(tmp_path):
    lines = ["0,0,0,0,0.1,,", "0,1,,,0.2,-1.0,", "1,1,1,1,0.4,,"]
    events = ["read 0", "arrive 0", "read 1", "forget 1", "step", "read 1", "arrive 1", "step"]
    assert codes_of(tmp_path, lines, 2) == events


def test_a_memory_lost_twice_is_read_for_before_the_second_time(tmp_path):
    lines = ["0,0,,,0.1,-1.0,", "0,0,,,0.2,-1.0,", "0,0,0,2,0.3,,"]
    assert codes_of(tmp_path, lines, 1) == ["forget 0", "read 0", "read 0", "forget 0", "read 0", "arrive 0", "step"]


def test_a_sample_that_went_missing_without_a_word_is_read_where_the_next_one_is(tmp_path):
    lines = ["0,0,0,0,0.1,,", "1,1,,,0.2,-1.0,", "2,0,1,2,0.3,,"]  # what was lost is another's
    events = ["read 0", "arrive 0", "step", "read 0", "read 0", "forget 1", "step", "arrive 0", "step"]
    assert codes_of(tmp_path, lines, 3) == events
