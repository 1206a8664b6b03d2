"""The messages of an MQTT topic."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from siag.foundations import check
from siag.foundations.errors import BadFile, Missing, SiagError, reason_of
from siag.foundations.extras import needed
from siag.foundations.files import write_text
from siag.streams.lines import BadLine, check_path
from siag.streams.messages import Down, Messages, Patience, check_name
from siag.streams.remarks import Tally, say
from siag.streams.stream import Stop

KEPT = 1000  # notes of messages; a broker repeats those it has no acknowledgement of, which are fewer
KEEPALIVE = 30  # seconds
SEVERAL = 20  # messages without an acknowledgement, after which a broker may send no more


class Note(NamedTuple):
    """Which sample a message was, by the number that the broker has given it."""

    number: int
    packet: int
    digest: str


@dataclass(eq=False)
class MQTT(Messages):
    """The messages of an MQTT topic, each once: acknowledged when the server has their report.

    The subscription is of QoS 1, in a session that the broker keeps while the worker is away; it sends again what was
    not acknowledged. The bookmark says which messages were given as which samples, noted before they are given, so
    that of those sent again the ones that the server has are passed over. (QoS 2 would not do: what a client has
    confirmed to have, and then loses in a crash, is not sent again.) What is published with QoS 0 the broker sends
    once: a crash loses it. A broker keeps, and has on its way, a limited number of messages: for mosquitto see
    `max_queued_messages` and `max_inflight_messages`, 20, which a batch must not be larger than.

    Args:
        topic: what to subscribe to, such as "shops/north/#".
        host: where the broker is.
        port: of the broker.
        client: the name of the session, of this worker alone. Another topic needs another.
        bookmark: a file of this worker to note messages in; its folder must exist.
        username: of the user.
        password: of the user. It is not shown.
        tls: talk over TLS, with the system's authorities.
        format: "json", "csv", "fields" or "lines" as for `siag.streams.Follow`, or "bytes".
        parse: what to make of that, a function of one sample.
        bad: "raise" an error at a message that is not in the format, or "skip" it, which is told.
        poll: how many seconds to wait between two looks, when there is nothing new.

    Attributes:
        skipped: how many bad messages were left out, in all loops over this object.

    Example:
        >>> MQTT("shops/north", "localhost", client="north", bookmark="north.place").where
        'mqtt://localhost:1883, topic shops/north'
    """

    topic: str
    host: str = "localhost"
    port: int = 1883
    client: str = field(default="", kw_only=True)
    bookmark: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    username: str | None = field(default=None, kw_only=True)
    password: str | None = field(default=None, kw_only=True, repr=False)
    tls: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("topic", "host"):
            check_name(name, getattr(self, name))
        self.port = check.integer("port", self.port, low=1, high=65535)
        check.truth("tls", self.tls)
        if not self.client or not isinstance(self.client, str):
            raise Missing("client", "give the session a name of its own for each worker")
        if self.bookmark is None:
            raise Missing("bookmark", "give a file for each worker, to note in which messages were given")
        self.bookmark = check_path(self.bookmark, "bookmark")

    @property
    def where(self) -> str:
        """The address and the topic."""
        return f"mqtt{'s' * self.tls}://{self.host}:{self.port}, topic {self.topic}"

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The samples of messages that the server does not have, until `stop` is set."""
        notes = Notes(os.fspath(self.bookmark or ""), self._first)
        given, due = self._first, deque[tuple[int, Any]]()
        with self.tally() as tally, self._session(stop, due) as session:
            while not stop.is_set():
                message = session.take(notes, self._first)
                self._acknowledge(session, due)
                if message is None:
                    session.mind(len(due))
                    stop.wait(self.poll)
                    continue
                known = notes.find(message)
                if known is not None:
                    if known <= self._has:  # the acknowledgement was lost with the connection, or the worker
                        session.acknowledge(message)
                    elif known <= self._first:  # else it is among those that are due
                        due.append((known, message))
                    continue
                try:
                    sample = self.decode(message.payload)
                except BadLine as error:
                    self.leave_out(message.topic, error, tally)
                    due.append((given, message))
                    continue
                given += 1
                notes.add(given, message)
                due.append((given, message))
                yield sample

    def _acknowledge(self, session: Session, due: deque[tuple[int, Any]]) -> None:
        """Acknowledge what the server has."""
        while due and due[0][0] <= self._has:
            session.acknowledge(due.popleft()[1])

    @contextmanager
    def _session(self, stop: Stop, due: deque[tuple[int, Any]]) -> Iterator[Session]:
        session = Session(self, stop)
        try:
            yield session
        finally:
            self._acknowledge(session, due)
            session.close()


class Session:
    """A connection to a broker, which a thread of paho keeps up.

    Args:
        stream: what is read.
        stop: ends the waiting.
    """

    def __init__(self, stream: MQTT, stop: Stop) -> None:
        mqtt = needed("paho.mqtt.client", "mqtt")
        self._stream, self._patience, self._stop = stream, Patience(stream.where, stop), stop
        self._happened: deque[Any] = deque()  # messages, and what became of the connection, as the thread saw it
        self._told = self._joined = False
        self._once = Tally()
        kind = mqtt.CallbackAPIVersion.VERSION2
        self._client = mqtt.Client(kind, client_id=stream.client, clean_session=False, manual_ack=True)
        self._client.on_message = lambda client, data, message: self._happened.append(message)
        self._client.on_connect = self._connected
        self._client.on_connect_fail = lambda client, data: self._happened.append(Down("no connection"))
        self._client.on_disconnect = lambda client, data, flags, reason, more: self._happened.append(Down(str(reason)))
        self._client.on_subscribe = self._subscribed
        if stream.username is not None:
            self._client.username_pw_set(stream.username, stream.password)
        if stream.tls:
            self._client.tls_set()
        self._client.reconnect_delay_set(1, 5)
        self._client.connect_async(stream.host, stream.port, KEEPALIVE)
        self._client.loop_start()

    def take(self, notes: Notes, reported: int) -> Any | None:
        """The next message, if there is one; what became of the connection is told."""
        while self._happened:
            what = self._happened.popleft()
            if isinstance(what, SiagError):
                raise what
            if isinstance(what, Down):
                self._patience.away(what)
            elif isinstance(what, bool):
                self._patience.back()
                if not what and (reported or self._joined):
                    gone = f"the broker has no session {self._stream.client} any more"
                    say(f"{self._stream.where}: {gone}; what was published since is lost")
                if not what:
                    notes.clear()
                self._joined = True
            else:
                if what.qos == 0 and self._once.add() and self._once.count == 1:
                    say(f"{self._stream.where}: messages have QoS 0; those on their way are lost in a crash")
                return what
        return None

    def acknowledge(self, message: Any) -> None:
        """Tell the broker that a message is done with; if there is no connection, it will be sent again."""
        if message.qos:
            self._client.ack(message.mid, message.qos)

    def mind(self, unacknowledged: int) -> None:
        """Say once that a broker may be waiting for acknowledgements before it sends more."""
        if unacknowledged >= SEVERAL and not self._told:
            self._told = True
            many = f"{unacknowledged} messages wait for the server, and the broker may send no more until then"
            say(f"{self._stream.where}: {many}; if this is a batch, make it smaller, or raise max_inflight_messages")

    def close(self) -> None:
        """End the connection; the broker keeps the session."""
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        """In paho's thread."""
        if reason.is_failure:
            words = f"does not let client {self._stream.client} in ({reason})"
            self._happened.append(SiagError(f"{self._stream.where}: {words}"))
            return
        self._happened.append(bool(flags.session_present))
        if not flags.session_present:  # else retained messages would come once more
            client.subscribe(self._stream.topic, qos=1)

    def _subscribed(self, client: Any, data: Any, packet: int, reasons: Any, more: Any) -> None:
        """In paho's thread."""
        for reason in reasons:
            if reason.is_failure:
                self._happened.append(SiagError(f"{self._stream.where}: cannot be subscribed to ({reason})"))


class Notes:
    """Which messages were given as which samples; a line for each is in a file before it is given.

    Args:
        path: of the file.
        samples: how many the server has: notes of later ones are dropped, as these are given again.
    """

    def __init__(self, path: str, samples: int) -> None:
        self._path = Path(path)
        self._notes: dict[int, Note] = {}
        try:
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            lines = text.rpartition("\n")[0].splitlines()  # a line cut short is of a message that was not given
            found = [Note(int(number), int(packet), digest) for number, packet, digest in map(str.split, lines)]
        except OSError as error:
            raise BadFile(f"{path}: cannot be read: {reason_of(error)}") from None
        except ValueError:
            raise BadFile(f"{path}: not a bookmark of an MQTT stream; if it is of no use, delete it") from None
        for note in found:
            self._keep(note)
        self._notes = {packet: note for packet, note in self._notes.items() if note.number <= samples}
        self._rewrite()

    def find(self, message: Any) -> int | None:
        """The number of the sample that a message was which is sent again; `None`: it was none."""
        note = self._notes.get(message.mid) if message.dup else None
        return note.number if note is not None and note.digest == _digest(message) else None

    def add(self, number: int, message: Any) -> None:
        """Note a message that is about to be given."""
        if message.qos == 0:
            return
        note = Note(number, message.mid, _digest(message))
        self._keep(note)
        self._lines += 1
        try:
            if self._lines > 2 * KEPT:
                self._rewrite()
            else:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(_line(note))
        except OSError as error:
            raise BadFile(f"{self._path}: cannot be written: {reason_of(error)}") from None

    def clear(self) -> None:
        """The broker begins to number messages anew."""
        self._notes = {}
        self._rewrite()

    def _keep(self, note: Note) -> None:
        self._notes.pop(note.packet, None)
        self._notes[note.packet] = note
        if len(self._notes) > KEPT:
            del self._notes[next(iter(self._notes))]

    def _rewrite(self) -> None:
        try:
            write_text(self._path, "".join(map(_line, self._notes.values())))
        except OSError as error:
            raise BadFile(f"{self._path}: cannot be written: {reason_of(error)}") from None
        self._lines = len(self._notes)


def _line(note: Note) -> str:
    return f"{note.number} {note.packet} {note.digest}\n"


def _digest(message: Any) -> str:
    return hashlib.sha256(message.topic.encode() + b"\0" + message.payload).hexdigest()[:32]
