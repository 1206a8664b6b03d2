"""The live system under faults: a few hundred seeds here, thousands by `make torture`; and it finds deliberate bugs."""

import pytest
from tests.torture.bugs import BUGS, Bug, found_by
from tests.torture.options import Options
from tests.torture.runs import torment, torture_of

SEEDS, TOGETHER = 200, 25


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        torment(seed)


@pytest.mark.parametrize("seed", [5, 18])
def test_a_seed_is_the_same_each_time(seed: int) -> None:
    ends = []
    for _ in range(2):
        torture = torture_of(seed)
        torture.run()
        ends.append((torture.world.now, torture.shadow.lines, torture.disk.rng.random(), torture.rng.random()))
    assert ends[0] == ends[1]


def test_seeds_stand_for_all_kinds_of_faults() -> None:
    drawn = [Options.draw(seed) for seed in range(SEEDS)]
    always = ("cuts", "stalls", "half_open", "kills", "server_kills", "power", "jumps", "disk_trouble")
    for name in (*always, "newcomers", "relays", "relay_kills"):
        share = sum(getattr(options, name) > 0 for options in drawn) / SEEDS
        assert 0.1 < share < 0.9, name
    assert {options.shards for options in drawn} == {1, 2, 3}
    for name in ("relay_folder", "chained", "durable", "newcomers"):
        assert {bool(getattr(options, name)) for options in drawn if options.relays} == {True, False}, name
    assert {options.durable for options in drawn} == {options.traced for options in drawn} == {True, False}


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_deliberate_bug_is_found(bug: Bug) -> None:
    assert found_by(bug, range(bug.first, bug.first + 2000)) is not None
