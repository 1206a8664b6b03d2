"""Certificates and tokens, made: what they say, what they are good for, what is refused."""

import os
import ssl
import stat
import sys
from datetime import UTC, datetime, timedelta

import pytest
from certified import HOSTS, POSIX, certificate, handshake, one_line
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from siag.foundations.errors import BadInput, Missing
from siag.live.certificates import make_certificates
from siag.live.security import client_context, server_context


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
