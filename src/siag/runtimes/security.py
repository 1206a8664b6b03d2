"""Who may talk to the server: certificates, TLS at both ends, one secret token per row, and where to listen.

TLS proves the server to the workers, and keeps what they say private. A token proves a worker to the server and binds
it to one row of the table, so that no worker can write another's. Tokens are random, 256 bits each; the server holds
their plain SHA-256 hashes only, from which nothing that random can be found, salted or not.

The key of the certificate authority is used once and never written: nobody, not even a thief of the whole folder, can
certify another server. The price is that a server certificate cannot be renewed: make a new set in a new folder, and
give the workers its `ca.pem`. Their tokens remain good if the server goes on with the old `tokens.json`.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, Missing
from siag.foundations.files import writable_folder, write_bytes

if TYPE_CHECKING:
    from cryptography import x509

FORMAT = "siag tokens 1"
VARIABLE = "SIAG_TOKEN"
MOST_WORKERS = 100_000  # comparing a token with that many hashes takes about 30 ms
MOST_DAYS = 3650
SKEW = timedelta(hours=1)  # a worker's clock may be this much behind

_PRIVATE = 0o600
_LIMIT = 2**24  # bytes; no file read here is near it
_TOKEN = re.compile(r"[!-~]{16,512}")
_ROW = re.compile(r"0|[1-9][0-9]{0,8}")
_HASH = re.compile(r"[0-9a-f]{64}")
_ANOTHER = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")  # the key is not the certificate's
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


# Certificates and tokens, made


def make_certificates(folder: Path, *, hosts: Sequence[str], workers: int, days: int = 365) -> list[Path]:
    """Make all a server and its workers need to trust each other; nothing that exists is overwritten.

    Writes `ca.pem` (for every worker), `server.pem`, `server.key` and `tokens.json` (for the server), and
    `worker-<row>.token` (one for each worker, rows from 0). All but the two certificates are readable by their owner
    only. Either all files are written or none.

    Args:
        folder: where to; made if need be.
        hosts: the names and addresses workers reach the server by; localhost and 127.0.0.1 are always among them.
        workers: number of rows.
        days: how long the certificates are valid.

    Returns:
        The files written.
    """
    names = _names(hosts)
    days = check.integer("days", days, high=MOST_DAYS)
    tokens = _tokens(workers)
    now = _now()
    public, private = _certificates(names, now - SKEW, now + timedelta(days=days))
    return _place(folder, public, private | tokens)


def make_tokens(folder: Path, *, workers: int) -> list[Path]:
    """Make `tokens.json` and `worker-<row>.token` alone, for a server that has a certificate already."""
    return _place(folder, {}, _tokens(workers))


def _now() -> datetime:
    return datetime.now(UTC)


def _names(hosts: Sequence[str]) -> list[str]:
    """The hosts in the form certificates hold them, each once."""
    if isinstance(hosts, str):
        raise BadInput("hosts", hosts, "a list of names and addresses", f"write [{hosts!r}]")
    return list(dict.fromkeys(["localhost", "127.0.0.1", *map(_name, hosts)]))


def _name(host: object) -> str:
    """An address in its shortest form, or a DNS name in ASCII and lower case."""
    allowed = "DNS names and IP addresses without a port"
    if not isinstance(host, str):
        raise BadInput("hosts", host, allowed)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        if address.is_unspecified or "%" in host:
            raise BadInput("hosts", host, allowed, "give the address that workers connect to")
        return str(address)
    try:
        name = host.removesuffix(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadInput("hosts", host, allowed) from None
    labels = name.removeprefix("*.").split(".")
    if len(name) > 253 or labels[-1].isdigit() or not all(map(_LABEL.fullmatch, labels)):
        raise BadInput("hosts", host, allowed)
    return name


def _certificates(names: Sequence[str], begin: datetime, end: datetime) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """A new authority and the one server it certifies: the public files and the private one."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError:
        remedy = "install it with pip install 'siag[tls]', or use a certificate you have"
        raise Missing("cryptography", remedy) from None

    def certify(subject: str, key: ec.EllipticCurvePrivateKey, *own: x509.ExtensionType) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "siag CA")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        )
        for extension in own:
            builder = builder.add_extension(extension, isinstance(extension, x509.BasicConstraints | x509.KeyUsage))
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    public = {
        "ca.pem": certify(
            "siag CA",
            authority,
            x509.BasicConstraints(ca=True, path_length=0),
            _usage("key_cert_sign", "crl_sign"),
        ),
        "server.pem": certify(
            "siag server",
            server,
            x509.BasicConstraints(ca=False, path_length=None),
            _usage("digital_signature"),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
            x509.SubjectAlternativeName([_alternative(name) for name in names]),
        ),
    }
    key = server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return public, {"server.key": key}


def _usage(*allowed: str) -> x509.KeyUsage:
    from cryptography import x509

    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    every = ("digital_signature", *others, "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: name in allowed for name in every})


def _alternative(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _tokens(workers: int) -> dict[str, bytes]:
    """The server's file of hashes, and a file with the secret for each row."""
    rows = range(check.integer("workers", workers, high=MOST_WORKERS))
    made = [secrets.token_urlsafe(32) for _ in rows]
    known = {"format": FORMAT, "sha256": {str(row): _hash(made[row]).hex() for row in rows}}
    own = {f"worker-{row}.token": f"{made[row]}\n".encode() for row in rows}
    return {"tokens.json": (json.dumps(known, indent=1) + "\n").encode(), **own}


def _place(folder: Path, public: Mapping[str, bytes], private: Mapping[str, bytes]) -> list[Path]:
    """Write all files or none; a private one is never readable by others, not even for a moment."""
    path = writable_folder("folder", folder)
    files = {**public, **private}
    for name in files:
        if os.path.lexists(path / name):
            remedy = "it is not overwritten; remove it or give another folder"
            raise BadInput("folder", str(folder), f"a folder without {name}", remedy)
    placed: list[Path] = []
    with tempfile.TemporaryDirectory(dir=path, prefix=".siag-") as hidden:  # which its owner alone can enter
        for name, content in files.items():
            write_bytes(Path(hidden, name), content)
            if name in private:
                os.chmod(Path(hidden, name), _PRIVATE)
        try:
            for name in files:
                os.rename(Path(hidden, name), path / name)
                placed.append(path / name)
        except BaseException:
            for each in placed:
                each.unlink(missing_ok=True)
            raise
    return placed


# TLS


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS for the server, of version 1.2 or, wherever the worker can, 1.3.

    Args:
        certificate: PEM file with the server's certificate, and those between it and the authority, if any.
        key: PEM file with its private key, not encrypted; it may be the same file.
    """

    def encrypted() -> bytes:  # called for a passphrase; without this OpenSSL would ask, and wait, at the terminal
        raise BadFile(f"{key}: is encrypted; give a key without a passphrase, readable by the server only")

    _expect(certificate, b"CERTIFICATE-----", "certificate")
    _expect(key, b"PRIVATE KEY-----", "private key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(certificate, key, password=encrypted)
    except ssl.SSLError as error:
        if error.reason in _ANOTHER:
            raise BadInput("key", str(key), f"the private key of {certificate}", "give the two as a pair") from None
        raise BadFile(f"{certificate}, {key}: {_reason(error)}; give a certificate and its key in PEM form") from None
    return context


def client_context(ca: Path | None) -> ssl.SSLContext:
    """TLS for a worker: the server must have a valid certificate for the name or address it is reached by.

    Args:
        ca: PEM file with the only authorities to trust, such as `ca.pem`; None for those the system trusts.
    """
    if ca is None:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    else:
        _expect(ca, b"CERTIFICATE-----", "certificate")
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca)
        except ssl.SSLError as error:
            raise BadFile(f"{ca}: {_reason(error)}; give a certificate in PEM form, such as ca.pem") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _expect(path: Path, mark: bytes, what: str) -> None:
    if mark not in _read(path)[0]:
        raise BadFile(f"{path}: holds no {what} in PEM form; give the path of one that does")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "damaged").replace("_", " ").lower()


# Tokens, used


@dataclass(frozen=True)
class Tokens:
    """The tokens a server accepts, as hashes. Made by `load` or `none`."""

    _hashes: tuple[tuple[int, bytes], ...] = field(repr=False)

    @classmethod
    def none(cls) -> Tokens:
        """No tokens: whoever connects is believed."""
        return cls(())

    @classmethod
    def load(cls, path: Path) -> Tokens:
        """Read a `tokens.json`; one that is not exactly as it should be is refused."""
        remedy = "make it with siag certs"
        content, _ = _read(path)
        try:
            document = json.loads(content, object_pairs_hook=_once)
        except _Twice as error:
            raise BadFile(f"{path}: {error} is there twice; {remedy}") from None
        except (ValueError, RecursionError):
            raise BadFile(f"{path}: not JSON; {remedy}") from None
        rows = document.get("sha256") if isinstance(document, dict) and document.get("format") == FORMAT else None
        if not isinstance(rows, dict) or len(document) != 2:
            raise BadFile(f"{path}: not of format {FORMAT!r}; {remedy}")
        if not 1 <= len(rows) <= MOST_WORKERS:
            raise BadFile(f"{path}: holds {len(rows)} tokens, not 1 to {MOST_WORKERS}; {remedy}")
        for row, text in rows.items():
            if not (_ROW.fullmatch(row) and isinstance(text, str) and _HASH.fullmatch(text)):
                raise BadFile(f"{path}: row {row[:20]!r} is not a number with a SHA-256 hash; {remedy}")
        if len(set(rows.values())) < len(rows):
            raise BadFile(f"{path}: two rows have the same token; {remedy}")
        return cls(tuple((int(row), bytes.fromhex(text)) for row, text in rows.items()))

    @property
    def required(self) -> bool:
        """Whether a worker must show a token."""
        return bool(self._hashes)

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows that have a token, ascending."""
        return tuple(sorted(row for row, _ in self._hashes))

    def row_of(self, token: str) -> int | None:
        """The row the token is for, or None; how long this takes tells nothing of the token or the row."""
        given, found = _hash(token), 0
        for row, known in self._hashes:  # all of them: no exit, no branch
            found += (row + 1) * hmac.compare_digest(known, given)
        return found - 1 if found else None


@dataclass(frozen=True)
class Token:
    """A worker's token as read: the secret, which is never printed, and a remark for the user, or ""."""

    secret: str = field(repr=False)
    remark: str = ""


def read_token(path: Path | None = None, environment: Mapping[str, str] = os.environ) -> Token | None:
    """Read a worker's token from a file or, without one, from the variable SIAG_TOKEN; None if that is not set either.

    Space around the token is dropped. A file others can read is remarked upon, not refused: that is how containers
    mount secrets.
    """
    allowed = "one word of 16 to 512 visible ASCII characters"
    if path is None:
        if VARIABLE not in environment:
            return None
        secret = environment[VARIABLE].strip()
        if not _TOKEN.fullmatch(secret):
            raise BadInput(VARIABLE, "(not shown)", allowed, "set it to what is in the worker's .token file")
        return Token(secret)
    content, mode = _read(path)
    try:
        secret = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        secret = ""
    if not _TOKEN.fullmatch(secret):
        raise BadFile(f"{path}: does not hold {allowed}; give the worker's .token file")
    shared = os.name == "posix" and mode & 0o066
    return Token(secret, f"{path}: others can read this token; chmod 600 keeps it secret" if shared else "")


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class _Twice(ValueError):
    """A JSON object names something twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise _Twice(repr(name[:20]))
        seen[name] = value
    return seen


def _read(path: Path) -> tuple[bytes, int]:
    """The content of a small file, and its mode."""
    try:
        with open(path, "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(_LIMIT + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise BadFile(f"{path}: cannot be read: {reason.lower()}; give the path of a file that can") from None
    if len(content) > _LIMIT:
        raise BadFile(f"{path}: has more than {_LIMIT >> 20} MiB; give another file")
    return content, mode


# Where to listen


def check_binding(host: str, tls: bool, tokens: bool, insecure: bool) -> None:
    """Refuse to serve other machines without TLS or without tokens, unless told to.

    A name counts as this machine's own only if all addresses it resolves to are loopback ones; "" is all interfaces.
    """
    if insecure or (tls and tokens) or _loopback(host):
        return
    lacking = " and no ".join(name for name, there in (("TLS", tls), ("tokens", tokens)) if not there)
    options = " and ".join(name for name, there in (("--tls-cert", tls), ("--tokens", tokens)) if not there)
    remedy = f"give {options}, or --insecure if you trust everyone who can reach it"
    raise BadInput("host", host, f"a loopback address such as 127.0.0.1 for a server with no {lacking}", remedy)


def _loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    if not host:
        return False
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        addresses = [ipaddress.ip_address(text) for text in found]
    except (OSError, ValueError):  # ValueError: what no resolver takes, such as a label of 64 letters
        raise BadInput("host", host, "an address of this machine or a name that resolves to one") from None
    return bool(addresses) and all((getattr(each, "ipv4_mapped", None) or each).is_loopback for each in addresses)
