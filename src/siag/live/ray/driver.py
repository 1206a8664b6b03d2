"""The driver of a run on a Ray cluster: starts its actors, watches them, and brings home what came out."""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations.errors import SiagError
from siag.foundations.version import __version__
from siag.live.certificates import certify_run
from siag.live.interrupt import interruptible
from siag.live.monitor.watch import Problems, Watcher
from siag.live.ray.actors import STALE, Charge, Ended, Hand, Hello, Secrets, Shard
from siag.live.ray.lead import Lead, Look, Outcome
from siag.live.ray.link import needs, reason_of
from siag.live.ray.room import Amounts, fits, is_crowded
from siag.live.reasons import Ended as Reason
from siag.live.reasons import Ending
from siag.live.spec import Spec
from siag.simulation import Run
from siag.simulation.run import ARRAYS
from siag.streams import Part, Rows

if TYPE_CHECKING:
    from siag.live.ray.reading import Reader
    from siag.live.ray.runtime import Ray

PAUSE = 0.25  # seconds between two looks at the server
ASK = 2.0  # seconds for an actor to answer
GRACE = 3.0  # seconds for workers to end in order
STOP = 90.0  # seconds for the servers of shards to copy their last save
TOGETHER = 8  # calls that a server's actor answers at a time, its work being one
CROWDED = 10.0  # seconds without a server, or room to read, after which a worker makes room for it
SERVER, READER = "a server that has none", "reading the Dataset"  # what room is made for
FIRST = 20.0  # seconds without a report, after which it is said that a Dataset has given no rows
HEARING = 5.0  # seconds for the server to hear that the run is to end


class Driver:
    """A run, from the first actor to the last.

    Args:
        runtime: how to run it.
        spec: what to run.
        watcher: who is shown how it goes.
        ours: whether the cluster is on this machine, started for the run.
        reader: where Datasets are read, if there is a place for that.
        reads: whether Datasets are read meanwhile, wherever that is.
    """

    def __init__(
        self,
        runtime: Ray,
        spec: Spec,
        watcher: Watcher,
        ours: bool,
        reader: Reader | None = None,
        *,
        reads: bool = False,
    ) -> None:
        import ray

        self._ray, self._runtime, self._spec, self._watcher, self._ours = ray, runtime, spec, watcher, ours
        self._reader = reader
        self._unread = reads  # whether it may have to be said that there are no rows yet
        self._id = secrets.token_hex(3)
        tls = certify_run() if runtime.tls else None
        tokens = tuple(secrets.token_urlsafe(32) for _ in spec.names)
        self._secrets = Secrets(tokens, secrets.token_urlsafe(32), tls)
        self._lead: Any = None
        self._running: Any = None  # its work
        self._shards: list[Any] = []
        self._served: list[Any] = []  # theirs
        self._hands: dict[int, Any] = {}
        self._greetings: dict[Any, int] = {}  # of workers that are not known to be up
        self._work: dict[Any, int] = {}  # what workers are at
        self._ended: dict[int, Ended] = {}
        self._look: Look | None = None
        self._life = ""  # the server's, which is another if it was started again
        self._known = 0  # remarks of the server's that were passed on
        self._nodes: dict[int, str] = {}  # where workers have come up
        self._why: Reason | None = None
        self._told: tuple[str, Reason | None, int] = (
            "",
            None,
            0,
        )  # what the server was told: in which life, why to end, of how many workers
        self._farewell: Any = None  # what the server was told last about the end
        self._deaf = 0.0  # since when it does not hear that the run is to end; 0: it does, or need not
        self._missed = False  # whether the server does not answer, because it is started again
        self._lacking = 0.0  # since when room is lacking, or since a worker made some; 0: all have theirs
        self._own: dict[int, Any] = {}  # what was sent to workers
        self._waiting: list[int] = []  # workers that made room

    def run(self) -> Run:
        """All of it."""
        try:
            with interruptible(self._end):
                self._start_servers()
                if not self._over:
                    self._start_workers()
                outcome = self._watch()
            self._part()
        finally:
            self._kill()
        for category, text in outcome.warnings:
            warnings.warn(text, category, stacklevel=4)
        if outcome.run is None:
            from ray import cloudpickle

            raise cloudpickle.loads(outcome.error) from None
        copies: dict[str, Any] = {name: np.array(getattr(outcome.run, name)) for name in ARRAYS}  # Ray's go with it
        return replace(outcome.run, **copies)

    # Beginning

    def _start_servers(self) -> None:
        runtime, spec = self._runtime, self._spec
        d, n, shards = spec.w0.size, spec.n, runtime.shards
        table = f"a table of {n} × {d} numbers, {8 * n * d:,} bytes"
        self._watcher.event(f"starting on Ray: {n} workers; {table}, on {shards} server{'s' * (shards > 1)}")
        self._mention_cores()
        host = "127.0.0.1" if self._ours else None
        charge = self._parcel(Charge(spec.bare(), self._secrets, host, runtime.port, shards))
        lives = 0 if spec.folder is None else -1
        how = {**needs(runtime.server_resources), "scheduling_strategy": "SPREAD", "max_restarts": lives}
        how["max_concurrency"] = TOGETHER
        for k in range(1, shards):
            kind = self._ray.remote(Shard).options(**how, name=f"siag shard {k} {self._id}")
            self._shards.append(kind.remote(__version__, k))
        kind = self._ray.remote(Lead).options(**how, name=f"siag server {self._id}")
        self._lead = kind.remote(__version__)
        until = time.monotonic() + runtime.patience
        for k, server in enumerate([self._lead, *self._shards]):
            self._greet("the server" if shards == 1 else f"the server of shard {k}", server, until)
        for shard in self._shards:
            self._served.append(shard.run.options(max_task_retries=lives).remote(charge))
        self._running = self._lead.run.options(max_task_retries=lives).remote(charge, self._shards)
        while not self._ask():
            if self._over:
                return
            if self._why:
                raise KeyboardInterrupt
            if time.monotonic() > until:
                raise SiagError(f"the server was not ready after {runtime.patience:g} seconds; raise patience=")
            time.sleep(PAUSE / 5)

    def _mention_cores(self) -> None:
        """Say so if a cluster of this machine has more processes than cores."""
        processes, cores = self._spec.n + self._runtime.shards, os.cpu_count() or 1
        if self._ours and processes > cores:
            what = f"{processes} processes share the {cores} core{'s' * (cores > 1)} of this machine"
            self._watcher.event(f"{what}, and each takes memory of its own; use fewer workers, or a cluster's address")

    def _parcel(self, content: Any) -> Any:
        """Something to be sent, in Ray's object store; of Datasets Ray must know that they are in it."""
        known = isinstance(content, Rows | Part)
        return self._ray.put(content if known else self._ray.cloudpickle.dumps(content))

    def _greet(self, which: str, server: Any, until: float) -> None:
        """Wait for a server's actor."""
        hello = server.hello.remote()
        while not self._ray.wait([hello], timeout=PAUSE)[0]:
            if self._why:
                raise KeyboardInterrupt
            if time.monotonic() > until:
                what = f"{which} could not be placed within {self._runtime.patience:g} seconds"
                raise SiagError(f"{what}: the cluster is busy ({self._free()}); wait, or raise patience=")
        self._heed(which, hello)

    def _heed(self, which: str, hello: Any) -> str:
        """The node of an actor that is up; or say why it is not."""
        try:
            said: Hello = self._ray.get(hello)
        except self._ray.exceptions.RayError as error:
            raise SiagError(f"{which} could not be started: {reason_of(error)}") from None
        if said.trouble:
            raise SiagError(f"{which}, on the node at {said.address}: {said.trouble}")
        return said.node

    def _start_workers(self) -> None:
        runtime, spec = self._runtime, self._spec
        authority = None if self._secrets.tls is None else self._secrets.tls[0]
        self._shared = self._parcel((spec.source, authority))
        self._await_reader(time.monotonic() + runtime.patience)
        for row in range(spec.n):
            self._hire(row)
        fewest = spec.n if runtime.fewest is None else runtime.fewest
        until = time.monotonic() + runtime.patience
        while len(self._nodes) < fewest and not self._why and not self._over:
            if time.monotonic() > until:
                up = len(self._nodes)
                what = f"{up} of {spec.n} workers were there after {runtime.patience:g} seconds"
                remedy = f"wait, ask for less with resources=, or start with some by fewest={max(up, 1)}"
                raise SiagError(f"{what}: the cluster is busy ({self._free()}); {remedy}")
            self._meet(PAUSE)
            self._ask()
        if len(self._nodes) < spec.n:
            self._watcher.event(f"{len(self._nodes)} of {spec.n} workers are there; the others wait for room")
        for row in self._hands:
            self._put_to_work(row)

    def _await_reader(self, until: float) -> None:
        """Wait for the place where Datasets are read; workers would take it."""
        while self._reader is not None and not self._reader.node and not self._over:
            if self._why:
                return
            if time.monotonic() > until:
                what = f"there was no room for reading the Dataset within {self._runtime.patience:g} seconds"
                raise SiagError(f"{what}: the cluster is busy ({self._free()}); wait, or raise patience=")
            time.sleep(PAUSE / 5)

    def _meet(self, patience: float) -> None:
        """See which workers have come up."""
        while self._greetings:
            done, _ = self._ray.wait(list(self._greetings), timeout=patience)
            if not done:
                return
            row, patience = self._greetings.pop(done[0]), 0.0
            self._nodes[row] = self._heed(f"worker {self._spec.names[row]}", done[0])

    def _hire(self, row: int) -> None:
        """Have Ray start a worker."""
        name = self._spec.names[row]
        how = {**needs(self._runtime.resources), "max_restarts": -1, "max_task_retries": -1}
        kind = self._ray.remote(Hand).options(**how, name=f"siag worker {name} {self._id} {secrets.token_hex(2)}")
        hand = self._hands[row] = kind.remote(__version__, row, name, self._secrets.tokens[row])
        self._own[row] = self._parcel(self._spec.per_worker[row])
        self._greetings[hand.load.remote(self._shared, self._own[row])] = row

    def _put_to_work(self, row: int) -> None:
        self._work[self._hands[row].run.remote(self._shared, self._own[row], self._lead)] = row

    def _free(self) -> str:
        """What the cluster has left."""
        left = self._ray.available_resources()
        names = ("CPU", "GPU", *(name for name in self._runtime.resources if name not in ("CPU", "GPU", "memory")))
        return "free: " + ", ".join(f"{left.get(name, 0):g} {name}" for name in names if name != "GPU" or "GPU" in left)

    # Going on

    @property
    def _over(self) -> bool:
        return self._running is not None and bool(self._ray.wait([self._running], timeout=0)[0])

    def _end(self, ending: Ending, detail: str = "") -> None:
        """Let the run end in order; the server is told at the next look."""
        self._why = Reason(ending, detail)

    def _watch(self) -> Outcome:
        """Until the run is over: pass on what the server says, and tell it what it cannot know."""
        begun = time.monotonic()
        while True:
            self._note_ends()
            self._ask()
            if self._look is not None and not self._missed:
                self._tell(self._look.life)
            self._make_room(self._lack())
            if time.monotonic() - begun > FIRST:
                self._mention_rows()
            if self._over:
                return self._fetch()
            self._check_heard()
            if self._work:
                self._ray.wait(list(self._work), timeout=PAUSE)
            else:
                time.sleep(PAUSE)

    def _note_ends(self) -> None:
        """See which workers have ended for good; what they took is for those that wait."""
        while self._work:
            done, _ = self._ray.wait(list(self._work), timeout=0)
            if not done:
                return
            row = self._work.pop(done[0])
            try:
                self._ended[row] = self._ray.get(done[0])
            except self._ray.exceptions.RayError as error:
                self._ended[row] = Ended(True, reason_of(error))
            self._ray.kill(self._hands.pop(row))
            self._nodes.pop(row, None)

    def _ask(self) -> bool:
        """Look at the server, and show what is to be seen; whether it listens."""
        try:
            look: Look = self._ray.get(self._lead.look.remote(self._life, self._known), timeout=ASK)
        except self._ray.exceptions.GetTimeoutError:
            return False  # it is busy, or not placed yet
        except self._ray.exceptions.ActorDiedError as error:
            raise SiagError(f"the server's process is gone: {reason_of(error)}; {self._remedy()}") from None
        except self._ray.exceptions.RayActorError:
            if not self._missed:
                self._missed = True
                self._say("problem: the server is gone; Ray starts it again, from its last save", True)
            return False
        self._missed = False
        before, self._look = self._look, look
        if self._life != look.life:
            self._life, self._known = look.life, 0
        for problem, text in look.lines[max(0, self._known - look.after) :]:
            self._say(text, problem)
        self._known = look.after + len(look.lines)
        self._nodes.update(look.moved.items() - (set() if before is None else before.moved.items()))
        if look.snapshot is not None and (before is None or before.snapshot != look.snapshot):
            self._watcher.show(look.snapshot)
        return look.ready

    def _remedy(self) -> str:
        if self._spec.folder is None:
            return "with folder= it would be started again from its last save"
        return "start the run again with the same folder"

    def _mention_rows(self) -> None:
        """Say once if no Dataset has given any rows; what else takes so long the user knows better."""
        snapshot = None if self._look is None else self._look.snapshot
        if self._unread and (snapshot is None or not snapshot.reports):
            kept = "" if self._reader is None else ", beside what is kept for reading"
            remedy = "what sorts or shuffles needs a free CPU; use fewer workers, or materialize() it"
            self._say(f"waiting for the Dataset's first rows ({self._free()}{kept}; {remedy})", False)
        self._unread = False

    def _lack(self) -> str:
        """What has no place, as far as can be seen; "" if all have theirs."""
        if self._look is None or self._missed or not self._look.ready:
            return SERVER
        return READER if self._reader is not None and not self._reader.node else ""

    def _make_room(self, lacking: str) -> None:
        """If a server or the reader is not there and the cluster is full, let workers wait until it is."""
        now = time.monotonic()
        if not lacking or self._over:
            self._lacking, waiting, self._waiting = 0.0, self._waiting, []
            for row in [] if self._over or self._why else waiting:
                self._hire(row)
                self._put_to_work(row)
            return
        self._lacking = self._lacking or now
        if now - self._lacking < CROWDED or self._why:
            return
        self._lacking = now
        with suppress(SiagError):  # what is wrong with one that came late is said when its work ends
            self._meet(0.0)
        nodes = {node["NodeID"]: node["Resources"] for node in self._ray.nodes() if node["Alive"]}
        if self._work and self._is_crowded(nodes, lacking):
            self._send_away(nodes, lacking)

    def _is_crowded(self, nodes: Mapping[str, Amounts], lacking: str) -> bool:
        """Whether something is nowhere, and has no place; one that is only slow has one."""
        server, worker = self._runtime.server_resources, self._runtime.resources
        taken = [(node, server) for node in self._homes()]
        if lacking == SERVER and len(taken) == self._runtime.shards:
            return False
        taken += [(self._nodes[row], worker) for row in self._hands if row in self._nodes]
        if self._reader is not None and self._reader.node:
            taken.append((self._reader.node, self._reader.needs))
        return is_crowded(nodes, taken, self._ray.available_resources(), self._needed(lacking))

    def _needed(self, lacking: str) -> Amounts:
        """What that needs which has no place."""
        if lacking == READER and self._reader is not None:
            return self._reader.needs
        return self._runtime.server_resources

    def _homes(self) -> list[str]:
        """The nodes of the servers that answer."""
        hellos = [server.hello.remote() for server in (self._lead, *self._shards)]
        found = []
        for hello in self._ray.wait(hellos, num_returns=len(hellos), timeout=ASK)[0]:
            with suppress(self._ray.exceptions.RayError):
                found.append(self._ray.get(hello).node)
        return found

    def _send_away(self, nodes: Mapping[str, Amounts], lacking: str) -> None:
        """Let a worker wait: of a node that can hold what is lacking, else of any, else one nobody knows the node of.

        Nodes are emptied one after the other, since a server, like the reader, needs its place on one.
        """
        need = self._needed(lacking)

        def usefulness(work: Any) -> tuple[bool, bool, str, int]:
            row = self._work[work]
            node = self._nodes.get(row, "")
            able = node in nodes and fits(nodes[node], need)
            return able, node in nodes, node, row

        row = self._work.pop(max(self._work, key=usefulness))
        self._nodes.pop(row, None)
        self._greetings = {hello: other for hello, other in self._greetings.items() if other != row}
        self._ray.kill(self._hands.pop(row))
        self._waiting.append(row)
        self._say(f"worker {self._spec.names[row]} makes room for {lacking}", True)

    def _say(self, text: str, problem: bool) -> None:
        if problem and isinstance(self._watcher, Problems):
            self._watcher.problem(text)
        else:
            self._watcher.event(text)

    def _tell(self, life: str) -> None:
        """Tell the server what it has not been told in this life."""
        state = (life, self._why, len(self._ended))
        if state == self._told:
            return
        for row, ended in self._ended.items():
            self._lead.tell.remote(row, ended.failed, ended.why)
        if self._why:
            self._farewell = self._lead.end.remote(self._why)
        if len(self._ended) == self._spec.n:
            self._lead.nobody.remote()
        self._told = state

    def _check_heard(self) -> None:
        """Wait no longer for a server that does not hear that the run is to end."""
        now = time.monotonic()
        self._deaf = 0.0 if not self._why or self._hears() else self._deaf or now
        if self._why and self._deaf and now - self._deaf > HEARING:
            kept = self._spec.folder is not None
            rest = "start it again with the same folder to go on from its last save" if kept else "it has no result"
            self._say(f"problem: {self._why.text} while the server is away: the run ends at once; {rest}", True)
            raise KeyboardInterrupt

    def _hears(self) -> bool:
        """Whether the server, as it is now, knows that the run is to end."""
        if self._missed or self._farewell is None or not self._ray.wait([self._farewell], timeout=0)[0]:
            return False
        try:
            self._ray.get(self._farewell)
        except self._ray.exceptions.RayError:
            self._farewell, self._told = None, ("", None, 0)  # it is told again
            return False
        return True

    # Ending

    def _fetch(self) -> Outcome:
        """What came out, after a last look."""
        try:
            outcome: Outcome = self._ray.get(self._running)
        except self._ray.exceptions.RayError as error:
            raise SiagError(f"the server's process is gone: {reason_of(error)}; {self._remedy()}") from None
        with suppress(SiagError):  # what came out is here, whatever has become of the server since
            self._ask()
        return outcome

    def _part(self) -> None:
        """Let workers end in order, and the servers of shards keep what they have saved."""
        there = [work for work, row in self._work.items() if row in self._nodes]
        if there:
            self._ray.wait(there, num_returns=len(there), timeout=GRACE)
        stops = [shard.stop.remote() for shard in self._shards]
        for k, (shard, stop) in enumerate(zip(self._shards, stops, strict=True), start=1):
            wrong = self._left(shard, stop)
            if wrong:
                warnings.warn(f"shard {k}: {wrong}", RuntimeWarning, stacklevel=5)

    def _left(self, shard: Any, stop: Any) -> str:
        """What is wrong with a shard's last copy; it is waited for while it is made."""
        try:
            while not self._ray.wait([stop], timeout=STOP)[0]:
                if not self._ray.get(shard.copying.remote(), timeout=ASK):
                    return STALE
            return str(self._ray.get(stop))
        except self._ray.exceptions.RayError:
            return STALE

    def _kill(self) -> None:
        """Nothing of the run is left on the cluster."""
        for actor in [*self._hands.values(), *self._shards, *([] if self._lead is None else [self._lead])]:
            try:
                self._ray.kill(actor)
            except Exception:  # the cluster is gone as well
                return
