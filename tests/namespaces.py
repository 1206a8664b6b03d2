"""A network namespace that has only `lo`, for tests that start Ray: they depend on no interface and listen on none."""

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
MARK = "SIAG_TESTS_NETWORK"  # set where it is settled: "alone", or "shared" where the kernel refuses a namespace


def enter_own_network():
    """Leave this machine's network for one of this thread and of all threads and processes it starts from now on.

    Where that is refused, as to users without the privilege, tests run on the machine's network as it is.
    """
    if MARK in os.environ:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    alone = hasattr(libc, "unshare") and libc.unshare(CLONE_NEWNET) == 0
    os.environ[MARK] = "alone" if alone else "shared"
    if alone:
        _bring_up("lo")


def _bring_up(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", interface.encode(), 0)
        _, flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", interface.encode(), flags | IFF_UP))
