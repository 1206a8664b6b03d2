"""One model, several servers: each has a slice of w and of all that the method keeps, and all do the same in one order.

The first server is the lead. It knows the workers, guards, decides and keeps the trace, as a single server does. The
others follow: what the lead has done to its slice they do to theirs, when it orders so. So the slices together are, to
the bit, the state of a single server that got the same reports. docs/reference/protocol.md has their messages.

- What a shard is, and its saves: `slices`. What the lead orders, and what an order does to a slice: `orders`.
- The servers: `lead` and `follower`, and the lead's end of the connection between them, `link`.
- A worker: `worker_slices` says what goes where, `client` carries it.
"""

from siag.live.sharding.follower import Follower
from siag.live.sharding.orders import ShardLost
from siag.live.sharding.slices import bounds

__all__ = ["Follower", "ShardLost", "bounds"]
