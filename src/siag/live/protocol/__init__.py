"""What worker and server say to each other, without I/O: the contract of a transport.

A transport tells a `worker.Worker`, or the `connections.Connections` of a session, what has happened, and carries out
the actions it gets back. `wire` has the frames that travel, `frame_reader` makes frames of bytes.
"""
