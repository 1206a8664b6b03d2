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
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.foundations.files import writable_folder
from siag.live.security import FORMAT, GUEST, MOST_WORKERS, hash_of

if TYPE_CHECKING:
    from cryptography import x509

MOST_DAYS = 3650
SKEW = timedelta(hours=1)  # a worker's clock may be this much behind
PUBLIC = ("ca.pem", "server.pem")  # all other files are readable by their owner only

_FILE = re.compile(r"\w(?:[\w .-]{0,98}\w)?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def make_certificates(
    folder: Path,
    *,
    hosts: Sequence[str],
    workers: int | Sequence[str],
    guest: bool = False,
    days: int = 365,
    max_weight: float | None = None,
    now: datetime | None = None,
) -> list[Path]:
    """Make all a server and its workers need to trust each other; nothing that exists is overwritten.

    Writes `ca.pem` (for every worker), `server.pem`, `server.key` and `tokens.json` (for the server), and a token for
    each worker: `<name>.token`, or `worker-<number>.token` if they have no names. All but the two certificates are
    readable by their owner only. Either all files are written or none.

    Args:
        folder: where to; made if need be.
        hosts: the names and addresses workers reach the server by; localhost and 127.0.0.1 are always among them.
        workers: how many there are, or their names; none, if there is a token for guests.
        guest: make one token more, `guest.token`, with which workers join that bring a name of their own.
        days: how long the certificates are valid.
        max_weight: what each of the workers may count for, if they are relays.
        now: from when on; by default from now on.

    Returns:
        The files written.
    """
    if isinstance(hosts, str):
        raise BadInput("hosts", hosts, "a list of names and addresses", f"write [{hosts!r}]")
    days = check.integer("days", days, high=MOST_DAYS)
    if max_weight is not None:
        max_weight = check.real("max_weight", max_weight, above=0)
    tokens = _tokens(workers, check.truth("guest", guest), max_weight)
    return _place(folder, _certificates(hosts, days, now or datetime.now(UTC)) | tokens)


def certify_run() -> tuple[bytes, bytes, bytes]:
    """A new authority for one run, as PEM: its certificate, that of the one server it certifies, and that one's key.

    Workers that trust this authority alone need not look at the server's name, which they may not know beforehand.
    """
    made = _certificates([], MOST_DAYS, datetime.now(UTC))
    return made["ca.pem"], made["server.pem"], made["server.key"]


def _certificates(hosts: Sequence[str], days: int, now: datetime) -> dict[str, bytes]:
    """A new authority, the one server it certifies, and the server's key, by the names of their files."""
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
            .not_valid_before(now - SKEW)
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        )
        for extension in own:
            builder = builder.add_extension(extension, isinstance(extension, x509.BasicConstraints | x509.KeyUsage))
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    names = list(dict.fromkeys(map(_alternative, ("localhost", "127.0.0.1", *hosts))))
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    own_authority = (x509.BasicConstraints(ca=True, path_length=0), _usage("key_cert_sign", "crl_sign"))
    own_server = (
        x509.BasicConstraints(ca=False, path_length=None),
        _usage("digital_signature"),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName(names),
    )
    key = server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "ca.pem": certify("siag CA", authority, *own_authority),
        "server.pem": certify("siag server", server, *own_server),
        "server.key": key,
    }


def _usage(*allowed: str) -> x509.KeyUsage:
    from cryptography import x509

    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    every = ("digital_signature", *others, "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: name in allowed for name in every})


def _alternative(host: object) -> x509.GeneralName:
    """A host as a certificate names it: an IP address, or a DNS name in ASCII and lower case."""
    from cryptography import x509

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
        return x509.IPAddress(address)
    try:
        name = host.removesuffix(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadInput("hosts", host, allowed) from None
    labels = name.removeprefix("*.").split(".")
    if len(name) > 253 or labels[-1].isdigit() or not all(map(_LABEL.fullmatch, labels)):
        raise BadInput("hosts", host, allowed)
    return x509.DNSName(name)


def _tokens(workers: int | Sequence[str], guest: bool, max_weight: float | None) -> dict[str, bytes]:
    """The server's file of hashes by name, and a file with the secret for each worker."""
    files = {} if guest and not workers else _workers(workers)
    if guest:
        if "guest" in files.values():
            raise BadInput("workers", "guest", "another name where there is a token for guests", "it is in guest.token")
        files = files | {GUEST: "guest"}
    made = {name: secrets.token_urlsafe(32) for name in files}
    known: dict[str, Any] = {"format": FORMAT, "sha256": {name: hash_of(token).hex() for name, token in made.items()}}
    if max_weight is not None:
        known["max_weight"] = dict.fromkeys(made, max_weight)
    own = {f"{files[name]}.token": f"{token}\n".encode() for name, token in made.items()}
    return {"tokens.json": (json.dumps(known, indent=1) + "\n").encode(), **own}


def _workers(workers: int | Sequence[str]) -> dict[str, str]:
    """The workers' names, or their numbers if they have none, and what the file of each is called."""
    if isinstance(workers, str | bytes) or not isinstance(workers, Iterable):
        count = check.integer("workers", workers, high=MOST_WORKERS)
        return {str(row): f"worker-{row}" for row in range(count)}
    names = list(workers)
    for name in names:
        if not isinstance(name, str) or not _FILE.fullmatch(name):
            allowed = "names of letters, digits, spaces and the marks . _ -, as files are named after them"
            raise BadInput("workers", name, allowed)
    if not 1 <= len({name.casefold() for name in names}) == len(names) <= MOST_WORKERS:
        raise BadInput("workers", names, f"1 to {MOST_WORKERS} different names, not only by upper and lower case")
    return {name: name for name in names}


def _place(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write all files or none; a private one is never readable by others, not even for a moment."""
    path = writable_folder("folder", folder)
    placed: list[Path] = []
    try:
        for name, content in files.items():
            mode = 0o666 if name in PUBLIC else 0o600  # the user's mask is taken from it
            handle = os.open(path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            placed.append(path / name)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(handle)
    except BaseException as error:
        for each in placed:
            each.unlink()
        if isinstance(error, FileExistsError):
            remedy = "it is not overwritten; remove it or give another folder"
            raise BadInput("folder", str(folder), f"a folder without {name}", remedy) from None
        raise
    return placed
