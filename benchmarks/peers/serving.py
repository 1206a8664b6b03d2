"""A peer in a process of its own: it answers each line on its input with one line of JSON."""

from __future__ import annotations

import json
import sys


def serve(run):
    """Answer "seed iterations" with what run(seed, iterations) returns; end with the input."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not look like an answer
    for line in sys.stdin:
        seed, iterations = map(int, line.split())
        answers.write(json.dumps(run(seed, iterations)) + "\n")
        answers.flush()
