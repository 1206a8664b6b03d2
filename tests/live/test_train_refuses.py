"""What `siag.train` refuses, and which errors of the user's it tells, in one line each."""

import multiprocessing
import threading
from functools import partial

import jobs
import numpy as np
import pytest
from jobs import Notes
from trainings import STEP, problem, train, virtual

import siag
from siag.foundations.encodings import FLOAT64
from siag.foundations.errors import Missing
from siag.live.transports.shared_memory.memory import Memory
from siag.server import Guard

GOOD = {"gradient": jobs.pull, "streams": [[1.0]], "w0": np.zeros(2), "step": STEP}


BAD = {
    "a lock": ({"gradient": partial(jobs.pull, threading.Lock())}, r"^gradient = .*pickled.*; define it without open"),
    "no function": ({"gradient": 5}, r"^gradient = 5: must be a function gradient\(w, sample\)"),
    "no gradient": ({"gradient": None}, r"^gradient is missing; give gradient and streams, or a problem"),
    "no streams": ({"streams": None}, r"^streams is missing; give gradient and streams, or a problem"),
    "no stream": ({"streams": []}, r"^streams = \[\]: must be a list with one stream for each worker"),
    "one text": ({"streams": "abc"}, r"^streams = 'abc': must be a list with one stream for each worker"),
    "a generator": ({"streams": [jobs.numbers(3)]}, r"^streams\[0\] = .*generator.*give the function that makes it"),
    "an array": ({"streams": np.zeros((2, 3))}, r"^streams = array.*must be a list with one stream"),
    "a number": ({"streams": [[1.0], 5]}, r"^streams\[1\] = 5: must be something to iterate over"),
    "a path": ({"streams": ["data.csv"]}, r"^streams\[0\] = 'data.csv': must be a stream.*siag.streams.Follow\(path\)"),
    "too many": ({"streams": [[1.0]] * 1001}, r"^workers = 1001: must be at most 1000 on one machine; use siag serve"),
    "no w0": ({"w0": None}, r"^w0 is missing; give the model's first parameters"),
    "w0 of text": ({"w0": "zero"}, r"^w0 = 'zero': must be an array of finite real numbers"),
    "w0 not finite": ({"w0": [np.nan]}, r"^w0 = .*it holds NaN"),
    "no step": (
        {"step": None, "method": siag.methods.SIAG()},
        r"^step is missing; SIAG needs one, .*Automatic needs none",
    ),
    "a step of its own": ({"method": siag.methods.Automatic()}, r"^Automatic chooses its steps itself.*leave the step"),
    "no sample": ({"streams": [[1.0], []]}, r"^streams\[1\] = \[\]: must be data with at least one sample; or leave"),
    "unequal": ({"streams": [(np.ones((3, 2)), np.ones(2))]}, r"^streams\[0\] = .*3 rows and 2 rows.*of equal length"),
    "columns": ({"streams": [{"x": [1.0]}]}, r"^streams\[0\] = .*must be rows; this is by columns; give rows"),
    "a number as step": ({"step": 0.1}, r"^step = 0.1: must be a Step"),
    "a class as method": ({"method": siag.methods.SIAG}, r"^method = .*must be a Method; make one: SIAG\(…\)"),
    "no method": ({"method": "SIAG"}, r"^method = 'SIAG': must be a Method"),
    "exact gradients": ({"method": siag.methods.IAG()}, r"^IAG needs exact gradients, a stream has none; use SIAG"),
    "no end": ({"until": 0}, r"^until = 0: must be a number of iterations"),
    "names": ({"names": ["a", "b"]}, r"^names = .*must be 1 different texts"),
    "waiting": ({"server": siag.activity.WaitForAll()}, r"^server = WaitForAll.*a live server waits for nobody"),
    "a buffer": (
        {"method": siag.methods.FedBuff(steps=2, size=0.1), "server": siag.activity.EveryArrivals(2)},
        r"^FedBuff's buffer of 2 .*use EveryArrivals\(k\) with a k from 1 to 1, or Rennala",
    ),
    "guard": ({"guard": "strict"}, r"^guard = 'strict': must be a siag.server.Guard"),
    "departed": ({"departed": 0}, r"^departed = 0: must be a siag.server.Departed"),
    "loss": ({"loss": 1.0}, r"^loss = 1.0: must be a function loss\(w\)"),
    "record": ({"record": 0}, r"^record = 0: must be"),
    "durable": ({"durable": True}, r"^folder is missing; say where a durable run is to be kept"),
    "progress": ({"progress": "yes"}, r"^progress = 'yes': must be True, False, a watcher, or a list of these"),
    "folder": ({"folder": 3}, r"^folder = 3: must be a path; give it as text, or leave it out"),
    "trace": ({"trace": 3}, r"^trace = 3: must be a path; give it as text, or leave it out"),
    "bytes": ({"trace": b"t"}, r"^trace = b't': must be a path; give it as text, or leave it out"),
    "on Ray": ({"folder": 3, "runtime": siag.runtimes.Ray()}, r"^folder = 3: must be a path"),
    "patience": ({"patience": 0}, r"^patience = 0: must be"),
    "forget": ({"forget": -1}, r"^forget = -1: must be a finite number at least 0; or leave it out"),
    "seed": ({"seed": -1}, r"^seed = -1: must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_clear_line(case):
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message) as caught:
        siag.train(**GOOD | change)
    assert isinstance(caught.value, siag.SiagError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


BAD_PROBLEMS = {
    "no end": ({"until": None}, r"^until is missing"),
    "an empty end": ({"until": siag.Until()}, r"^until is missing"),
    "streams too": ({"streams": [[1.0]]}, r"^problem = .*must be given alone"),
    "pauses of another number": ({"pauses": [0.1]}, r"^pauses = \[0.1\]: must be 3 numbers, one for each worker"),
    "pauses below zero": ({"pauses": [0, 0, -1]}, r"^pauses = -1: must be a finite number at least 0"),
    "one pause": ({"pauses": 0.1}, r"^pauses = 0.1: must be 3 numbers, one for each worker"),
    "w0 of another size": ({"w0": np.zeros(3)}, r"^w0 = .*shape \(4\)"),
    "no problem": ({"problem": "least squares"}, r"^problem = 'least squares': must be a Problem"),
    "a method for other activities": ({"method": siag.methods.SAG()}, r"^SAG "),
    "a method for other servers": ({"method": siag.methods.Scaffnew(p=0.5, size=0.1)}, r"^Scaffnew .*use SCAFFOLD$"),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_bad_input_with_a_problem_is_refused_in_one_clear_line(case):
    change, message = BAD_PROBLEMS[case]
    with pytest.raises(ValueError, match=message) as caught:
        siag.train(**{"problem": problem(), "step": STEP, "until": 10} | change)
    assert isinstance(caught.value, siag.SiagError)
    assert "\n" not in str(caught.value)


def test_more_workers_than_the_system_has_files_for_are_refused_at_once(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (250, 250))
    with pytest.raises(siag.BadInput, match=r"^workers = 51: must be at most 50 with 250 files.*ulimit -n"):
        siag.train(**GOOD | {"streams": [[1.0]] * 51})


def test_pauses_without_a_problem_are_refused():
    with pytest.raises(siag.BadInput, match=r"^pauses = \[0.1\]: must be left out.*siag.streams.Paced"):
        siag.train(**GOOD, pauses=[0.1])


def test_what_is_missing_is_of_its_own_kind():
    with pytest.raises(Missing):
        siag.train()


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (
            jobs.matrix_gradient,
            "gradient returned array([[0., 0.], [0., 0.]]) (ndarray); it must return 2 real numbers",
        ),
        (jobs.nothing, "gradient returned None; it must return 2 real numbers"),
        (jobs.letters, "gradient returned ['1', '1'] (list); it must return 2 real numbers"),
        (jobs.imaginary, "gradient returned array([0.+1.j, 0.+1.j]) (ndarray); it must return 2 real numbers"),
        (jobs.overwriting, "ValueError: output array is read-only (jobs.py, line "),
        (jobs.always_inf, "worker 0: refused: not finite"),
        (jobs.leaving, "worker 0 is gone: its process ended with status 7"),
    ],
)
def test_a_gradient_that_is_wrong_from_the_start_is_an_error_that_says_how(gradient, words):
    carried = train if gradient is jobs.leaving else virtual
    with pytest.raises(siag.SiagError) as caught:
        carried([[1.0] * 20], gradient=gradient, guard=Guard(strikes=3))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_why_a_worker_failed_is_known_though_it_said_much_before_that():
    notes = Notes()
    run = train([jobs.talking, [1.0] * 20], progress=notes)
    assert len(run.about["failed"]) == 1
    assert run.about["failed"][0].startswith("worker 0 failed: ValueError: the reason (jobs.py, line ")
    said = [text for text in notes.events if text.startswith("worker 0: ")]
    assert said == [f"worker 0: remark {k}" for k in range(3)]


def test_what_a_worker_says_and_its_last_words_do_not_get_into_each_others_way():
    memory = Memory.shared(multiprocessing, 2, 1, 1, FLOAT64)
    memory.say(1, "a remark")
    memory.say(1, "the end", last=True)
    memory.say(0, "another's")
    assert (memory.said(1), memory.said(1, last=True)) == ("a remark", "the end")
    memory.say(1, "")
    assert (memory.said(1), memory.said(1, last=True)) == ("", "the end")
    assert (memory.said(0), memory.said(0, last=True)) == ("another's", "")


def test_a_function_that_makes_no_stream_is_an_error_that_says_so():
    with pytest.raises(siag.SiagError, match="worker 0 failed: stream = 5: must be something to iterate over"):
        virtual([jobs.no_stream])
