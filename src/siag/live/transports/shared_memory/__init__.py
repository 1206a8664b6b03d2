"""The embedded runtime: worker processes on this machine, and a server in the calling one, over shared memory.

Each worker has a row of shared memory for what it sends and one for what it is sent, so that nothing is copied on the
way but w itself, which only the server writes. A worker rings by writing four bytes to a pipe that all share. The
server answers with one byte on a pipe of the worker's own. Where cores are free, both look for a moment before they
sleep. When the server's process ends, for whatever reason, the workers find their pipes closed and end too. The memory
has no name and goes with the last process that has it.
"""

from siag.live.transports.shared_memory.server import SharedMemory

__all__ = ["SharedMemory"]
