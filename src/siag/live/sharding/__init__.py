"""One model, several servers: each has a slice of w and of all that the method keeps, and all do the same in one order.

The first server is the lead. It knows the workers, guards, decides and keeps the trace, as a single server does. The
others follow: what the lead has done to its slice they do to theirs, when it orders so. So the slices together are, to
the bit, the state of a single server that got the same reports. docs/protocol.md says what they say to each other.

- What a shard is: `slices`. What the lead orders: `orders`.
- The lead: `assembled` puts it together, `lead` is the server, `link` its end of the connection to a follower,
  `connections` its workers' connections.
- A follower: `follower` is the process, `follower_connections` its connections, `slice_server` what it keeps.
- A worker: `worker_slices` says what goes where, `client` carries it.
- What is on disk: `saves`.
"""

from siag.live.sharding.follower import Follower
from siag.live.sharding.orders import ShardLost
from siag.live.sharding.slices import bounds

__all__ = ["Follower", "ShardLost", "bounds"]
