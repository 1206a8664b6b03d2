"""`make torture SEEDS=10000`, or `make torture SEED=123` for one of them, with all that it stands for."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from multiprocessing import Pool

from tests.torture.options import Options
from tests.torture.runs import torment


def attempt(seed: int) -> tuple[int, str]:
    """What is wrong with a seed; "" if nothing is."""
    try:
        torment(seed)
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}"
    return seed, ""


def main() -> int:
    """Try many seeds, or show one."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many to try")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="try this one alone, and show what it stands for")
    given = parser.parse_args()
    if given.seed is not None:
        print(Options.draw(given.seed))
        torment(given.seed)
        print(f"seed {given.seed} passes")
        return 0
    return try_many(range(given.first, given.first + given.seeds))


def try_many(seeds: range) -> int:
    """Try seeds on all cores; one command repeats a seed that fails."""
    began, bad = time.monotonic(), 0
    attempt(seeds[0])  # machine code is made once
    with Pool(os.cpu_count()) as pool:
        for done, (seed, wrong) in enumerate(pool.imap_unordered(attempt, seeds, chunksize=20), start=1):
            if wrong:
                bad += 1
                print(
                    f"\nseed {seed}: {wrong}\n{Options.draw(seed)}\n  repeat it: make torture SEED={seed}", flush=True
                )
            if sys.stderr.isatty():
                print(f"\r{done} of {len(seeds)}", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    print(f"{len(seeds)} seeds, {bad} failed, {seconds:.0f} s on {os.cpu_count()} cores")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError:
        traceback.print_exc()
        sys.exit(1)
