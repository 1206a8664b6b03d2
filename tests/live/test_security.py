"""Only those with the right certificate or token get in; all else is refused in one line."""

import hashlib
import hmac
import json
import os
import socket
import ssl
import stat
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as some

from siag.foundations.errors import BadFile, BadInput, Missing
from siag.live import security
from siag.live.certificates import make_certificates
from siag.live.security import (
    Tokens,
    check_binding,
    check_open,
    client_context,
    read_token,
    server_context,
)

HOSTS = ["params.example.org", "10.1.2.3", "fd00::1", "*.lab.example", "bücher.example", "param_server"]
POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX matter")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certs")
    make_certificates(folder, hosts=HOSTS, workers=3)
    return folder


def pem(key, encryption=None):
    encryption = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def certificate(path):
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


# Certificates


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "127.0.0.1",
        "params.example.org",
        "10.1.2.3",
        "fd00::1",
        "a.lab.example",
        "bücher.example",
        "param_server",
    ],
)
def test_a_worker_trusts_the_server_under_each_of_its_names(made, name):
    server, client = server_context(made / "server.pem", made / "server.key"), client_context(made / "ca.pem")
    assert handshake(server, client, name) == (b"hello worker", "TLSv1.3")


def test_strict_verification_accepts_the_chain(made):
    server, client = server_context(made / "server.pem", made / "server.key"), client_context(made / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert handshake(server, client, "localhost")[0] == b"hello worker"


@pytest.mark.parametrize("name", ["other.example.org", "10.1.2.4", "lab.example", "a.b.lab.example"])
def test_another_name_is_refused(made, name):
    server, client = server_context(made / "server.pem", made / "server.key"), client_context(made / "ca.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(server, client, name)


def test_another_authority_is_refused(made, tmp_path):
    make_certificates(tmp_path, hosts=HOSTS, workers=1)
    server = server_context(made / "server.pem", made / "server.key")
    for client in (client_context(tmp_path / "ca.pem"), client_context(None)):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, client, "localhost")


def test_during_a_change_a_worker_can_trust_both_authorities(made, tmp_path):
    make_certificates(tmp_path, hosts=[], workers=1)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "ca.pem").read_bytes() + (made / "ca.pem").read_bytes())
    for folder in (made, tmp_path):
        server = server_context(folder / "server.pem", folder / "server.key")
        assert handshake(server, client_context(both), "localhost")[0] == b"hello worker"


@pytest.mark.parametrize(("shift", "reason"), [(-2, "expired"), (2, "not yet valid")])
def test_a_certificate_holds_only_in_its_time(tmp_path, shift, reason):
    then = datetime.now(UTC) + timedelta(days=shift)
    make_certificates(tmp_path, hosts=[], workers=1, days=1, now=then)
    server, client = (
        server_context(tmp_path / "server.pem", tmp_path / "server.key"),
        client_context(tmp_path / "ca.pem"),
    )
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        handshake(server, client, "localhost")


def test_tls_1_2_is_the_oldest_and_still_works(made):
    server, client = server_context(made / "server.pem", made / "server.key"), client_context(made / "ca.pem")
    assert server.minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_2
    assert client.check_hostname
    assert client.verify_mode == ssl.CERT_REQUIRED
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(server, client, "localhost") == (b"hello worker", "TLSv1.2")


def test_certificates_say_what_they_may_be_used_for(made):
    ca, server = certificate(made / "ca.pem"), certificate(made / "server.pem")
    server.verify_directly_issued_by(ca)
    for each, is_ca in ((ca, True), (server, False)):
        basic = each.extensions.get_extension_for_class(x509.BasicConstraints)
        usage = each.extensions.get_extension_for_class(x509.KeyUsage)
        assert basic.critical
        assert basic.value.ca == is_ca
        assert usage.critical
        assert usage.value.key_cert_sign == is_ca
        assert usage.value.digital_signature != is_ca
        assert isinstance(each.public_key().curve, ec.SECP256R1)
        assert each.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=30)
        assert timedelta(days=364) < each.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=365)
    own = server.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issuer = server.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issuer.key_identifier == ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert issuer.key_identifier != own.digest
    assert ca.serial_number != server.serial_number
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "10.1.2.3",
        "fd00::1",
    ]


def test_a_name_given_twice_is_there_once(tmp_path):
    make_certificates(tmp_path, hosts=["LOCALHOST", "localhost.", "127.0.0.1", "::1", "0:0::1"], workers=1)
    names = certificate(tmp_path / "server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert len(list(names.value)) == 3


@POSIX
def test_private_files_are_private_and_the_authoritys_key_is_nowhere(made):
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()}
    private = {name for name, mode in files.items() if mode == 0o600}
    assert private == {"server.key", "tokens.json", "worker-0.token", "worker-1.token", "worker-2.token"}
    assert files.keys() - private == {"ca.pem", "server.pem"}


def test_the_files_written_are_returned(tmp_path):
    written = make_certificates(tmp_path / "new" / "folder", hosts=[], workers=2)
    names = ["ca.pem", "server.pem", "server.key", "tokens.json", "worker-0.token", "worker-1.token"]
    assert [path.name for path in written] == names
    assert sorted((tmp_path / "new" / "folder").iterdir()) == sorted(written)


@pytest.mark.parametrize("name", ["ca.pem", "server.key", "tokens.json", "worker-1.token"])
def test_nothing_is_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(BadInput, match="not overwritten; remove it") as error:
        make_certificates(tmp_path, hosts=[], workers=2)
    assert name in one_line(error)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@POSIX
def test_a_link_to_nowhere_is_not_overwritten_either(tmp_path):
    (tmp_path / "server.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=r"server\.key"):
        make_certificates(tmp_path, hosts=[], workers=1)


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    force, files = os.fsync, []

    def fails(handle):
        files.append(stat.S_IMODE(os.fstat(handle).st_mode) & 0o077)
        if len(files) == 4:
            raise OSError(28, "No space left on device")
        force(handle)

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        make_certificates(tmp_path, hosts=[], workers=1)
    assert list(tmp_path.iterdir()) == []
    assert files[2:] == [0, 0]  # the private ones are private while they are written


@pytest.mark.parametrize(
    "host",
    [
        *("", "0.0.0.0", "::", "host:5000", "[::1]", "fe80::1%eth0", "a b", "a..b", "-a.org", "999.1.1.1", "1.2.3.4/8"),
        *("https://a.org", "a.*.org", "*", "x" * 64, ".".join(["x" * 60] * 5), "a\0b", "a\nb", 7, None, b"a.org"),
    ],
)
def test_what_is_no_host_is_refused(tmp_path, host):
    with pytest.raises(BadInput, match=r"^hosts = .*DNS names and IP addresses") as error:
        make_certificates(tmp_path, hosts=[host], workers=1)
    one_line(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": "localhost"},
        {"workers": 0},
        {"workers": 10**9},
        {"workers": 1.5},
        {"days": 0},
        {"days": 10**6},
    ],
)
def test_wrong_arguments_are_refused(tmp_path, wrong):
    with pytest.raises(BadInput, match=rf"^{next(iter(wrong))} = ") as error:
        make_certificates(tmp_path, **({"hosts": [], "workers": 1} | wrong))
    one_line(error)


def test_without_cryptography_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(Missing, match=r"cryptography is missing; .*siag\[tls\]"):
        make_certificates(tmp_path, hosts=[], workers=1)


# Contexts


def test_files_that_cannot_be_read_are_named(made, tmp_path):
    gone = tmp_path / "gone.pem"
    for call in (
        lambda: server_context(gone, made / "server.key"),
        lambda: server_context(made / "server.pem", gone),
        lambda: client_context(gone),
        lambda: load(gone),
        lambda: read_token(gone),
    ):
        with pytest.raises(BadFile, match=r"gone\.pem: ") as error:
            call()
        one_line(error)
    for path in (tmp_path, Path("a\0b")):
        with pytest.raises(BadFile):
            client_context(path)


def test_files_of_the_wrong_kind_are_named(made, tmp_path):
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x00\xff junk")
    good, key = made / "server.pem", made / "server.key"
    for call, message in (
        (lambda: server_context(junk, key), "junk: holds no certificate"),
        (lambda: server_context(good, junk), "junk: holds no private key"),
        (lambda: server_context(key, good), r"server\.key: holds no certificate"),
        (lambda: client_context(junk), "junk: holds no certificate"),
        (lambda: client_context(key), r"server\.key: holds no certificate"),
    ):
        with pytest.raises(BadFile, match=message) as error:
            call()
        one_line(error)


def test_damaged_pem_is_refused(made, tmp_path):
    for source in ("server.pem", "server.key"):
        lines = (made / source).read_text().splitlines(keepends=True)
        (tmp_path / source).write_text("".join([lines[0], *lines[2:]]))
    for call in (
        lambda: server_context(tmp_path / "server.pem", made / "server.key"),
        lambda: server_context(made / "server.pem", tmp_path / "server.key"),
        lambda: client_context(tmp_path / "server.pem"),
    ):
        with pytest.raises(BadFile, match=r"server\.(pem|key)") as error:
            call()
        one_line(error)


@pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()])
def test_a_key_of_another_certificate_is_refused(made, tmp_path, key):
    (tmp_path / "other.key").write_bytes(pem(key))
    with pytest.raises(BadFile, match=r"server\.pem, .*other\.key: .*give a certificate and its own key") as error:
        server_context(made / "server.pem", tmp_path / "other.key")
    one_line(error)


def test_an_encrypted_key_is_refused_without_asking(made, tmp_path):
    key = serialization.load_pem_private_key((made / "server.key").read_bytes(), None)
    (tmp_path / "locked.key").write_bytes(pem(key, serialization.BestAvailableEncryption(b"word")))
    with pytest.raises(BadFile, match=r"locked\.key: is encrypted"):
        server_context(made / "server.pem", tmp_path / "locked.key")


def test_certificate_and_key_may_share_a_file(made, tmp_path):
    both = tmp_path / "both.pem"
    both.write_bytes((made / "server.key").read_bytes() + (made / "server.pem").read_bytes())
    assert handshake(server_context(both, both), client_context(made / "ca.pem"), "localhost")[0] == b"hello worker"


# Tokens


def load(path, names=("0", "1", "2")):
    return Tokens.load(path, names)


def stored(path, rows, **other):
    path.write_text(json.dumps({"format": security.FORMAT, "sha256": rows} | other))
    return path


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def test_each_token_is_for_its_own_row(made):
    tokens = load(made / "tokens.json")
    assert tokens.required
    secrets = [read_token(made / f"worker-{row}.token") for row in range(3)]
    assert [tokens.row_of(secret) for secret in secrets] == [0, 1, 2]
    assert len(set(secrets)) == 3
    assert min(map(len, secrets)) == 43
    kept = (made / "tokens.json").read_text()
    assert not any(secret in kept for secret in secrets)


def test_tokens_are_made_by_name_and_are_for_the_worker_of_that_name(tmp_path):
    made = make_certificates(tmp_path, hosts=[], workers=["centre", "village"])
    assert {path.name for path in made} >= {"tokens.json", "centre.token", "village.token"}
    tokens = load(tmp_path / "tokens.json", ["village", "west", "centre"])
    secrets = {name: read_token(tmp_path / f"{name}.token") for name in ("centre", "village")}
    assert {name: tokens.row_of(secret) for name, secret in secrets.items()} == {"centre": 2, "village": 0}
    with pytest.raises(BadInput, match=r"^tokens = 'centre': must be for workers of this server: 'a', 'b'"):
        load(tmp_path / "tokens.json", ["a", "b"])


@pytest.mark.parametrize("names", [[], ["a", "a"], ["a", "A"], ["a/b"], [".."], ["a", 3], ["-"], "ab"])
def test_names_that_are_no_names_of_files_or_not_different_are_refused(tmp_path, names):
    with pytest.raises(BadInput, match=r"^workers = "):
        make_certificates(tmp_path, hosts=[], workers=names)
    assert not list(tmp_path.iterdir())


def test_tokens_are_read_again_unless_the_file_is_broken(tmp_path):
    tokens = load(stored(tmp_path / "t.json", {"0": digest("x" * 16)}))
    stored(tmp_path / "t.json", {"1": digest("y" * 16)})
    tokens.reload()
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(BadFile):
        tokens.reload()
    assert (tokens.row_of("x" * 16), tokens.row_of("y" * 16)) == (None, 1)


def test_no_tokens_are_no_proof_of_anything():
    assert not Tokens.none().required
    assert Tokens.none().row_of("") is None


@pytest.mark.parametrize("given", ["first", "last", "none"])
def test_all_hashes_are_compared_whatever_the_token(made, monkeypatch, given):
    tokens = load(made / "tokens.json")
    token = {
        "first": read_token(made / "worker-0.token"),
        "last": read_token(made / "worker-2.token"),
        "none": "",
    }[given]
    compared, compare = [], hmac.compare_digest

    def count(known, guess):
        compared.append((len(known), len(guess)))
        return compare(known, guess)

    monkeypatch.setattr(hmac, "compare_digest", count)
    assert tokens.row_of(token) == {"first": 0, "last": 2, "none": None}[given]
    assert compared == [(32, 32)] * 3


@given(some.dictionaries(some.integers(0, 10**8), some.text(), min_size=1, max_size=20), some.text())
def test_a_token_opens_the_row_it_was_made_for_and_no_other(tmp_path_factory, owners, stranger):
    owners = {row: token for token, row in {token: row for row, token in owners.items()}.items()}
    path = tmp_path_factory.getbasetemp() / "hypothesis.json"
    names = [str(row) for row in owners]
    tokens = Tokens.load(stored(path, {str(row): digest(token) for row, token in owners.items()}), names)
    assert {int(names[tokens.row_of(token)]): token for token in owners.values()} == owners
    if stranger not in owners.values():
        assert tokens.row_of(stranger) is None


@given(some.text(some.characters(categories=None, exclude_categories=())))
def test_any_text_can_be_shown_as_a_token(made, text):
    assert load(made / "tokens.json").row_of(text) is None
    assert load(made / "tokens.json").row_of("\ud800" + text) is None


@pytest.mark.parametrize(
    "rows",
    [
        {},
        [],
        None,
        "0",
        {"0": 1},
        {"0": None},
        {"0": ""},
        {"0": "g" * 64},
        {"0": "A" * 64},
        {"0": "a" * 63},
        {"0": "a" * 65},
        {"0": "a" * 64 + "\n"},
        {"": "a" * 64},
        {"9" * 5000: "b"},
        {"0": "a" * 64, "1": "a" * 64},
    ],
)
def test_malformed_tokens_are_refused(tmp_path, rows):
    with pytest.raises(BadFile, match=r"t\.json: .*siag certs") as error:
        load(stored(tmp_path / "t.json", rows))
    assert len(one_line(error)) < 100 + len(str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"[]",
        b"{}",
        b"1" * 5000,
        b"[" * 200_000,
        b'{"format": "siag tokens 2", "sha256": {"0": "' + b"a" * 64 + b'"}}',
        b'{"format": "siag tokens 1", "sha256": {"0": "' + b"a" * 64 + b'", "0": "' + b"b" * 64 + b'"}}',
        b'{"format": "siag tokens 1", "more": 1, "sha256": {"0": "' + b"a" * 64 + b'"}}',
    ],
)
def test_garbage_is_no_file_of_tokens(tmp_path, content):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(BadFile, match=r"t\.json: ") as error:
        load(tmp_path / "t.json")
    one_line(error)


@given(some.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content)
    for call in (load, client_context):
        with pytest.raises(BadFile):
            call(path)
    with suppress(BadFile):
        assert read_token(path) == content.decode().strip("\ufeff").strip()


def test_a_file_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(security, "_LIMIT", 2**20)
    (tmp_path / "large").write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(BadFile, match="more than 1 MiB"):
        read_token(tmp_path / "large")


@POSIX
@pytest.mark.parametrize(("mode", "remarked"), [(0o600, False), (0o400, False), (0o444, True), (0o640, True)])
def test_a_token_others_can_read_is_remarked_upon(tmp_path, mode, remarked):
    path = tmp_path / "token"
    path.write_text("  " + "s" * 43 + "\r\n\n")
    path.chmod(mode)
    said = []
    secret = read_token(path, said.append)
    assert secret == "s" * 43
    assert said == [f"{path}: others can read this token; chmod 600 keeps it secret"] * remarked


def test_a_token_can_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("SIAG_TOKEN", raising=False)
    assert read_token() is None
    monkeypatch.setenv("SIAG_TOKEN", " " + "s" * 43 + "\n")
    assert read_token() == "s" * 43


@pytest.mark.parametrize("secret", ["", "hunter2", "two words that are long enough", "ünsichtbar" * 4, "s" * 513])
def test_a_wrong_token_is_refused_and_not_shown(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("SIAG_TOKEN", secret)
    (tmp_path / "token").write_text(secret, encoding="utf-8")
    for call in (lambda: read_token(tmp_path / "token"), read_token):
        with pytest.raises((BadFile, BadInput), match="one word of 16 to 512 visible") as error:
            call()
        assert not secret or secret not in one_line(error)


def test_hashes_are_not_printed(made):
    tokens = load(made / "tokens.json")
    assert not any(kept.hex() in repr(tokens) for _, kept in tokens._hashes)


# Where to listen


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
        with pytest.raises(BadInput, match=r"^host = .*loopback.* or --insecure") as error:
            check_binding(host, tls=tls, tokens=tokens, insecure=False)
        line = one_line(error)
        assert ("--certificate" in line) != tls
        assert ("--tokens" in line) != tokens


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
        with pytest.raises(BadInput, match=r"^metrics = .*loopback.*; give --insecure") as error:
            check_open("metrics", host, insecure=False)
        one_line(error)
