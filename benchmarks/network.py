"""A network with only `lo` for the sides that start Ray or Flower, which then depend on no interface of this machine.

`python -m benchmarks.network COMMAND …` runs a command in one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

WAYS = (["--net"], ["--user", "--map-root-user", "--net"])  # as root, or where users may have namespaces
LOOPBACK = 'ip link set lo up && exec "$@"'


def alone(command: Sequence[str | Path]) -> list[str | Path]:
    """The command that runs another one in a network of its own; the same command where the machine allows none."""
    return [*_prefix(), *command]


@cache
def _prefix() -> tuple[str, ...]:
    for way in WAYS:
        prefix = ("unshare", *way, "sh", "-c", LOOPBACK, "sh")
        try:
            if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
                return prefix
        except OSError:
            break  # there is no unshare
    return ()


if __name__ == "__main__":
    wanted = [str(word) for word in alone(sys.argv[1:])]
    os.execvp(wanted[0], wanted)
