"""Streams that are told what the server has: by workers of all transports, after crashes and cuts, too."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from test_worker import WELCOME, D, Driven

import siag
from brokers import BROKERS, kept
from siag.activity import Exponential
from siag.foundations.errors import BadInput, Missing
from siag.live.protocol import wire
from siag.live.task import FromStream
from siag.methods import SGD, SIAG
from siag.runtimes import Faults
from siag.streams import Stop, Stream


@dataclass(eq=False)
class Told(Stream):
    """Numbers, and a note of all that is accepted."""

    first: int = 0
    notes: list = field(default_factory=list)
    file: str = ""

    def samples(self, stop):
        k = self.first
        while not stop.is_set():
            yield float(k)
            k += 1

    def after(self, samples):
        return Told(samples, self.notes, self.file)

    def accepted(self, samples):
        self.notes.append(samples)
        if self.file:
            with open(self.file, "a") as file:
                file.write(f"{samples}\n")


def pull(w, sample):
    return w - sample


def driven(stream, **options):
    return Driven(FromStream(pull, stream, SIAG(), np.zeros(D), **options))


def test_a_worker_tells_its_stream_of_each_report_that_was_taken():
    stream = Told()
    worker = driven(stream)
    worker.connect()
    worker.compute()
    assert stream.notes == [0]
    for stamp in (1, 2):
        worker.model(stamp)
        worker.compute()
    assert stream.notes == [0, 1, 2]


def test_what_was_refused_counts_with_the_next_that_is_taken():
    stream = Told()
    worker = driven(stream)
    worker.connect()
    worker.compute()
    worker.say(wire.REFUSAL, reason="no")
    worker.model(1)
    worker.compute()
    assert stream.notes == [0]
    worker.model(2)
    worker.compute()
    assert stream.notes == [0, 2]


@pytest.mark.parametrize(("has", "next_one"), [(1, 1.0), (2, 2.0), (5, 5.0)])
def test_after_a_lost_connection_it_goes_back_to_the_first_sample_that_has_not_arrived(has, next_one):
    stream = Told()
    worker = driven(stream)
    worker.connect()
    worker.compute()
    worker.model(1)
    worker.compute()  # of sample 1, and nobody answers
    worker.worker.lost("cut", 0.0)
    worker.connect(welcome=WELCOME | {"samples": has})
    worker.compute()
    assert worker.worker.message[0] == -next_one
    assert stream.notes == [0, 1, has]


def test_after_a_lost_connection_what_was_refused_does_not_come_again():
    stream = Told()
    worker = driven(stream)
    worker.connect()
    worker.compute()
    worker.say(wire.REFUSAL, reason="no")
    worker.model(1)
    worker.compute()
    worker.worker.lost("cut", 0.0)
    worker.connect(welcome=WELCOME | {"samples": 0})
    worker.compute()
    assert worker.worker.message[0] == -1.0
    assert stream.notes == [0, 0]


def test_what_was_computed_while_the_connection_was_lost_is_computed_again():
    worker = driven(Told())
    worker.connect()
    worker.worker.compute()
    worker.worker.lost("cut", 0.0)
    worker.connect()
    assert worker.worker.computed(True, 0.0) == []
    assert worker.worker.busy
    worker.compute()
    assert worker.worker.message[0] == 0.0
    assert worker.worker.task.sample == 0


def test_a_worker_without_a_name_is_refused_such_a_stream():
    task = FromStream(pull, Told(), SIAG(), np.zeros(D), go_on=False)
    with pytest.raises(Missing, match="a stream that is acknowledged is one worker's; give it a name or a token"):
        task.begin(0, 1, D, 0)


def test_a_stream_that_is_acknowledged_must_be_able_to_go_on():
    class Half(Stream):
        def samples(self, stop: Stop):
            yield 1.0

        def accepted(self, samples):
            pass

    with pytest.raises(BadInput, match=r"able to go on after some samples; accepted\(samples\) needs after\(samples\)"):
        FromStream(pull, Half(), SIAG(), np.zeros(D)).begin(0, 1, D, 0)


def test_other_tasks_have_nothing_to_be_told():
    task = FromStream(pull, [1.0], SIAG(), np.zeros(D))
    task.begin(0, 1, D, 0)
    assert task.settle is None


@pytest.mark.thorough
def test_processes_on_one_machine_tell_their_streams(tmp_path):
    note = tmp_path / "note"
    siag.train(pull, [Told(file=str(note))], np.zeros(D), step=siag.steps.Constant(0.1), until=siag.Until(reports=20))
    assert list(map(int, note.read_text().split()))[:20] == list(range(20))


def one_more(w, sample):
    """w counts how often each entry was taken, as its negative."""
    counted = np.zeros(w.size)
    counted[sample] = 1.0
    return counted


FAULTS = {
    "crashes": Faults(crashes=7.0, down=0.5),
    "cuts": Faults(cuts=5.0, delay=Exponential(0.2)),
    "all": Faults(crashes=20.0, cuts=20.0, server=30.0, delay=Exponential(0.2), down=0.5),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_each_entry_is_taken_once_in_virtual_time_whatever_crashes(tmp_path, faults, seed):
    n, count = 2, 60
    streams = [kept(str(row), [str(k + count * row).encode() for k in range(count)]) for row in range(n)]
    runtime = siag.Simulated(times=Exponential(1.0), seed=seed, faults=faults)
    step, until = siag.steps.Constant(1.0), siag.Until(reports=n * count)
    how = {"folder": tmp_path / "run", "durable": True, "runtime": runtime, "progress": False}
    run = siag.train(one_more, streams, np.zeros(n * count), method=SGD(), step=step, until=until, **how)
    assert run.w[0].tolist() == [-1.0] * (n * count)
    assert all(count - 10 <= BROKERS[str(row)].place <= count for row in range(n))
