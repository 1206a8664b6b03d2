"""The run that a seed stands for."""

from tests.torture.options import Options
from tests.torture.relays import RelayedTorture
from tests.torture.shards import ShardedTorture
from tests.torture.world import Torture


def kind_of(options: Options) -> type[Torture]:
    """What kind of run it is."""
    return ShardedTorture if options.shards > 1 else RelayedTorture if options.relays else Torture


def torture_of(seed: int) -> Torture:
    """The run that a seed stands for."""
    options = Options.draw(seed)
    return kind_of(options)(options)


def torment(seed: int) -> None:
    """Drive a run through what a seed stands for; `Broken` if a promise is."""
    torture_of(seed).run()
