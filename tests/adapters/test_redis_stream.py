"""`siag.streams.Redis` on a real redis-server: nothing is lost, nothing counts twice, whoever is killed when."""

import threading
from itertools import islice

import pytest
import redis
from killed import counted_by_a_server
from services import RedisServer, SecretRedisServer, read

from siag.foundations.errors import BadInput, SiagError
from siag.streams import Batched, Buffered, Redis, Stop
from siag.streams.remarks import heard_by


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path) as running:
        yield running


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server.url) as client:
        yield client


def fill(client, count, first=0, key="orders"):
    for k in range(first, first + count):
        client.xadd(key, {"value": str(k)})


def orders(server, **options):
    return Redis("orders", server.url, value="value", poll=0.001, **options)


def place(client, key="orders"):
    """How many samples were acknowledged, and how many entries are pending."""
    return int(client.hget(f"siag:{{{key}}}:siag", "siag")), client.xpending(key, "siag")["pending"]


def test_entries_are_read_in_order_and_acknowledged_when_they_are_accepted(server, client):
    fill(client, 250)
    stream = orders(server)
    assert read(stream, 230) == list(range(230))
    assert place(client) == (230, 20)  # the last of those that were read ahead are not acknowledged
    assert read(stream.after(230), 20) == list(range(230, 250))
    assert place(client) == (250, 0)


def test_a_reader_that_was_killed_is_followed_by_one_that_goes_on_where_the_server_is(server, client):
    fill(client, 20)
    killed = orders(server)
    samples = killed.samples(Stop())
    assert [next(samples) for _ in range(8)] == list(range(8))
    later = orders(server).after(7)  # the server has 7, of which none is acknowledged
    later.accepted(7)
    again = later.samples(Stop())
    assert next(again) == 7
    fill(client, 1, first=20)
    assert [next(again) for _ in range(13)] == list(range(8, 21))
    with pytest.raises(SiagError, match="another reader has come as consumer siag of group siag; give each worker a"):
        list(samples)
    again.close()
    assert place(client)[0] == 7


def test_two_consumers_share_a_stream(server, client):
    fill(client, 10)
    first, second = (orders(server, consumer=name).samples(Stop()) for name in "ab")
    found = [next(first)]
    fill(client, 5, first=10)
    found += [next(second)]
    assert found == [0, 10]


def test_fields_are_a_dict_of_texts_by_default(server, client):
    client.xadd("orders", {"x": "1.5", "y": "yes"})
    assert read(Redis("orders", server.url), 1) == [{"x": "1.5", "y": "yes"}]
    parsed = Redis("orders", server.url, group="other", parse=lambda entry: (float(entry["x"]), entry["y"]))
    assert read(parsed, 1) == [(1.5, "yes")]
    with pytest.raises(SiagError, match=r"entry b'.*': there is no field 'z'; mend it, or leave such entries out"):
        read(Redis("orders", server.url, group="third", value="z"), 1)


def test_a_new_group_may_begin_with_what_is_new(server, client):
    fill(client, 3)
    stop, found = Stop(), []
    stop.wait = lambda seconds: fill(client, 2, first=3)
    found = list(islice(orders(server, start="newest").samples(stop), 2))
    assert found == [3, 4]


def test_batches_are_acknowledged_whole(server, client):
    fill(client, 10)
    outer = Batched(orders(server), 3)
    samples = outer.samples(Stop())
    assert [next(samples) for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
    outer.accepted(2)
    samples.close()
    assert place(client) == (6, 4)
    later = Batched(orders(server), 3).after(2)
    assert next(iter(later)) == [6, 7, 8]


def test_read_ahead_by_a_thread(server, client):
    fill(client, 10)
    stream = Buffered(orders(server), capacity=4, full="block")
    samples = stream.samples(Stop())
    assert list(islice(samples, 10)) == list(range(10))
    samples.close()


# What goes wrong


def waits(*steps):
    """A wish to stop that does something whenever the stream waits."""
    steps, stop = list(steps), Stop()

    def wait(seconds):
        if steps:
            steps.pop(0)()
        return stop.is_set()

    stop.wait = wait
    return stop


def test_a_server_that_is_not_there_yet_is_waited_for_and_that_is_said_once(tmp_path):
    with RedisServer(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            fill(client, 3)
        server.kill()
        said = []
        with heard_by(said.append):
            stop = waits(*[lambda: None] * 3, server.start)
            assert list(islice(orders(server).samples(stop), 3)) == [0, 1, 2]
    where = f"redis://127.0.0.1:{server.port}/0, stream orders"
    assert said[0].startswith(f"{where}: cannot be reached (")
    assert said[0].endswith("it is tried again until it is there")
    assert said[1:] == [f"{where}: is there; reading goes on"]


def test_a_server_that_goes_away_and_comes_back_costs_and_repeats_nothing(server, client):
    fill(client, 120)
    said, stream = [], orders(server)
    with heard_by(said.append):
        samples = stream.samples(waits(server.start))
        found = []
        for number, sample in enumerate(islice(samples, 120), 1):
            found.append(sample)
            stream.accepted(number)
            if number == 50:
                server.kill()
        samples.close()
    assert found == list(range(120))
    assert place(client) == (120, 0)
    assert len(said) == 2


def test_a_stream_ends_promptly_while_it_waits(server, client):
    stop = Stop()
    thread = threading.Thread(target=lambda: list(orders(server).samples(stop)))
    thread.start()
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_wrong_password_is_one_line_and_no_password_is_ever_shown(tmp_path):
    with SecretRedisServer(tmp_path) as server:
        url = f"redis://:wrong-word@127.0.0.1:{server.port}/0"
        for stream in (Redis("orders", url), Redis("orders", server.url, password="wrong-word"), orders(server)):
            with pytest.raises(
                SiagError, match=r"stream orders: does not accept the name and password \(.*\)$"
            ) as told:
                list(stream)
            assert "wrong-word" not in str(told.value) + repr(stream)
            assert "\n" not in str(told.value)
        with redis.Redis.from_url(server.url, password=server.password) as client:
            fill(client, 1)
        assert read(orders(server, password=server.password), 1) == [0]


def test_a_key_that_is_no_stream_is_an_error_in_a_line(server, client):
    client.set("orders", "1")
    with pytest.raises(SiagError, match=r"^redis://127.0.0.1:\d+/0, stream orders: WRONGTYPE.*$") as told:
        list(orders(server))
    assert "\n" not in str(told.value)


def test_entries_that_were_trimmed_before_they_were_read_are_counted_and_told_once(server, client):
    fill(client, 300)
    stream, said = orders(server), []
    with heard_by(said.append):
        assert read(stream, 100) == list(range(100))
        client.xtrim("orders", maxlen=50, approximate=False)
        assert read(stream.after(100), 50) == list(range(250, 300))
        fill(client, 120, first=300)  # more than are fetched at a time
        assert read(stream.after(150), 120) == list(range(300, 420))
        client.xtrim("orders", maxlen=0, approximate=False)  # all of them were read
        fill(client, 5, first=420)
        assert read(stream.after(270), 5) == list(range(420, 425))
        fill(client, 10, first=425)
        client.xtrim("orders", maxlen=3, approximate=False)
        assert read(stream.after(275), 3) == [432, 433, 434]
    lost = [f"{stream.where}: {k} entries were trimmed before they were read; they are lost" for k in (150, 7)]
    assert said == lost


def test_entries_that_were_taken_away_while_they_were_pending_are_told(server, client):
    fill(client, 20)
    stream, said = orders(server), []
    samples = stream.samples(Stop())
    assert [next(samples) for _ in range(5)] == list(range(5))
    client.xtrim("orders", maxlen=12, approximate=False)  # 0 to 7, of which the server has 5
    with heard_by(said.append):
        later = stream.after(5)
        assert read(later, 12) == list(range(8, 20))
    assert said == [f"{stream.where}: 3 entries were taken away before they were read; they are lost"]


def test_a_server_that_has_lost_everything_is_told(server, client):
    fill(client, 5)
    stream, said = orders(server), []
    assert read(stream, 5) == list(range(5))
    client.flushall()
    fill(client, 2, first=5)
    with heard_by(said.append):
        assert read(stream.after(5), 2) == [5, 6]
    assert len(said) == 1
    assert "group siag knows nothing of the 5 samples reported before" in said[0]
    assert place(client) == (7, 0)


@pytest.mark.parametrize("wrong", [{"key": ""}, {"url": "localhost"}, {"group": 3}, {"start": "first"}, {"poll": 0}])
def test_what_it_cannot_be_is_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Redis(**{"key": "orders"} | wrong)


def test_a_worker_that_is_killed_20_times_at_random_loses_no_entry_and_counts_none_twice(server, client, tmp_path):
    fill(client, 600)
    counts, killed = counted_by_a_server(orders(server), 600, tmp_path / "run", kills=20, seed=15)
    assert counts.tolist() == [1.0] * 600
    assert killed == 20
