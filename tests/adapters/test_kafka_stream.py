"""`siag.streams.Kafka` on the mock cluster of librdkafka, which speaks Kafka's protocol over TCP."""

import threading
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from killed import counted_by_a_server
from services import free_port, read

from siag.foundations.errors import BadInput, SiagError
from siag.streams import Batched, Kafka, Stop
from siag.streams.remarks import heard_by

QUIET = {"log_level": 0}


class Cluster:
    """Mock brokers, which live as long as a producer does."""

    def __init__(self):
        self.producer = Producer(QUIET | {"bootstrap.servers": "none", "test.mock.num.brokers": 1})
        brokers = self.producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def fill(self, count, first=0, partition=0):
        for k in range(first, first + count):
            self.producer.produce("orders", str(k).encode(), partition=partition)
        assert self.producer.flush(10) == 0

    @contextmanager
    def consumer(self):
        consumer = Consumer(QUIET | {"bootstrap.servers": self.servers, "group.id": "siag"})
        yield consumer
        consumer.close()

    def committed(self):
        with self.consumer() as consumer:
            [found] = consumer.committed([TopicPartition("orders", 0)], timeout=10)
        return found.offset, found.metadata

    def commit(self, offset, metadata):
        with self.consumer() as consumer:
            place = TopicPartition("orders", 0, offset, metadata=metadata)
            consumer.commit(offsets=[place], asynchronous=False)


@pytest.fixture
def cluster():
    return Cluster()


def orders(cluster, **options):
    return Kafka("orders", cluster.servers, poll=0.01, **options)


def test_messages_are_read_in_order_and_committed_with_the_number_of_samples(cluster):
    cluster.fill(30)
    stream = orders(cluster)
    assert read(stream, 12) == list(range(12))
    assert cluster.committed() == (12, "siag 12")
    assert read(stream.after(12), 18) == list(range(12, 30))
    assert cluster.committed() == (30, "siag 30")


def test_a_reader_that_was_killed_is_followed_by_one_that_goes_on_where_the_server_is(cluster):
    cluster.fill(10)
    samples = orders(cluster).samples(Stop())
    assert [next(samples) for _ in range(6)] == list(range(6))
    assert cluster.committed() == (0, "siag 0")
    later = orders(cluster).after(5)  # the server has 5, of which none is committed
    later.accepted(5)
    again = later.samples(Stop())
    assert next(again) == 5
    again.close()
    assert cluster.committed() == (5, "siag 5")


def test_batches_and_bad_messages_are_counted_as_what_they_are(cluster):
    cluster.fill(4)
    cluster.producer.produce("orders", b"no", partition=0)
    cluster.fill(5, first=4)
    outer = Batched(orders(cluster, bad="skip"), 3)
    samples = outer.samples(Stop())
    assert [next(samples) for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
    outer.accepted(2)
    samples.close()
    assert cluster.committed() == (7, "siag 6")
    assert next(iter(Batched(orders(cluster, bad="skip"), 3).after(2))) == [6, 7, 8]


def test_a_partition_of_its_own(cluster):
    cluster.fill(2)
    cluster.fill(2, first=5, partition=1)
    assert read(orders(cluster, partition=1), 2) == [5, 6]
    with pytest.raises(BadInput, match=r"partition = 99: must be below \d+, the number of partitions"):
        list(orders(cluster, partition=99))


def test_a_topic_that_is_not_there_is_an_error_in_a_line(cluster):
    words = r"^127.0.0.1:\d+, topic other, partition 0: Broker: Unknown topic or partition; make the topic first$"
    with pytest.raises(SiagError, match=words):
        list(Kafka("other", cluster.servers))


def test_offsets_that_are_not_there_any_more_are_told_and_reading_goes_on(cluster):
    cluster.fill(5)
    cluster.commit(1000, "siag 3")
    said = []
    with heard_by(said.append):
        stream = orders(cluster).after(3)
        assert read(stream, 5) == list(range(5))
    assert said == [f"{stream.where}: has fewer messages than were read of it before; it is read from its beginning"]


@pytest.mark.parametrize(("reported", "had", "lost"), [(0, 0, 40), (10, 10, 30), (60, 40, 0)])
def test_what_was_deleted_is_counted_less_what_the_server_has(cluster, reported, had, lost):
    stream, said = orders(cluster), []
    reader = stream.connect()
    reader._next = 10
    with heard_by(said.append):
        assert reader._mind_the_gap(50, 90, reported) == had
    assert reader._next == 50
    assert said == [f"{stream.where}: {lost} messages were deleted before they were read; they are lost"] * (lost > 0)
    reader.close()


def test_commits_of_somebody_else_are_gone_on_from_and_that_is_told(cluster):
    cluster.fill(8)
    cluster.commit(3, "")
    said = []
    with heard_by(said.append):
        assert read(orders(cluster).after(5), 5) == [3, 4, 5, 6, 7]
    assert len(said) == 1
    assert "group siag knows nothing of the 5 samples reported before; what it has not committed is read" in said[0]
    assert cluster.committed() == (8, "siag 10")


def test_brokers_that_are_not_there_are_waited_for_and_that_is_said_once():
    stop, said = Stop(), []
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            stop.set()
        return stop.is_set()

    stop.wait = wait
    port = free_port()
    with heard_by(said.append):
        assert list(Kafka("orders", f"127.0.0.1:{port}").samples(stop)) == []
    assert waits == [0.1, 0.2]
    assert len(said) == 1
    assert said[0].startswith(f"127.0.0.1:{port}, topic orders, partition 0: cannot be reached (_ALL_BROKERS_DOWN: 1/1")


def test_brokers_that_go_away_are_noticed_and_waited_for():
    cluster, said, stop = Cluster(), [], Stop()
    cluster.fill(3)
    stream = orders(cluster)
    with heard_by(said.append):
        samples = stream.samples(stop)
        assert [next(samples) for _ in range(3)] == [0, 1, 2]
        cluster.producer = None  # and with it the brokers

        def wait(seconds):
            if said:
                stop.set()
            return threading.Event().wait(min(seconds, 0.05)) or stop.is_set()

        stop.wait = wait
        assert list(samples) == []
    assert len(said) == 1
    assert "cannot be reached (_ALL_BROKERS_DOWN" in said[0]


@pytest.mark.parametrize(
    "wrong", [{"topic": ""}, {"partition": -1}, {"settings": {"group.id": "x"}}, {"format": "xml"}, {"start": "0"}]
)
def test_what_it_cannot_be_is_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Kafka(**{"topic": "orders"} | wrong)


def test_settings_that_do_not_exist_are_refused_and_none_is_shown():
    stream = Kafka("orders", "127.0.0.1:1", settings={"sasl.passwort": "secret-word"})
    with pytest.raises(BadInput, match="No such configuration property") as told:
        list(stream)
    assert "secret-word" not in str(told.value) + repr(stream)


def test_a_worker_that_is_killed_10_times_at_random_loses_no_message_and_counts_none_twice(cluster, tmp_path):
    cluster.fill(300)
    counts, killed = counted_by_a_server(orders(cluster), 300, tmp_path / "run", kills=10, seed=17)
    assert counts.tolist() == [1.0] * 300
    assert killed == 10
