"""The messages of a partition of a Kafka topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.extras import needed
from siag.streams.messages import NEWEST, OLDEST, Down, Entry, Numbered, check_name
from siag.streams.remarks import say

COUNT = 500  # messages that are taken at a time of those that have come
SECONDS = 3.0  # that a broker may take to answer
MARK = "siag"  # how the metadata of a commit begin
SET_HERE = ("bootstrap.servers", "group.id", "enable.auto.commit", "auto.offset.reset", "error_cb")
REFUSALS = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED")


@dataclass(eq=False)
class Kafka(Numbered):
    """The messages of one partition of a Kafka topic, each once: committed when the server has their report.

    One worker reads one partition. The order of several partitions is not the same a second time, so nobody could say
    which messages the server has; give each worker a partition of its own, or a topic. The metadata of each commit have
    the number of samples that the offset stands for, so both change together. A worker that is started again passes
    over what the server has, and goes on with what it does not have. A server that is durable loses nothing; with one
    that is not, samples it has lost in a crash are not read again, and this is told. What is told to be lost when the
    broker has deleted it is counted by offsets: of a topic that is compacted it is at most that many.

    Args:
        topic: the topic, which must exist.
        servers: "host:9092", or several, separated by commas.
        partition: which one.
        group: whose commits they are. A new run needs another to begin anew.
        start: where a group without a commit begins: at the "oldest" message there is, or after the "newest".
        settings: more for librdkafka, such as `{"security.protocol": "SASL_SSL", "sasl.password": …}`; not shown.
        format: "json", "csv", "fields" or "lines" as for `siag.streams.Follow`, or "bytes".
        parse: what to make of that, a function of one sample.
        bad: "raise" an error at a message that is not in the format, or "skip" it, which is told.
        poll: how many seconds to wait between two looks, when there is nothing new.

    Attributes:
        skipped: how many bad messages were left out, in all loops over this object.

    Example:
        >>> Kafka("orders", "localhost:9092", partition=2).where
        'localhost:9092, topic orders, partition 2'
    """

    topic: str
    servers: str = "localhost:9092"
    partition: int = field(default=0, kw_only=True)
    group: str = field(default="siag", kw_only=True)
    start: str = field(default=OLDEST, kw_only=True)
    settings: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("topic", "servers", "group"):
            check_name(name, getattr(self, name))
        self.partition = check.integer("partition", self.partition, low=0)
        check.choice("start", self.start, (OLDEST, NEWEST))
        for name in self.settings or ():
            if name in SET_HERE:
                raise BadInput("settings", name, "a setting that is not made here", "it follows from the arguments")

    @property
    def where(self) -> str:
        """The address and the partition."""
        return f"{self.servers}, topic {self.topic}, partition {self.partition}"

    def connect(self) -> KafkaReader:
        """A consumer of the partition."""
        return KafkaReader(self)


class KafkaReader:
    """A consumer of one partition.

    Args:
        stream: what is read.
    """

    def __init__(self, stream: Kafka) -> None:
        self._kafka = needed("confluent_kafka", "kafka")
        self._stream, self._trouble = stream, ""
        own = {
            "bootstrap.servers": stream.servers,
            "group.id": stream.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "error_cb": self._hear,
        }
        try:
            self._consumer = self._kafka.Consumer({"log_level": 0, **(stream.settings or {}), **own})
        except self._kafka.KafkaException as error:
            raise BadInput("settings", "…", f"settings of librdkafka ({error.args[0].str()})") from None
        self._next = 0  # the offset after what is committed

    def place(self, samples: int) -> int:
        """How many samples stand before the first message that there is and that is not committed."""
        self._check_topic()
        low, high = self._ask(self._consumer.get_watermark_offsets, self._here())
        [found] = self._ask(self._consumer.committed, [self._here()])
        known = str(found.metadata or "").split()
        number = int(known[1]) if len(known) == 2 and known[0] == MARK and known[1].isdecimal() else None
        begin = low if self._stream.start == OLDEST else high
        self._next = begin if found.offset < 0 else found.offset
        if number is None:
            if samples:
                nothing = f"group {self._stream.group} knows nothing of the {samples:,} samples reported before"
                say(f"{self._stream.where}: {nothing}; what it has not committed is read")
            self.acknowledge([], samples)
            number = samples
        number += self._mind_the_gap(low, high, samples - number)
        self._consumer.assign([self._here(self._next)])
        return number

    def fetch(self) -> Sequence[Entry]:
        """What has come."""
        entries = []
        for message in self._consumer.consume(COUNT, timeout=0):
            error = message.error()
            if error is None:
                entries.append(Entry(message.offset(), message.value() or b""))
            elif error.name() == "_AUTO_OFFSET_RESET" and not entries:
                raise Down("the offset is not there any more")
            elif not entries:
                raise self._error(error)
        if self._trouble and not entries:
            raise Down(self._trouble)
        return entries

    def acknowledge(self, positions: Sequence[Any], samples: int) -> None:
        """Commit the offset, and in its metadata how many samples it stands for."""
        self._next = positions[-1] + 1 if positions else self._next
        place = self._here(self._next, metadata=f"{MARK} {samples}")
        try:
            self._consumer.commit(offsets=[place], asynchronous=False)
        except self._kafka.KafkaException as error:
            raise self._error(error.args[0]) from None

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()

    def _mind_the_gap(self, low: int, high: int, reported: int) -> int:
        """Go on at the first message there is; how many of those that are gone the server has."""
        if low <= self._next <= high:
            return 0
        gone, self._next = low - self._next, low
        if gone < 0:
            say(f"{self._stream.where}: has fewer messages than were read of it before; it is read from its beginning")
            return 0
        had = min(gone, max(0, reported))
        if gone > had:
            say(f"{self._stream.where}: {gone - had:,} messages were deleted before they were read; they are lost")
        return had

    def _check_topic(self) -> None:
        """Refuse what is not there."""
        stream = self._stream
        found = self._ask(self._consumer.list_topics, stream.topic).topics[stream.topic]
        if found.error is not None:
            raise SiagError(f"{stream.where}: {found.error.str()}; make the topic first")
        if stream.partition not in found.partitions:
            raise BadInput("partition", stream.partition, f"below {len(found.partitions)}, the number of partitions")

    def _here(self, *offset: int, metadata: str = "") -> Any:
        return self._kafka.TopicPartition(self._stream.topic, self._stream.partition, *offset, metadata=metadata)

    def _ask(self, what: Any, about: Any) -> Any:
        try:
            return what(about, timeout=SECONDS)
        except self._kafka.KafkaException as error:
            self._consumer.consume(1, timeout=0)  # so that `_hear` is called
            raise self._error(error.args[0]) from None

    def _hear(self, error: Any) -> None:
        """What librdkafka finds out by itself."""
        if error.name() in ("_ALL_BROKERS_DOWN", *REFUSALS):
            self._trouble = f"{error.name()}: {error.str()}"

    def _error(self, error: Any) -> Exception:
        """What is wrong, as an error: `Down`, if it may get better."""
        words = self._trouble or f"{error.name()}: {error.str()}"
        if words.partition(":")[0] in REFUSALS:
            return SiagError(f"{self._stream.where}: does not let us in ({words})")
        return Down(words)
