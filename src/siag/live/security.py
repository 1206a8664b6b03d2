"""Who may talk to the server: TLS at both ends, one secret token per row, and where to listen.

TLS proves the server to the workers, and keeps what they say private. A token proves a worker to the server and binds
it to one row of the table, so that no worker can write another's. Tokens are random, 256 bits each; the server holds
their plain SHA-256 hashes only, from which nothing that random can be found, salted or not.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import math
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from siag.foundations.errors import BadFile, BadInput, reason_of, shorten

FORMAT = "siag tokens 1"
VARIABLE = "SIAG_TOKEN"
MOST_WORKERS = 100_000  # comparing a token with that many hashes takes about 30 ms

GUEST = "*"  # in place of a name: the token of workers that bring a name of their own
ANY = -1  # in place of a row, for that token
Hashes = tuple[tuple[int, bytes], ...]

_LIMIT = 2**24  # bytes; no file read here is near it
_TOKEN = re.compile(r"[!-~]{16,512}")
_HASH = re.compile(r"[0-9a-f]{64}")


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
    with _pem(f"{certificate}, {key}", "a certificate and its own key"):
        context.load_cert_chain(certificate, key, password=encrypted)
    return context


def client_context(ca: Path | None) -> ssl.SSLContext:
    """TLS for a worker: the server must have a valid certificate for the name or address it is reached by.

    Args:
        ca: PEM file with the only authorities to trust, such as `ca.pem`; None for those the system trusts.
    """
    if ca is not None:
        _expect(ca, b"CERTIFICATE-----", "certificate")
    with _pem(f"{ca}", "a certificate, such as ca.pem,"):
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _expect(path: Path, mark: bytes, what: str) -> None:
    if mark not in _read(path):
        raise BadFile(f"{path}: holds no {what} in PEM form; give the path of one that does")


@contextmanager
def _pem(where: str, wanted: str) -> Iterator[None]:
    """Say which files OpenSSL does not take, and why."""
    try:
        yield
    except ssl.SSLError as error:
        reason = (error.reason or "damaged").replace("_", " ").lower()
        raise BadFile(f"{where}: {reason}; give {wanted} in PEM form") from None


# Tokens, used


class Tokens:
    """The tokens a server accepts, as hashes. Made by `load` or `none`.

    Args:
        hashes: of each row that has one.
        source: what reads them again, and what rows may count for; `None` if nothing can.
    """

    def __init__(self, hashes: Hashes, source: Callable[[], tuple[Hashes, dict[int, float]]] | None = None) -> None:
        self._hashes, self._source = hashes, source
        self._weights: dict[int, float] = {}

    @classmethod
    def none(cls) -> Tokens:
        """No tokens: a worker is believed without one."""
        return cls(())

    @classmethod
    def load(cls, path: Path, names: Sequence[str]) -> Tokens:
        """Read a `tokens.json`; one that is not exactly as it should be is refused.

        Args:
            path: of the file.
            names: of the server's workers, by row; a token is for the worker of its name.
        """
        tokens = cls((), lambda: _hashes_in(path, names))
        tokens.reload()
        return tokens

    def reload(self) -> None:
        """Read the file again; if it is not as it should be, this raises a `SiagError`, and what was known stays."""
        if self._source is not None:
            self._hashes, self._weights = self._source()

    def max_weight(self, row: int) -> float | None:
        """What the worker of a row may count for, if its token says."""
        return self._weights.get(row)

    @property
    def required(self) -> bool:
        """Whether a worker must show a token."""
        return bool(self._hashes)

    @property
    def guests(self) -> bool:
        """Whether there is a token for workers that bring a name of their own."""
        return any(row == ANY for row, _ in self._hashes)

    def owns(self, row: int) -> bool:
        """Whether a row has a token of its own, so that no other may claim it."""
        return any(row == each for each, _ in self._hashes)

    def row_of(self, token: str) -> int | None:
        """The row the token is for, `ANY`, or None; how long this takes tells nothing of the token or the row."""
        given, found = hash_of(token), 0
        for row, known in self._hashes:  # all of them: no exit, no branch
            found += (row + 2) * hmac.compare_digest(known, given)
        return found - 2 if found else None


def _hashes_in(path: Path, names: Sequence[str]) -> tuple[Hashes, dict[int, float]]:
    """The hashes of a `tokens.json`, by the rows of the workers of these names, and what some may count for."""
    remedy, content = "make it with siag certs", _read(path)
    try:
        document = json.loads(content, object_pairs_hook=tuple)  # pairs, so that none is lost to another
    except (ValueError, RecursionError):
        raise BadFile(f"{path}: not JSON; {remedy}") from None
    fields = dict(document) if isinstance(document, tuple) else {}
    known, weights = fields.get("sha256"), fields.get("max_weight", ())
    length = 2 + ("max_weight" in fields)
    if fields.get("format") != FORMAT or len(document) != length or not isinstance(known, tuple):
        raise BadFile(f"{path}: not of format {FORMAT!r}; {remedy}")
    if not 1 <= len(known) <= MOST_WORKERS:
        raise BadFile(f"{path}: holds {len(known)} tokens, not 1 to {MOST_WORKERS}; {remedy}")
    for name, text in known:
        if not (name and isinstance(text, str) and _HASH.fullmatch(text)):
            raise BadFile(f"{path}: worker {name[:20]!r} has no SHA-256 hash; {remedy}")
    for what, values in zip(("name", "token"), zip(*known, strict=True), strict=True):
        if len(set(values)) < len(values):
            raise BadFile(f"{path}: two workers have the same {what}; {remedy}")
    rows = {name: row for row, name in enumerate(names)} | {GUEST: ANY}
    for name, _ in known:
        if name not in rows:
            remedy = "give the workers the names that siag certs was given, or make tokens for theirs"
            raise BadInput("tokens", name, f"for workers of this server: {shorten(names)[1:-1]}", remedy)
    for name, most in weights if isinstance(weights, tuple) else [("", weights)]:
        if name not in dict(known) or type(most) not in (int, float) or not 0 < most < math.inf:
            raise BadFile(
                f"{path}: max_weight of {name[:20]!r} must be a number above 0, for one with a token; {remedy}"
            )
    return tuple((rows[name], bytes.fromhex(text)) for name, text in known), {rows[k]: float(c) for k, c in weights}


def read_token(path: Path | None = None, say: Callable[[str], None] = lambda text: None) -> str | None:
    """Read a worker's token from a file or, without one, from the variable SIAG_TOKEN; None if that is not set either.

    Space around the token is dropped. A file others can read is remarked upon, not refused: that is how containers
    mount secrets.
    """
    if path is None and VARIABLE not in os.environ:
        return None
    content = os.environ[VARIABLE] if path is None else _read(path).decode("utf-8-sig", "replace")
    secret = content.strip()
    if not _TOKEN.fullmatch(secret):
        allowed = "one word of 16 to 512 visible ASCII characters"
        raise BadFile(f"{path or VARIABLE}: does not hold {allowed}; give what is in the worker's .token file")
    if path is not None and os.name == "posix" and path.stat().st_mode & 0o066:
        say(f"{path}: others can read this token; chmod 600 keeps it secret")
    return secret


def hash_of(token: str) -> bytes:
    """What the server keeps of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> bytes:
    """The content of a small file."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(_LIMIT + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise BadFile(f"{path}: cannot be read: {reason_of(error)}; give the path of a file that can") from None
    if len(content) > _LIMIT:
        raise BadFile(f"{path}: has more than {_LIMIT >> 20} MiB; give another file")
    return content


# Where to listen


def check_binding(host: str, tls: bool, tokens: bool, insecure: bool) -> None:
    """Refuse to serve other machines without TLS or without tokens, unless told to.

    A name counts as this machine's own only if all addresses it resolves to are loopback ones; "" is all interfaces.
    """
    needed = {"certificate and key": ("TLS", tls), "tokens": ("tokens", tokens)}
    lacking = {option: name for option, (name, there) in needed.items() if not there}
    if lacking:
        why = f" for a server with no {' and no '.join(lacking.values())}"
        check_open("host", host, insecure, why, f"{' and '.join(lacking)}, or ")


def check_open(
    parameter: str, host: str, insecure: bool, why: str = ", since anybody may ask there", instead: str = ""
) -> None:
    """Refuse to show something to other machines, where anybody may look at it, unless told to."""
    if not insecure and not is_loopback(host, parameter):
        remedy = f"give {instead}insecure if you trust everyone who can reach it"
        raise BadInput(parameter, host, f"a loopback address such as 127.0.0.1{why}", remedy)


def is_loopback(host: str, parameter: str = "host") -> bool:
    """Whether a host is this machine, and cannot be another; `parameter` is what the user calls it."""
    if host.lower() == "localhost":
        return True
    if not host:
        return False
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        addresses = [ipaddress.ip_address(text) for text in found]
    except (OSError, ValueError):  # ValueError: what no resolver takes, such as a label of 64 letters
        raise BadInput(parameter, host, "an address of this machine or a name that resolves to one") from None
    return bool(addresses) and all((getattr(each, "ipv4_mapped", None) or each).is_loopback for each in addresses)
