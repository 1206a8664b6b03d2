"""Certificates for tests, and two ends that shake hands."""

import os
import socket
import threading

import pytest

from siag.live.security import Tokens

HOSTS = ["params.example.org", "10.1.2.3", "fd00::1", "*.lab.example", "bücher.example", "param_server"]
POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX matter")


def certificate(path):
    from cryptography import x509

    return x509.load_pem_x509_certificate(path.read_bytes())


def handshake(server, client, name):
    """What the client receives and the TLS version; raises what the client raises."""
    left, right = socket.socketpair()
    left.settimeout(5)
    right.settimeout(5)

    def serve():
        try:
            with server.wrap_socket(left, server_side=True) as stream:
                stream.sendall(b"hello " + stream.recv(16))
        except OSError:  # the client refused; ssl.SSLError is one too
            left.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        with client.wrap_socket(right, server_hostname=name) as stream:
            stream.sendall(b"worker")
            return stream.recv(32), stream.version()
    finally:
        right.close()
        thread.join(5)
        assert not thread.is_alive()


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


def load(path, names=("0", "1", "2")):
    return Tokens.load(path, names)
