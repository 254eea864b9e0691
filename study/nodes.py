"""What a cluster's nodes have room for: places for trials, and what each trial is to occupy.

Arithmetic over what Ray says of its nodes: CPUs and GPUs as the study declares them, memory as the
estimate predicts it. A prediction never refuses a trial: one that is larger than every node gets a
whole node, or a whole GPU, to itself.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import ceil, floor

from model.errors import RequestError
from study.definition import Resources
from study.needs import Kind, Needs, corrected

Bundle = dict[str, float]
"""Ray's names of resources (`CPU`, `GPU`, `memory` in bytes) -> amounts."""

MARGIN = 1.1
"""Of the predicted memory: allocators round up."""

SURELY_ENOUGH = 0.5
"""Share of a node's memory that predictions may fill without having been measured."""

MOST_ON_ONE_GPU = 16
"""More processes than this would spend a GPU on their CUDA contexts."""


class Nodes:
    """The nodes of a cluster, looked at anew whenever places are counted.

    Args:
        resources: what the study declares for each trial.
        needs: predicted memory by trial id.
        listed: Ray's list of nodes.
        gpu_bytes: tells the memory of the smallest GPU, or None where it cannot be asked.
    """

    def __init__(
        self,
        resources: Resources,
        needs: Needs,
        *,
        listed: Callable[[], Sequence[Mapping[str, object]]],
        gpu_bytes: Callable[[], int | None],
    ) -> None:
        self._resources, self._needs = resources, needs
        self._listed, self._ask_gpu_bytes = listed, gpu_bytes
        self._seen: list[Bundle] | None = None

    def places(self) -> int:
        """Return how many trials can run at once at most, node by node; memory may lower it."""
        least = self._least
        return sum(
            int(min(node.get(name, 0.0) / amount + 1e-9 for name, amount in least.items()))
            for node in self._look()
        )

    def memory_decides(self) -> bool:
        """Whether it may be memory, not CPUs, that says how many trials run at once.

        Where predictions fill less than `SURELY_ENOUGH` of every node, no error of theirs matters.
        """
        if self._resources.gpus:
            return self._resources.gpus == "auto"
        most = max((need.bytes for need in self._needs.values()), default=0)
        return any(
            floor(node.get("CPU", 0.0) / self._resources.cpus) * most
            > SURELY_ENOUGH * node.get("memory", 0.0)
            for node in self._look()
        )

    def correct(self, measured: Mapping[Kind, int]) -> None:
        """Take in what a step of the largest trial of each kind took, in bytes."""
        self._needs = corrected(self._needs, measured)

    def require_room(self) -> None:
        """Make sure that one trial fits on one node; Ray would wait for ever.

        Raises:
            RequestError: it does not; the message names what is short.
        """
        if self.places():
            return
        nodes, least = self._look(), self._least
        most = {name: max((n.get(name, 0.0) for n in nodes), default=0.0) for name in least}
        lacking = ", ".join(
            f"{amount:g} {name} asked for, the largest node has {most[name]:g}"
            for name, amount in least.items()
            if most[name] < amount
        )
        raise RequestError(
            f"one trial must fit on one node: {lacking or 'no node has all of it'}; lower "
            "`resources` of the study or add a node"
        )

    def demand(self, trial_id: str, *, alone: bool) -> Bundle:
        """Return what this trial is to occupy while it runs; alone: a whole GPU, or all CPUs."""
        cpus, gpus = float(self._resources.cpus), self._resources.gpus
        need = self._needs.get(trial_id)
        if gpus:
            if alone:
                share = float(ceil(1.0 if gpus == "auto" else gpus))
            else:
                share = self._share(need.bytes if need else None) if gpus == "auto" else gpus
            return {"CPU": cpus, "GPU": share}
        seen = self._look() if self._seen is None else self._seen
        nodes = [node for node in seen if node.get("CPU", 0.0) >= cpus]
        if alone:
            return {"CPU": max((node["CPU"] for node in nodes), default=cpus)}
        if need is None:
            return {"CPU": cpus}
        largest = max((node.get("memory", 0.0) for node in nodes), default=0.0)
        return {"CPU": cpus, "memory": min(float(rounded_up(need.bytes)), floor(largest))}

    @property
    def _least(self) -> Bundle:
        """What every trial occupies at least."""
        least, gpus = {"CPU": float(self._resources.cpus)}, self._resources.gpus
        if gpus == "auto":
            shares = [self._share(need.bytes) for need in self._needs.values()]
            least["GPU"] = min(shares, default=1.0)
        elif gpus:
            least["GPU"] = gpus
        return least

    def _share(self, wanted_bytes: int | None) -> float:
        """Return one k-th of a GPU, k as large as the memory allows, in Ray's four decimals.

        k-ths, so that trials fill a GPU and a freed place suits the next one.
        """
        if wanted_bytes is None or self._gpu_bytes is None:
            return 1.0
        k = floor(self._gpu_bytes / (MARGIN * wanted_bytes))
        return floor(10_000 / max(1, min(k, MOST_ON_ONE_GPU))) / 10_000

    @cached_property
    def _gpu_bytes(self) -> int | None:
        return self._ask_gpu_bytes()

    def _look(self) -> list[Bundle]:
        """Ask Ray for the nodes that are alive; a millisecond, too much for every trial."""
        nodes = [node["Resources"] for node in self._listed() if node["Alive"]]
        self._seen = [dict(node) for node in nodes if isinstance(node, Mapping)]
        return self._seen


def rounded_up(n_bytes: int) -> int:
    """Return the memory to ask for: an eighth of a power of two, so that few sizes occur.

    Workers of one size are reused for each other's trials.

    >>> rounded_up(1000 * 2**20) // 2**20  # 1,100 MiB and a bit more
    1152
    """
    wanted = ceil(MARGIN * n_bytes)
    step = 1 << max(0, wanted.bit_length() - 4)
    return ceil(wanted / step) * step
