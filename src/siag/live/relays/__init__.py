"""Relays: a server to its members and one worker to the root, which it sends the sum of what they have sent.

    members ── REPORT ──► RelayConnections, RelayServer: a row for each member, and their sum
                               │ WEIGHT, REPORT: the sum, for how many, how old
                               ▼
                          RootWorker ──► the root, or another relay

What members read is the root's w, of the root's version, so that ages are true at the root.
"""
