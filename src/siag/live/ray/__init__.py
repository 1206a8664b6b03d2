"""The Ray runtime: Ray places the processes and starts them again; what they say goes over the network runtime.

`runtime` has what a run is told, `room` and `link` see whether the cluster can take it, `driver` starts the actors of
`lead` and `actors` and watches them, `places` keeps folder and trace where all nodes see them.
"""

from siag.live.ray.runtime import Ray

__all__ = ["Ray"]
