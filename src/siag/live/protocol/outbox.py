"""Answers that wait until what they acknowledge is on disk."""

from __future__ import annotations

from typing import Generic, TypeVar

from siag.foundations.errors import reason_of
from siag.live.session import Session

Answer = TypeVar("Answer")
RETRY = 0.1  # seconds before the disk is tried again


class Outbox(Generic[Answer]):
    """Holds answers back; `release` gives those that may be sent.

    Args:
        session: which knows what is on disk. If it is not durable, nothing waits.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: list[Answer] = []
        self._trouble = ""
        self._again = 0.0

    def __bool__(self) -> bool:
        return bool(self._held)

    def put(self, answer: Answer) -> None:
        """Hold an answer back."""
        self._held.append(answer)

    def release(self, now: float) -> list[Answer]:
        """All answers, once everything that was accepted is on disk; none while the disk does not take it."""
        if not self._held or now < self._again:
            return []
        try:
            self._session.commit()
        except OSError as error:
            trouble = reason_of(error)
            if trouble != self._trouble:
                self._session.alarm(f"problem: {trouble}; nothing is acknowledged until it is on disk")
            self._trouble, self._again = trouble, now + RETRY
            return []
        if self._trouble:
            self._trouble = ""
            self._session.alarm("what was reported is on disk again; training goes on")
        held, self._held = self._held, []
        return held
