"""Streams: the data of a live worker, one sample after the other, while they arrive.

- `Follow`: the lines of a file that grows.
- `Directory`: the lines of files that appear in a folder.
- `labelled`: the rows of files as pairs (x, y) of features and label.
- `Repeated`: finite data, such as a list or a DataFrame, pass after pass; workers read these so by themselves.
- `Parquet`, `Arrow`, `SQL`: the rows of tables, a part at a time; finite data, too.
- `Redis`, `Kafka`, `MQTT`: the entries of brokers, acknowledged when the server has them.
- `Buffered`: any stream, read ahead by a thread, for a worker that is slower than its data.
- `Batched`: samples of any stream put together, by number, by time, or all that have come.
- `Rows`: the rows of a Ray Dataset; `split` deals those of one out to many workers, a `Part` each.
- `Paced`: any stream, slowed down, to try out unequal workers.
- `Stream`: what they have in common, and the class to derive your own from; `Stop` ends one from another thread.

A worker goes through a stream with `for sample in stream`. Until then nothing is open and nothing runs, so a stream can
be pickled and sent to the process that will read it. Each such loop starts at the beginning of the data, or, if the
stream was made by `after(k)`, after the first k samples of it.

Example:
    >>> [sample * 10 for sample in Paced(Buffered([1, 2, 3], full="block"), seconds=0.001)]
    [10, 20, 30]
"""

from siag.streams.arrow import Arrow, Parquet
from siag.streams.batched import Batched
from siag.streams.buffered import Buffered
from siag.streams.directory import Directory
from siag.streams.follow import Follow
from siag.streams.kafka import Kafka
from siag.streams.labelled import labelled
from siag.streams.mqtt import MQTT
from siag.streams.paced import Paced
from siag.streams.parts import Part, split
from siag.streams.redis import Redis
from siag.streams.repeated import Repeated
from siag.streams.rows import Rows
from siag.streams.sql import SQL
from siag.streams.stream import Stop, Stream

__all__ = [
    "MQTT",
    "SQL",
    "Arrow",
    "Batched",
    "Buffered",
    "Directory",
    "Follow",
    "Kafka",
    "Paced",
    "Parquet",
    "Part",
    "Redis",
    "Repeated",
    "Rows",
    "Stop",
    "Stream",
    "labelled",
    "split",
]
