"""Who watches a run: what the user asked for, and the dashboard, if there is to be one."""

from __future__ import annotations

from siag.live.monitor.dashboard.place import Wanted, dashboard_of
from siag.live.monitor.watch import Problems, Progress, Quiet, Several, Watcher, tell_problem, watcher_of


def watchers_of(progress: Progress, wanted: Wanted) -> Watcher:
    """The user's watcher; with a dashboard that is open both, and the user is told where it is."""
    watcher, dashboard = watcher_of(progress), dashboard_of(wanted)
    if dashboard is None:
        return watcher
    from siag.live.monitor.dashboard.server import Served

    served = Served(dashboard)
    if progress is not False:  # also where remarks are not shown
        tell_problem(Problems() if type(watcher) is Quiet else watcher, f"dashboard at {served.address}")
    return Several([watcher, served])
