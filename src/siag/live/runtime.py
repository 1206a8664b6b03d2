"""`Runtime`: what carries a run, the messages of its workers and their answers; a user may write one."""

from __future__ import annotations

import sys
from multiprocessing import process
from multiprocessing.reduction import ForkingPickler
from typing import Any

from siag.foundations.encodings import encoding_of
from siag.foundations.errors import BadInput, reason_of
from siag.live.assembly import Assembly
from siag.live.by_value import ByValue, sendable
from siag.live.interrupt import interruptible
from siag.live.session import Session
from siag.live.spec import Spec
from siag.live.task import Task
from siag.simulation import Run


class Runtime:
    """Carries a run whose session is in this process: `siag.train(…, runtime=…)`.

    A runtime of your own needs `carry` alone. The other methods say what it can do; by default its workers are other
    processes of this machine, to which all they need is pickled.
    """

    def carry(self, session: Session, tasks: list[Task]) -> None:
        """Let workers do their tasks, one each, and bring their reports to the session until it is over.

        Messages are carried within `with session.running(clock)`. One that does without `siag.live.protocol` writes
        each task's `passes` to `session.passes`: a run that is to end by epochs would not. If a task's `first` is a
        number, it gives that and its `loss` to `session.first.add`: else fewer runs that go wrong are warned of.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method carry, or another train")

    def check_workers(self, workers: int) -> None:
        """Refuse more workers than there can be."""

    def check_sendable(self, parameter: str, value: Any, remedy: str) -> None:
        """Refuse what cannot be sent to a worker, or cannot be found there.

        Functions may come from anywhere, but a method's or a problem's meaning is registered by its module.
        """
        sent = sendable(value)
        try:
            ForkingPickler.dumps(sent)
        except Exception as error:  # whatever pickling raises, and a user's __reduce__
            raise BadInput(parameter, value, f"something that can be pickled ({reason_of(error)})", remedy) from None
        if parameter in ("method", "problem") and isinstance(sent, ByValue):
            raise BadInput(parameter, value, "of a class that workers can import", "define it in a module")

    def prepare(self, spec: Spec) -> None:
        """Have machine code on disk, complete, before workers start, so that none of them has to make it."""
        spec.source.warm_up(encoding_of(spec.messages))

    def describe(self, workers: int) -> str:
        """Where the workers run, in words."""
        return f"live, {workers} worker{'s' * (workers > 1)}"

    def assemble(self, spec: Spec, **given: Any) -> Assembly:
        """Put the session together: one server, with its files on this machine; `given` is as for `Assembly`."""
        return Assembly(spec, about={"activity": self.describe(spec.n)}, **given)

    def checked(self, spec: Spec) -> Spec:
        """The same with nothing left out; all of it can be sent to the workers."""
        spec = spec.validate()
        self.check_workers(spec.n)
        for each in spec.sent():
            self.check_sendable(*each)
        return spec

    def train(self, spec: Spec) -> Run:
        """Run it to its end."""
        _not_in_a_worker()
        spec = self.checked(spec)
        self.prepare(spec)
        return self.run(spec, spec.tasks())

    def run(self, spec: Spec, tasks: list[Task]) -> Run:
        """Have it carried until it is over or interrupted."""
        assembly = self.assemble(spec)
        with interruptible(assembly.session.end):
            return assembly.run(lambda session: self.carry(session, tasks), must_report=True)


def _not_in_a_worker() -> None:
    """A script without the guard would start workers that start workers."""
    if getattr(process.current_process(), "_inheriting", False):
        print("siag: put the call of siag.train under  if __name__ == '__main__':", file=sys.stderr)
        sys.exit(1)
