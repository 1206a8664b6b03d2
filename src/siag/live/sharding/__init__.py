"""One model, several servers: each has a slice of w and of all that the method keeps, and all do the same in one order.

One server is the lead: it knows the workers, guards, decides and keeps the trace, as a single server does. The others
follow: what the lead has done to its slice they do to theirs, when it says so. So the slices together are, to the bit,
the state of a single server that got the same reports. docs/protocol.md says what they say to each other.
"""

from siag.live.sharding.follower import Follower
from siag.live.sharding.orders import ShardLost
from siag.live.sharding.slices import bounds

__all__ = ["Follower", "ShardLost", "bounds"]
