"""A page to watch a run on, in a browser: what it is sent, who is let in, and the thread that serves it."""

from siag.live.monitor.dashboard.place import Dashboard, dashboard_of

__all__ = ["Dashboard", "dashboard_of"]
