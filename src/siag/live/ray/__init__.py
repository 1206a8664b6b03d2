"""The Ray runtime: Ray places the processes and restarts them; they talk to each other over TCP, as anywhere else.

`runtime` holds the options and checks them, `resources` says what a run asks of a cluster; both do without Ray, which
is an extra. `driver` runs in the user's program: `cluster` connects, `processes` starts the actors of
`server_actor` and `actors`.
"""

from siag.live.ray.runtime import Ray

__all__ = ["Ray"]
