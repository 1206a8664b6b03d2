"""`siag.streams.MQTT` on a real mosquitto: nothing is lost, nothing counts twice, whoever is killed when."""

import subprocess
import threading
from itertools import islice

import paho.mqtt.client as paho
import pytest
from killed import counted_by_a_server
from services import Mosquitto, read

from siag.foundations.errors import BadFile, BadInput, Missing, SiagError
from siag.streams import MQTT, Batched, Stop
from siag.streams.remarks import heard_by

VERSION = paho.CallbackAPIVersion.VERSION2


@pytest.fixture
def broker(tmp_path):
    with Mosquitto(tmp_path) as running:
        yield running


def connected(broker, **options):
    client = paho.Client(VERSION, **options)
    there = threading.Event()
    client.on_connect = client.on_subscribe = lambda *_: there.set()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    assert there.wait(10)
    there.clear()
    return client, there


def subscribe(broker):
    """Begin the worker's session, so that the broker keeps what is published for it."""
    client, there = connected(broker, client_id="north", clean_session=False)
    client.subscribe("orders", qos=1)
    assert there.wait(10)
    leave(client)


def leave(client):
    client.disconnect()
    client.loop_stop()


def publish(broker, count, first=0, qos=1, contents=None):
    client, _ = connected(broker)
    for content in contents or map(str, range(first, first + count)):
        client.publish("orders", content, qos=qos).wait_for_publish(10)
    leave(client)


def orders(broker, tmp_path, **options):
    return MQTT("orders", "127.0.0.1", broker.port, client="north", bookmark=tmp_path / "place", poll=0.01, **options)


def test_messages_are_read_in_order_and_not_again_once_they_are_acknowledged(broker, tmp_path):
    subscribe(broker)
    publish(broker, 60)
    stream = orders(broker, tmp_path)
    assert read(stream, 25) == list(range(25))
    assert read(stream.after(25), 35) == list(range(25, 60))


def test_a_reader_that_was_killed_is_followed_by_one_that_goes_on_where_the_server_is(broker, tmp_path):
    subscribe(broker)
    publish(broker, 12)
    samples = orders(broker, tmp_path).samples(Stop())
    assert [next(samples) for _ in range(6)] == list(range(6))
    later = orders(broker, tmp_path).after(5)  # the server has 5, of which none is acknowledged
    later.accepted(5)
    again = later.samples(Stop())
    assert [next(again) for _ in range(7)] == list(range(5, 12))
    again.close()
    samples.close()


def test_a_broker_that_goes_away_and_comes_back_costs_and_repeats_nothing(broker, tmp_path):
    subscribe(broker)
    publish(broker, 60)  # of which at most 20 are on their way at a time
    stream, said, found = orders(broker, tmp_path), [], []
    with heard_by(said.append):
        samples = stream.samples(Stop())
        for number, sample in enumerate(islice(samples, 60), 1):
            found.append(sample)
            if number == 10:
                broker.stop()
                broker.start()
            stream.accepted(number)
        samples.close()
    assert found == list(range(60))
    told = [line.partition(": ")[2].partition(" (")[0] for line in said]
    assert told in ([], ["cannot be reached", "is there; reading goes on"])  # nothing if it was back at once


def test_a_broker_that_is_not_there_is_waited_for_and_that_is_said_once(broker, tmp_path):
    subscribe(broker)
    publish(broker, 2)
    broker.stop()
    stop, said, stream = Stop(), [], orders(broker, tmp_path)

    def wait(seconds):
        if said and broker.process.poll() is not None:
            broker.start()
        return threading.Event().wait(min(seconds, 0.01))

    stop.wait = wait
    with heard_by(said.append):
        assert list(islice(stream.samples(stop), 2)) == [0, 1]
    assert said[0] == f"{stream.where}: cannot be reached (no connection); it is tried again until it is there"
    assert said[1:] == [f"{stream.where}: is there; reading goes on"]


def test_a_broker_that_has_lost_the_session_is_told(broker, tmp_path):
    stream, said = orders(broker, tmp_path).after(7), []
    stop = Stop()

    def wait(seconds):
        if said:
            publish(broker, 1)
        return threading.Event().wait(0.01)

    stop.wait = wait
    with heard_by(said.append):
        assert list(islice(stream.samples(stop), 1)) == [0]
    assert said == [f"{stream.where}: the broker has no session north any more; what was published since is lost"]


def test_batches_and_bad_messages_are_counted_as_what_they_are(broker, tmp_path):
    subscribe(broker)
    publish(broker, 0, contents=["0", "1", "no", "2", "3", "4", "5"])
    outer = Batched(orders(broker, tmp_path, bad="skip"), 3)
    samples = outer.samples(Stop())
    assert next(samples) == [0, 1, 2]
    outer.accepted(1)
    samples.close()
    assert next(iter(Batched(orders(broker, tmp_path, bad="skip"), 3).after(1))) == [3, 4, 5]


def test_a_batch_larger_than_what_the_broker_sends_at_a_time_is_told(broker, tmp_path):
    subscribe(broker)
    publish(broker, 30)
    stop, said = Stop(), []

    def wait(seconds):
        if said:
            stop.set()
        return threading.Event().wait(0.01) or stop.is_set()

    stop.wait = wait
    with heard_by(said.append):
        assert list(Batched(orders(broker, tmp_path), 25).samples(stop)) == []
    assert len(said) == 1
    assert "20 messages wait for the server, and the broker may send no more until then; if this is a batch" in said[0]


def test_messages_without_quality_are_told(broker, tmp_path):
    stop, said, there = Stop(), [], []

    def wait(seconds):
        publish(broker, 1, qos=0)
        return threading.Event().wait(0.01)

    stop.wait = wait
    with heard_by(said.append):
        there += islice(orders(broker, tmp_path).samples(stop), 2)
    assert there == [0, 0]
    assert [line.partition(": ")[2] for line in said] == ["messages have QoS 0; those on their way are lost in a crash"]


def test_a_wrong_password_is_one_line_and_no_password_is_ever_shown(tmp_path):
    users = tmp_path / "users"
    Mosquitto.users = users
    try:
        subprocess.run(["mosquitto_passwd", "-c", "-b", str(users), "me", "right"], check=True, capture_output=True)
        with Mosquitto(tmp_path) as broker:
            stream = orders(broker, tmp_path, username="me", password="wrong-word")
            with pytest.raises(SiagError, match=r"does not let client north in \(.+\)$") as told:
                list(stream)
            assert "wrong-word" not in str(told.value) + repr(stream)
    finally:
        Mosquitto.users = None


def test_a_bookmark_that_is_none_is_refused(tmp_path):
    (tmp_path / "place").write_text("something\n")
    stream = MQTT("orders", "127.0.0.1", 1, client="north", bookmark=tmp_path / "place")
    with pytest.raises(BadFile, match="not a bookmark of an MQTT stream; if it is of no use, delete it"):
        list(stream)


@pytest.mark.parametrize("wrong", ["client", "bookmark"])
def test_what_is_missing_is_said(wrong):
    given = {"client": "north", "bookmark": "place"}
    del given[wrong]
    with pytest.raises(Missing, match=f"{wrong} is missing; give"):
        MQTT("orders", **given)


@pytest.mark.parametrize("wrong", [{"topic": ""}, {"port": 0}, {"tls": "yes"}, {"format": "xml"}])
def test_what_it_cannot_be_is_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        MQTT(**{"topic": "orders", "client": "north", "bookmark": "place"} | wrong)


def test_a_worker_that_is_killed_10_times_at_random_loses_no_message_and_counts_none_twice(broker, tmp_path):
    subscribe(broker)
    publish(broker, 300)
    stream = orders(broker, tmp_path)
    counts, killed = counted_by_a_server(stream, 300, tmp_path / "run", kills=10, seed=16)
    assert counts.tolist() == [1.0] * 300
    assert killed == 10
