"""A runtime for tests: all workers in this process, in turn, without waiting for anything."""

import numpy as np

from siag.foundations import check
from siag.foundations.last_words import last_words
from siag.live.runtime import Runtime
from siag.live.task import StreamEnded
from siag.server import Refused
from siag.streams.remarks import heard_by

TURN = 0.001  # seconds of its clock that a turn takes


class Instant(Runtime):
    """Carries a run within the calling thread; its clock counts turns, so that runs are the same each time."""

    def check_sendable(self, parameter, value, remedy):
        """Nothing is sent."""

    def prepare(self, spec):
        """Nothing is prepared."""

    def assemble(self, spec, **given):
        """Its clock begins at 0, and nothing is random."""
        return super().assemble(spec, clock=lambda: 0.0, entropy=bytes, **given)

    def carry(self, session, tasks):
        """A report of each worker in turn."""
        now, server = 0.0, session.server
        session.begin(now)
        for row, task in enumerate(tasks):
            task.begin(row, server.n, server.d, session.join(row, now).samples, server.encoding)
        kind = server.encoding
        shown = {row: np.array(server.shown, kind.model.dtype) for row in range(server.n)}
        stamps, out = dict.fromkeys(shown, server.version), np.zeros(kind.length(server.message_size), kind.dtype)
        while shown and not session.over:
            for row in list(shown):
                now += TURN
                if not self._turn(session, tasks[row], row, shown[row], stamps[row], out, now):
                    del shown[row]
                else:
                    stamps[row] = server.pull(shown[row])
                session.look_after(now)
                if session.over:
                    break
        session.finish(now)

    def _turn(self, session, task, row, w, stamp, out, now):
        """A report; whether the worker stays."""
        try:
            with heard_by(lambda text: session.said(row, text)):
                send = task.compute(check.read_only(w), out)
        except StreamEnded:
            session.left(row, now, "its stream ended")
            return False
        except Exception as error:  # whatever a user's code raises
            session.failed(row, last_words(error))
            return False
        session.passes[row] = task.passes
        try:
            if send:
                session.push(row, stamp, out, task.sample, now, loss=task.loss)
            else:
                session.push(row, stamp, None, task.sample, now)
            session.commit()
        except Refused as refused:
            session.refused(row, refused)
            return not refused.final
        return True
