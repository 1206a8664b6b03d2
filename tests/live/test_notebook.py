"""Functions that no other process can import reach local workers: those of a notebook, a session, lambdas."""

import numpy as np
import pytest

import siag
from siag.foundations.errors import BadInput
from siag.live.by_value import ByValue, sendable
from siag.problems import LeastSquares

STEP = siag.steps.Constant(0.1)

CELLS = """
import numpy as np
import siag

SCALE = 2.0

def gradient(w, sample):
    return SCALE * (w - sample)

def north():
    while True:
        yield np.full(3, 1.0)

class South:
    def __iter__(self):
        while True:
            yield np.full(3, 3.0)
---
step = siag.steps.Constant(0.1)
for stream in (north, South()):
    run = siag.train(gradient, [stream], np.zeros(3), step=step, until=200, progress=False)
    print(run.w.round(3).tolist(), run.about["ending"])
run
"""


class Kernel:
    """A real kernel of Jupyter, in a process of its own."""

    def __enter__(self):
        from jupyter_client.manager import start_new_kernel

        self._manager, self._client = start_new_kernel(kernel_name="python3")
        return self

    def __exit__(self, *error):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def run(self, cell):
        """What a cell prints and shows."""
        told = []
        self._client.execute_interactive(cell, timeout=90, output_hook=told.append)
        return [message["content"] for message in told]


@pytest.mark.thorough
def test_what_was_typed_into_a_notebook_reaches_the_workers_and_the_run_shows_itself():
    with Kernel() as kernel:
        first, second = CELLS.split("---\n")
        assert not any("ename" in content for content in kernel.run(first))
        told = kernel.run(second)
    printed = "".join(content.get("text", "") for content in told if content.get("name") == "stdout")
    assert printed == "[[1.0, 1.0, 1.0]] reached\n[[3.0, 3.0, 3.0]] reached\n", told
    (shown,) = [content["data"]["text/html"] for content in told if "data" in content]
    assert shown.startswith("<table>")
    assert shown.rstrip().endswith("</svg>")


def test_a_lambda_and_a_closure_reach_the_workers():
    level = 3.0

    def stream():
        while True:
            yield np.full(2, level)

    run = siag.train(lambda w, x: w - x, [stream], np.zeros(2), step=STEP, until=200, progress=False)
    assert np.allclose(run.w[0], level, atol=1e-3)


def test_what_has_a_name_is_sent_by_it():
    assert sendable(np.mean) is np.mean
    assert isinstance(sendable(lambda: 0), ByValue)


def test_what_no_way_can_send_is_refused_with_a_remedy():
    with pytest.raises(BadInput, match=r"^streams\[0\] = .*can be pickled .*; give the function that makes it"):
        siag.train(abs, [(x for x in [1.0])], np.zeros(1), step=STEP, until=5)


def test_a_problem_must_have_a_name():
    class Own(LeastSquares):
        pass

    own = Own(np.eye(2), p=2, noise=0.1)
    with pytest.raises(BadInput, match=r"^problem = .*: must be of a class that workers can import"):
        siag.train(problem=own, step=STEP, until=5)
