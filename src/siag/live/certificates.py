"""Certificates and tokens, made: `siag certs`.

The key of the certificate authority is used once and never written: nobody, not even a thief of the whole folder, can
certify another server. The price is that a server certificate cannot be renewed: make a new set in a new folder, and
give the workers its `ca.pem`. Their tokens remain good if the server goes on with the old `tokens.json`.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.foundations.files import writable_folder, write_bytes

if TYPE_CHECKING:
    from cryptography import x509

from siag.live.security import FORMAT, MOST_WORKERS, hash_of

MOST_DAYS = 3650
SKEW = timedelta(hours=1)  # a worker's clock may be this much behind

_PRIVATE = 0o600
_FILE = re.compile(r"\w(?:[\w .-]{0,98}\w)?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def make_certificates(
    folder: Path, *, hosts: Sequence[str], workers: int | Sequence[str], days: int = 365
) -> list[Path]:
    """Make all a server and its workers need to trust each other; nothing that exists is overwritten.

    Writes `ca.pem` (for every worker), `server.pem`, `server.key` and `tokens.json` (for the server), and a token for
    each worker: `<name>.token`, or `worker-<number>.token` if they have no names. All but the two certificates are
    readable by their owner only. Either all files are written or none.

    Args:
        folder: where to; made if need be.
        hosts: the names and addresses workers reach the server by; localhost and 127.0.0.1 are always among them.
        workers: how many there are, or their names.
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


def make_tokens(folder: Path, *, workers: int | Sequence[str]) -> list[Path]:
    """Make `tokens.json` and the workers' tokens alone, for a server that has a certificate already."""
    return _place(folder, {}, _tokens(workers))


def certify_run(days: int = MOST_DAYS) -> tuple[bytes, bytes, bytes]:
    """A new authority for one run, as PEM: its certificate, that of the one server it certifies, and that one's key.

    Workers that trust this authority alone need not look at the server's name, which they may not know beforehand.
    """
    now = _now()
    public, private = _certificates(_names([]), now - SKEW, now + timedelta(days=days))
    return public["ca.pem"], public["server.pem"], private["server.key"]


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


def _tokens(workers: int | Sequence[str]) -> dict[str, bytes]:
    """The server's file of hashes by name, and a file with the secret for each worker."""
    made = {name: secrets.token_urlsafe(32) for name in _workers(workers)}
    known = {"format": FORMAT, "sha256": {name: hash_of(token).hex() for name, token in made.items()}}
    own = {_file(name, workers): f"{token}\n".encode() for name, token in made.items()}
    return {"tokens.json": (json.dumps(known, indent=1) + "\n").encode(), **own}


def _workers(workers: int | Sequence[str]) -> list[str]:
    """The workers' names; their numbers if there are none. A name must do as the name of a file."""
    if isinstance(workers, str | bytes) or not isinstance(workers, Iterable):
        return [str(row) for row in range(check.integer("workers", workers, high=MOST_WORKERS))]
    names = list(workers)
    for name in names:
        if not isinstance(name, str) or not _FILE.fullmatch(name):
            allowed = "names of letters, digits, spaces and the marks . _ -, as files are named after them"
            raise BadInput("workers", name, allowed)
    if not 1 <= len({name.casefold() for name in names}) == len(names) <= MOST_WORKERS:
        raise BadInput("workers", names, f"1 to {MOST_WORKERS} different names, not only by upper and lower case")
    return names


def _file(name: str, workers: int | Sequence[str]) -> str:
    return f"worker-{name}.token" if isinstance(workers, int) else f"{name}.token"


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
