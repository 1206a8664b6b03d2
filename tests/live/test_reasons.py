"""Why things end and fail, in words: the one place where the sentences are tested."""

import pytest
from jobs import Notes

from siag.live.announcer import Announcer
from siag.live.reasons import (
    MOST_LINES,
    Ended,
    Ending,
    Failure,
    Problem,
    Trouble,
    WorkerFailure,
    no_progress,
    some,
)

ENDED = {
    Ended(Ending.REACHED): "as many iterations or reports as asked",
    Ended(Ending.TIME, "2"): "2 seconds have passed",
    Ended(Ending.EPOCHS, "10"): "all data were read 10 times",
    Ended(Ending.REACHED_BEFORE): "it had been reached before",
    Ended(Ending.ROOT_DONE, "it was stopped"): "the root has ended: it was stopped",
    Ended(Ending.ALL_LEFT): "all workers have left",
    Ended(Ending.NOBODY, "1 away, 1 left"): "no worker is there: 1 away, 1 left",
    Ended(Ending.LINGERED, "5"): "no worker was there for 5 seconds",
    Ended(Ending.INTERRUPTED): "interrupted",
    Ended(Ending.STOPPED, "SIGTERM"): "stopped by SIGTERM",
    Ended(Ending.DIVERGED, "w {left} the range"): "w {left} the range",
    Ended(Ending.SERVER_ERROR): "an error of the server's",
}


def failure(kind, name="a", reason="why"):
    return WorkerFailure(0, name, kind, reason, 3)


@pytest.mark.parametrize("ended", ENDED, ids=lambda ended: ended.ending.name)
def test_an_ending_has_a_sentence(ended):
    assert ended.text == ENDED[ended]


def test_all_endings_have_one_and_no_two_mean_done_and_deserted():
    assert {ended.ending for ended in ENDED} == set(Ending)
    assert not any(ending.done and ending.deserted for ending in Ending)
    assert [ending for ending in Ending if ending.done] == [
        Ending.REACHED,
        Ending.TIME,
        Ending.EPOCHS,
        Ending.REACHED_BEFORE,
        Ending.ROOT_DONE,
    ]


@pytest.mark.parametrize(
    ("kind", "text", "alarm"),
    [
        (Failure.OWN_CODE, "worker a failed: why", "worker a failed: why; the others go on"),
        (Failure.GAVE_UP, "worker a failed: why", "worker a failed: why; the others go on"),
        (Failure.GONE, "worker a is gone: why", "worker a is gone: why; its row stays"),
        (Failure.REFUSED, "worker a: refused: why; it is disconnected", "worker a: refused: why; it is disconnected"),
    ],
)
def test_a_failure_has_a_sentence_and_an_alarm(kind, text, alarm):
    assert (failure(kind).text, failure(kind).alarm) == (text, alarm)


@pytest.mark.parametrize(
    ("reports", "learns"), [(1209, "learns nothing from it any more"), (0, "has learned nothing from it")]
)
def test_a_worker_that_failed_is_warned_of_in_words_that_are_true(reports, learns):
    warning = WorkerFailure(0, "a", Failure.OWN_CODE, "why", reports).warning
    assert warning == f"worker a failed after {reports:,} reports: why; the model {learns}; mend it, or leave it out"


def test_the_clearest_failure_is_the_first_with_a_reason_of_its_own():
    vague, gave_up = failure(Failure.GONE), failure(Failure.GAVE_UP)
    own, other = failure(Failure.OWN_CODE, "b"), failure(Failure.OWN_CODE, "c")
    assert no_progress(some([vague, own, other])) == f"no worker has reported anything; {own.text}"
    assert no_progress(some([vague, gave_up])) == f"no worker has reported anything; {gave_up.text}"


def test_of_very_many_failures_some_are_named():
    many = [failure(Failure.GONE, str(k)) for k in range(MOST_LINES + 50)]
    assert some(many)[-2:] == [many[MOST_LINES - 1].text, "and 50 more"]
    assert some(many[:2]) == [each.text for each in many[:2]]


def test_a_problem_is_told_once_and_so_is_its_end():
    notes = Notes()
    announcer = Announcer(notes)
    for reason in ("full", "full", "broken", None, None):
        announcer.tell(Trouble.SAVING, reason)
    told = [f"problem: saving: {reason}; training goes on" for reason in ("full", "broken")]
    assert notes.events == [*told, "saving: works again"]
    assert announcer.problems == ()


def test_a_run_that_ends_with_a_problem_says_what_is_lost():
    assert Problem(Trouble.LOSS, "x").warning == "the loss: x; its points of the curve are NaN"
    assert Problem(Trouble.TRACE, "x").warning == "the trace: x; what is on disk is older than this run's end"
