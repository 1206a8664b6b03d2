"""What is kept free for reading a Ray Dataset: a placement group, in which its tasks run and no worker does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from siag.live.ray.room import ONE_CPU
from siag.streams import Part, split

LOOK = 1.0  # seconds between two looks at whether it is there
PLAIN = (None, "DEFAULT", "SPREAD")  # strategies that Ray Data itself gives to reads


class Reader:
    """Room for the tasks that execute a Dataset, of one node.

    Args:
        name: of the placement group.
        needs: what the tasks need, by name.
    """

    def __init__(self, name: str, needs: Mapping[str, float]) -> None:
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.needs = dict(needs)
        self._group = placement_group([self.needs], strategy="PACK", name=name)
        self._strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=0)
        self._node, self._looked = "", 0.0

    @property
    def node(self) -> str:
        """Where it is; "" if it has no place, or has lost it with its node. Ray looks for another one by itself."""
        from ray.util import placement_group_table

        now = time.monotonic()
        if now - self._looked > LOOK or not self._node:
            table = placement_group_table(self._group)
            self._looked = now
            self._node = table["bundles_to_node_id"][0] if table["state"] == "CREATED" else ""
        return self._node

    def split(self, dataset: Any, workers: int) -> list[Part]:
        """A Dataset in parts, read here."""
        return split(self._moved(dataset), workers, self._strategy)

    def remove(self) -> None:
        """Give it back."""
        from ray.util import remove_placement_group

        with suppress(Exception):  # the cluster is gone
            remove_placement_group(self._group)

    def _moved(self, dataset: Any) -> Any:
        """A copy whose reads run here: each has a strategy of its own since it was made, whatever the context says."""
        from ray import cloudpickle

        if not any("scheduling_strategy" in _given(stage) for stage in _stages(dataset)):
            return dataset
        copy = cloudpickle.loads(cloudpickle.dumps(dataset))
        for stage in _stages(copy):
            if "scheduling_strategy" in _given(stage):
                _given(stage)["scheduling_strategy"] = self._strategy
        return copy


def room_to_read(dataset: Any) -> dict[str, float] | None:
    """What the tasks of a Dataset need, one at a time, beside its pools of actors; `None`: they do not run in a group.

    One that sorts, shuffles, joins or zips, or whose place was chosen by the user, runs wherever Ray Data has it.
    """
    most, pools = dict(ONE_CPU), dict[str, float]()
    for stage in _stages(dataset):
        if not _is_movable(stage):
            return None
        actors = getattr(getattr(stage, "compute", None), "min_size", 0)
        for what, amount in _needs(stage).items():
            if actors:
                pools[what] = pools.get(what, 0.0) + actors * amount
            else:
                most[what] = max(most.get(what, 0.0), amount)
    return {what: most.get(what, 0.0) + pools.get(what, 0.0) for what in most | pools}


def _stages(dataset: Any) -> Iterator[Any]:
    """What a Dataset does, from the end; not public: if it is not found, the group has a CPU."""
    plan = getattr(getattr(dataset, "_base_dataset", dataset), "_logical_plan", None)  # of an iterator, that it is of
    waiting = [getattr(plan, "dag", None)]
    while waiting:
        stage = waiting.pop()
        if stage is not None:
            yield stage
            waiting.extend(getattr(stage, "input_dependencies", ()))


def _given(stage: Any) -> dict[str, Any]:
    """The options of a stage's tasks."""
    return getattr(stage, "ray_remote_args", None) or {}


def _is_movable(stage: Any) -> bool:
    """Whether its tasks run where the context says, or where its options say."""
    given = _given(stage)
    free = given.get("scheduling_strategy") in PLAIN and "label_selector" not in given
    alone = getattr(stage, "ray_remote_args_fn", None) is None
    exchange = type(stage).__name__ == "Zip" or (hasattr(stage, "ray_remote_args") and not hasattr(stage, "compute"))
    return free and alone and not exchange


def _needs(stage: Any) -> dict[str, float]:
    """What each of its tasks or actors needs."""
    given = _given(stage)
    usual = {"CPU": given.get("num_cpus") or 1.0, "GPU": given.get("num_gpus"), "memory": given.get("memory")}
    return {what: float(amount) for what, amount in (usual | (given.get("resources") or {})).items() if amount}
