"""Streams from brokers: what is given, when it is acknowledged, and what is given again."""

import pickle
import sys
from itertools import islice

import pytest

from brokers import BROKERS, kept
from siag.foundations.errors import BadInput, Missing, SiagError
from siag.streams import MQTT, Batched, Buffered, Kafka, Paced, Parquet, Redis, Repeated, Stop
from siag.streams.lines import BadLine
from siag.streams.remarks import heard_by


def entries(count):
    return [str(k).encode() for k in range(count)]


def taken(stream, count):
    """The first samples, each accepted before the next is asked for, and not waited for."""
    found, samples = [], stream.samples(Stop())
    for number, sample in enumerate(islice(samples, count), stream._first + 1):
        found.append(sample)
        stream.accepted(number)
    samples.close()
    return found


def test_what_is_accepted_is_acknowledged_and_the_rest_comes_again():
    stream = kept("a", entries(10))
    samples = stream.samples(Stop())
    assert [next(samples) for _ in range(5)] == [0, 1, 2, 3, 4]
    stream.accepted(3)
    samples.close()
    assert (BROKERS["a"].place, BROKERS["a"].samples) == (3, 3)
    assert taken(stream.after(3), 7) == [3, 4, 5, 6, 7, 8, 9]


def test_what_the_server_has_and_the_broker_does_not_know_of_is_passed_over_and_acknowledged():
    stream = kept("a", entries(10))
    abandoned = stream.samples(Stop())  # killed: nothing more is done by it
    assert [next(abandoned) for _ in range(5)] == [0, 1, 2, 3, 4]
    later = stream.after(4)
    later.accepted(4)
    assert next(later.samples(Stop())) == 4
    assert (BROKERS["a"].place, BROKERS["a"].samples) == (4, 4)
    stream._has = 0
    abandoned.close()


@pytest.mark.parametrize("down", [{1, 2}, {3}, {4}, {5}, {2, 4, 6}])
def test_a_broker_that_goes_away_and_comes_back_is_waited_for_and_nothing_is_lost_or_comes_twice(down):
    stream, said = kept("a", entries(9), poll=0.001), []
    BROKERS["a"].down = down
    stop = Stop()
    stop.wait = lambda seconds: stop.is_set()
    with heard_by(said.append):
        samples = stream.samples(stop)
        found = []
        for number, sample in enumerate(islice(samples, 9), 1):
            found.append(sample)
            stream.accepted(number)
        samples.close()
    assert found == list(range(9))
    away = [line for line in said if "cannot be reached (it is away)" in line]
    assert 1 <= len(away) <= len(down)
    assert said.count("memory: is there; reading goes on") == len(away)


def test_a_broker_that_has_acknowledged_more_than_the_server_has_is_followed_and_that_is_told():
    stream, said = kept("a", entries(10)), []
    assert taken(stream, 6) == list(range(6))
    with heard_by(said.append):
        assert taken(kept_again(stream, 0), 2) == [6, 7]
    assert said == [
        "memory: the server has 0 of the 6 samples acknowledged here: it is another run, or has lost some; "
        "reading goes on after those acknowledged"
    ]
    assert BROKERS["a"].samples == 2


def kept_again(stream, samples):
    """As in another process."""
    again = pickle.loads(pickle.dumps(stream)).after(samples)
    again._has = samples
    return again


def test_bad_entries_are_told_and_acknowledged_with_those_around_them():
    stream, said = kept("a", [b"0", b"no", b"1", b"\xff", b"2"], bad="skip"), []
    with heard_by(said.append):
        assert taken(stream, 3) == [0, 1, 2]
    assert stream.skipped == 2
    assert said[0].startswith("memory, entry 1: not JSON")
    assert said[-1] == "memory: 2 bad entries were left out in all"
    assert (BROKERS["a"].place, BROKERS["a"].samples) == (5, 3)


def test_a_bad_entry_is_an_error_in_a_line():
    stream = kept("a", [b"0", b"no"])
    with pytest.raises(SiagError, match=r"^memory, entry 1: not JSON.*leave such entries out with bad='skip'$"):
        list(stream)


def refuse(sample):
    if sample == 1:
        raise BadLine("one is refused")
    return 1 / sample


def test_parse_makes_the_sample_or_says_what_is_wrong():
    stream = kept("a", [b"2", b"4"], parse=refuse)
    assert taken(stream, 2) == [0.5, 0.25]
    for content, words in ((b"1", "one is refused"), (b"0", "parse fails on b'0' with ZeroDivisionError")):
        with pytest.raises(SiagError, match=f"entry 0: {words}"):
            next(iter(kept("a", [content], parse=refuse)))


@pytest.mark.parametrize(
    ("format", "sample"), [("csv", [1.0, 2.0]), ("fields", ["1", "2"]), ("lines", "1,2"), ("bytes", b"1,2")]
)
def test_entries_may_be_of_other_formats(format, sample):
    found = next(iter(kept("a", [b"1,2"], format=format)))
    assert (found.tolist() if format == "csv" else found) == sample


# Around them


@pytest.mark.parametrize("around", [lambda each: Paced(each, 1e-6), lambda each: Buffered(each, full="block")])
def test_streams_around_them_pass_on_what_is_accepted(around):
    stream = kept("a", entries(10))
    outer = around(stream).after(2)
    outer.accepted(7)
    assert outer.stream._has == 7
    assert acknowledged(outer.stream, 2) == 7


def acknowledged(stream, first):
    assert stream._first == first
    return stream._has


def test_batches_are_acknowledged_as_the_samples_they_are_of():
    stream = kept("a", entries(10))
    outer = Batched(stream, 3)
    samples = outer.samples(Stop())
    assert [next(samples), next(samples)] == [[0, 1, 2], [3, 4, 5]]
    outer.accepted(1)
    samples.close()
    assert (BROKERS["a"].place, BROKERS["a"].samples) == (3, 3)
    again = Batched(kept_again(stream, 0), 3).after(2)
    again.accepted(2)
    samples = again.samples(Stop())
    assert next(samples) == [6, 7, 8]
    samples.close()
    assert (BROKERS["a"].place, BROKERS["a"].samples) == (6, 6)


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (Buffered, 'full = .drop oldest.: must be "block" around a stream that is acknowledged'),
        (lambda each: Batched(each, 3, seconds=1.0), "seconds = 1.0: must be None around a stream that is ack"),
        (Repeated, "data = .*what is acknowledged is read once"),
    ],
)
def test_what_cannot_count_samples_is_refused_around_them(around, words):
    with pytest.raises(BadInput, match=words):
        around(kept("a", []))


def test_streams_around_others_have_nothing_to_be_told():
    assert Paced([1], 1.0).accepted is Buffered([1]).accepted is Batched([1], 2).accepted is None


@pytest.mark.parametrize(
    ("module", "extra", "stream"),
    [
        ("redis", "redis", Redis("orders")),
        ("confluent_kafka", "kafka", Kafka("orders")),
        ("paho", "mqtt", MQTT("orders", client="a", bookmark="place")),
        ("pyarrow", "arrow", Parquet(__file__)),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, module, extra, stream):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Missing, match=rf"^{module}[a-z.]* is missing; install it with pip install 'siag\[{extra}\]'$"):
        list(stream)
