"""Where a server may listen without TLS and tokens."""

import socket

import pytest
from certified import one_line

from siag.foundations.errors import BadInput
from siag.live.security import check_binding, check_open


@pytest.fixture
def names(monkeypatch):
    """A resolver with three names; addresses resolve to themselves as ever."""
    known = {"here": ["127.0.1.1", "::1"], "both": ["127.0.0.1", "192.0.2.7"], "there": ["192.0.2.7"]}
    resolve = socket.getaddrinfo

    def look(host, port, *args, **kwargs):
        if host in known:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in known[host]]
        if any(letter in "ghijklmnopqrstuvwyz" for letter in host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look)


LOOPBACK = ["localhost", "LOCALHOST", "127.0.0.1", "127.255.1.2", "::1", "::ffff:127.0.0.1", "here"]
OPEN = ["", "0.0.0.0", "::", "192.0.2.7", "128.0.0.1", "::2", "::ffff:192.0.2.7", "both", "there"]


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_nothing(host):
    check_binding(host, tls=False, tokens=False, insecure=False)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", OPEN)
def test_other_machines_need_tls_and_tokens_or_a_word(host):
    check_binding(host, tls=True, tokens=True, insecure=False)
    check_binding(host, tls=False, tokens=False, insecure=True)
    for tls, tokens in ((False, False), (True, False), (False, True)):
        with pytest.raises(BadInput, match=r"^host = .*loopback.* or insecure") as error:
            check_binding(host, tls=tls, tokens=tokens, insecure=False)
        line = one_line(error)
        assert ("certificate" in line) != tls
        assert ("give tokens" in line or "and tokens" in line) != tokens


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", ["nowhere", "x" * 64 + ".org", "[::1]", "127.0.0.1:80"])
def test_what_does_not_resolve_is_refused(host):
    with pytest.raises(BadInput, match=r"^host = .*resolves") as error:
        check_binding(host, tls=False, tokens=False, insecure=False)
    one_line(error)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", [*LOOPBACK, *OPEN])
def test_what_anybody_may_read_is_shown_to_other_machines_only_if_that_was_said(host):
    check_open("metrics", host, insecure=True)
    if host in LOOPBACK:
        check_open("metrics", host, insecure=False)
    else:
        with pytest.raises(BadInput, match=r"^metrics = .*loopback.*; give insecure") as error:
            check_open("metrics", host, insecure=False)
        one_line(error)
