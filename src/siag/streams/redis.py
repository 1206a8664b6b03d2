"""The entries of a Redis stream."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.extras import needed
from siag.streams.lines import BadLine
from siag.streams.messages import NEWEST, OLDEST, Down, Entry, Numbered, check_name
from siag.streams.remarks import say

COUNT = 100  # entries that are read at a time
SECONDS = 10.0  # that a server may take to answer
PASSING = ("NOGROUP", "GONE", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "OOM", "LOADING", "no such key")

BEGIN = """
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], ARGV[4], 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
if not made.err then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[2], ARGV[2] .. ':reader', ARGV[3])
local known = redis.call('HGET', KEYS[2], ARGV[2])
if not known then redis.call('HSET', KEYS[2], ARGV[2], ARGV[5]) end
return known
"""

CHECK = """
local reader = redis.call('HGET', KEYS[2], ARGV[2] .. ':reader')
if not reader then return redis.error_reply('GONE its record was deleted') end
if reader ~= ARGV[3] then return redis.error_reply('TAKEN by another') end
"""

# Entries that were trimmed before they were read are removed and not read. Some versions of Redis count them as read
# once the group has read past them, others never do: ":lost" has how many were told and are not counted.
READ = (
    CHECK
    + """
local function field(list, name)
  for k = 1, #list, 2 do if list[k] == name then return list[k + 1] end end
end
local function missed()
  local stream = redis.call('XINFO', 'STREAM', KEYS[1])
  local added, length = field(stream, 'entries-added'), field(stream, 'length')
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local read = field(group, 'entries-read')
    if added and read and field(group, 'name') == ARGV[1] then return added - length - read end
  end
end
local told, new, before = tonumber(redis.call('HGET', KEYS[2], ':lost') or 0), 0, nil
if ARGV[4] == '>' then before = missed() end
if before and before > told then
  new, told = before - told, before
  redis.call('HSET', KEYS[2], ':lost', told)
end
local found = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[5], 'STREAMS', KEYS[1], ARGV[4])
local entries = found and found[1][2] or {}
if told > 0 and before and #entries > 0 then
  local after = missed()
  if after and after < before - #entries then redis.call('HDEL', KEYS[2], ':lost') end
end
return {new, entries}
"""
)

ACKNOWLEDGE = (
    CHECK
    + """
for k = 5, #ARGV do redis.call('XACK', KEYS[1], ARGV[1], ARGV[k]) end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
return 1
"""
)


@dataclass(eq=False)
class Redis(Numbered):
    """The entries of a Redis stream, each once, even after crashes, acknowledged when the server has their report.

    They are read by a consumer group. A hash beside the stream, `siag:{key}:group`, has the number of samples that were
    acknowledged, written in one script with `XACK`. A worker that is started again passes over what the server has,
    and goes on with what it does not have, as does one whose connection to Redis was lost. A server that is durable
    loses nothing; with one that is not, samples it has lost in a crash are not read again, and this is told.

    A worker has a stream for itself, or a consumer name of its own in the group. If a second reader comes under the
    same name, the first fails: that it was taken over is known from the hash. Redis 5 or newer; with 7 or newer it is
    also told how many entries were trimmed before they were read. Of a cluster, a node that has the stream is read.

    Args:
        key: the stream. It need not exist yet.
        url: where Redis is: redis://host:6379/0, rediss:// with TLS, unix:///path; a user's name and password may be
            in it.
        group: the consumer group, which is made if it is not there. A new run needs another to begin anew.
        consumer: who reads in the group; each worker that shares a stream needs a name of its own.
        value: the field of an entry that has the sample, in the `format`; by default all, as a dict of texts.
        start: where a new group begins: at the "oldest" entry there is, or after the "newest".
        password: of the user; here or in the URL. It is not shown.
        format: "json", "csv", "fields" or "lines" as for `siag.streams.Follow`, or "bytes".
        parse: what to make of that, a function of one sample.
        bad: "raise" an error at an entry that is not in the format, or "skip" it, which is told.
        poll: how many seconds to wait between two looks, when there is nothing new.

    Attributes:
        skipped: how many bad entries were left out, in all loops over this object.

    Example:
        >>> stream = Redis("orders", "redis://me:secret@localhost:6379/0", value="json", format="json")
        >>> stream.where
        'redis://localhost:6379/0, stream orders'
    """

    key: str
    url: str = field(default="redis://localhost:6379/0", repr=False)
    group: str = field(default="siag", kw_only=True)
    consumer: str = field(default="siag", kw_only=True)
    value: str | None = field(default=None, kw_only=True)
    start: str = field(default=OLDEST, kw_only=True)
    password: str | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("key", "group", "consumer"):
            check_name(name, getattr(self, name))
        if self.value is not None:
            check_name("value", self.value)
        check.choice("start", self.start, (OLDEST, NEWEST))
        if not isinstance(self.url, str) or not self.url.startswith(("redis://", "rediss://", "unix://")):
            raise BadInput("url", hidden(self.url), "a URL that begins with redis://, rediss:// or unix://")

    @property
    def where(self) -> str:
        """The address and the stream."""
        return f"{hidden(self.url)}, stream {self.key}"

    def connect(self) -> RedisReader:
        """A connection to Redis."""
        return RedisReader(self)

    def decode(self, content: Any) -> Any:
        """The sample of an entry's fields."""
        names, values = content[::2], content[1::2]
        if self.value is not None:
            found = dict(zip(names, values, strict=True)).get(self.value.encode())
            if found is None:
                raise BadLine(f"there is no field {self.value!r}")
            return super().decode(found)
        try:
            return super().decode({name.decode(): value.decode() for name, value in zip(names, values, strict=True)})
        except UnicodeDecodeError:
            raise BadLine("not UTF-8", "give value='field' and format='bytes'") from None


class RedisReader:
    """A connection to Redis; nobody else reads as the same consumer from then on.

    Args:
        stream: what is read.
    """

    def __init__(self, stream: Redis) -> None:
        redis = needed("redis", "redis")
        self._stream, self._errors, self._token = stream, redis.exceptions, secrets.token_hex(8)
        own = {} if stream.password is None else {"password": stream.password}
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)  # of a call that is repeated the first answer is lost
        how = {"socket_timeout": SECONDS, "socket_connect_timeout": SECONDS, "decode_responses": False, "retry": once}
        try:
            self._client = redis.Redis.from_url(stream.url, **own, **how)
        except ValueError as error:
            raise BadInput("url", hidden(stream.url), f"a URL of Redis ({error})") from None
        self._seen: bytes | None = b"0"  # the last entry that was given before and is read again; `None`: new ones

    def place(self, samples: int) -> int:
        """How many samples were acknowledged."""
        begin = "0" if self._stream.start == OLDEST else "$"
        known = self._call(BEGIN, begin, samples)
        if known is None and samples:
            nothing = f"group {self._stream.group} knows nothing of the {samples:,} samples reported before"
            say(f"{self._stream.where}: {nothing}, here or as consumer {self._stream.consumer}; what it has is read")
        return samples if known is None else int(known)

    def fetch(self) -> Sequence[Entry]:
        """Those given before to this consumer and not acknowledged, then new ones."""
        lost, found = self._call(READ, b">" if self._seen is None else self._seen, COUNT)
        if lost:
            say(f"{self._stream.where}: {lost:,} entries were trimmed before they were read; they are lost")
        if self._seen is not None:
            self._seen = found[-1][0] if found else None
            if not found:
                return self.fetch()
        return [Entry(position, content) for position, content in found]

    def acknowledge(self, positions: Sequence[Any], samples: int) -> None:
        """`XACK`, and note how many samples these are."""
        self._call(ACKNOWLEDGE, samples, *positions)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _call(self, script: str, *arguments: Any) -> Any:
        """Run a script; what goes wrong is `Down`, if it may get better."""
        stream, errors = self._stream, self._errors
        keys = stream.key, f"siag:{{{stream.key}}}:{stream.group}"
        try:
            return self._client.eval(script, 2, *keys, stream.group, stream.consumer, self._token, *arguments)
        except (errors.AuthenticationError, errors.AuthorizationError) as error:
            raise SiagError(f"{stream.where}: does not accept the name and password ({_words(error)})") from None
        except (errors.ConnectionError, errors.TimeoutError, OSError) as error:
            raise Down(_words(error)) from None
        except errors.ResponseError as error:
            words = _words(error)
            if "TAKEN" in words:
                taken = f"another reader has come as consumer {stream.consumer} of group {stream.group}"
                raise SiagError(f"{stream.where}: {taken}; give each worker a name of its own: consumer=…") from None
            if any(word in words for word in PASSING):
                raise Down(words) from None
            if "NOAUTH" in words or "WRONGPASS" in words or "NOPERM" in words:
                raise SiagError(f"{stream.where}: does not accept the name and password ({words})") from None
            raise SiagError(f"{stream.where}: {words}") from None


def hidden(url: object) -> str:
    """A URL without the name and password in it.

    Example:
        >>> hidden("redis://me:se@cret@host:1/0")
        'redis://host:1/0'
    """
    scheme, mark, rest = str(url).partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}"


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
