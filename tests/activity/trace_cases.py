"""Histories of live runs, as they are written and read."""

import math

from hypothesis import strategies as st

from siag.activity.trace import COLUMNS, FORMAT
from siag.storage.trace_writer import TraceLines

N = 4
HEAD = f'# {FORMAT} {{"workers": 4}}\n' + COLUMNS + "\n"


@st.composite
def histories(draw):
    """Lines (version, worker, stamp, sample, seconds) or (version, worker, factor, seconds) that may have happened.

    The former may have a loss, too.
    """
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
            loss = draw(st.sampled_from([(), (), (0.5,), (-2e30,), (math.inf,)]))
            lines.append((version, i, stamp, sample, seconds, *loss))
            last[i], drawn[i] = version, sample + 1
        version += draw(st.integers(0, 2))
    return lines, version


def put(lines, trace):
    """Hand lines to whoever writes a trace."""
    for line in lines:
        if len(line) > 4:
            trace.report(*line, *[math.nan] * (6 - len(line)))
        else:
            trace.fade(*line)


def texts(lines):
    """Lines as they are in a file."""
    trace = TraceLines()
    put(lines, trace)
    return trace.lines


def lines_of(trace):
    rows = zip(*(getattr(trace, name).tolist() for name in COLUMNS.split(",")), strict=True)
    return [
        (v, i, p, k, s, *[loss] * (not math.isnan(loss))) if math.isnan(f) else (v, i, f, s)
        for v, i, p, k, s, f, loss in rows
    ]
