"""A token opens the row it was made for; no other text and no other file does."""

import hashlib
import hmac
import json
from contextlib import suppress

import pytest
from certified import POSIX, load, one_line
from hypothesis import given
from hypothesis import strategies as some

from siag.foundations.errors import BadFile, BadInput
from siag.live import security
from siag.live.certificates import make_certificates
from siag.live.security import Tokens, client_context, read_token


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


def test_a_file_too_large_is_refused(tmp_path):
    with open(tmp_path / "large", "wb") as stream:
        stream.truncate(2**24 + 1)
    with pytest.raises(BadFile, match="more than 16 MiB"):
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
