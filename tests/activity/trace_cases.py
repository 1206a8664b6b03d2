"""Histories of live runs, as they are written and read."""

from hypothesis import strategies as st

from siag.activity.trace import COLUMNS
from siag.storage.trace_writer import TraceLines

N = 4
HEAD = '# siag-trace-1 {"workers": 4}\n' + COLUMNS + "\n"


@st.composite
def histories(draw):
    """Lines (version, worker, stamp, sample, seconds) or (version, worker, factor, seconds) that may have happened."""
    version, seconds, lines = 0, 0.0, []
    last, drawn = [0] * N, [0] * N
    for _ in range(draw(st.integers(0, 40))):
        i = draw(st.integers(0, N - 1))
        seconds = round(seconds + draw(st.sampled_from([0.0, 1e-6, 0.25, 1000.0])), 6)
        if draw(st.integers(0, 9)) == 0:
            lines.append((version, i, draw(st.sampled_from([0.0, 0.5, 0.9170040432046712])), seconds))
        else:
            stamp = draw(st.integers(last[i], version))
            sample = drawn[i] + draw(st.sampled_from([0, 0, 0, 1, 7]))
            lines.append((version, i, stamp, sample, seconds))
            last[i], drawn[i] = version, sample + 1
        version += draw(st.integers(0, 2))
    return lines, version


def put(lines, trace):
    """Hand lines to whoever writes a trace."""
    for line in lines:
        if len(line) == 5:
            trace.report(*line)
        else:
            trace.fade(*line)


def texts(lines):
    """Lines as they are in a file."""
    trace = TraceLines()
    put(lines, trace)
    return trace.lines


def lines_of(trace):
    rows = zip(*(getattr(trace, name).tolist() for name in COLUMNS.split(",")), strict=True)
    return [(v, i, f, s) if f == f else (v, i, p, k, s) for v, i, p, k, s, f in rows]  # noqa: PLR0124  # NaN: a report
