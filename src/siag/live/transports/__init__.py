"""How messages travel between workers and server: a folder each.

What a transport carries is decided in `siag.live.protocol`: it tells `Worker` and `Connections` what has happened, and
carries out their actions. What starts it is a `siag.live.runtime.Runtime`. A whole one is in
docs/tutorials/own_transport.md.
"""
