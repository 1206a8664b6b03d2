"""TLS at both ends: files that are no use are refused in one line."""

from pathlib import Path

import pytest
from certified import handshake, load, one_line
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from siag.foundations.errors import BadFile
from siag.live.security import client_context, read_token, server_context


def pem(key, encryption=None):
    encryption = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


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
