"""How many trials a cluster holds, and what each occupies: as declared, or as memory allows."""

import pytest

from model.errors import RequestError
from study.definition import Resources
from study.needs import Need, largest
from study.nodes import Nodes, rounded_up

GIB = 2**30


def node(*, alive=True, **resources):
    return {"Alive": alive, "Resources": resources}


def nodes(resources, *listed, needs=None, gpu_bytes=None):
    return Nodes(resources, needs or {}, listed=lambda: listed, gpu_bytes=lambda: gpu_bytes)


def test_places_are_counted_node_by_node():
    two = (node(CPU=3.0), node(CPU=3.0), node(CPU=8.0, alive=False))
    assert nodes(Resources(cpus=1), *two).places() == 6
    assert nodes(Resources(cpus=2), *two).places() == 2  # not 3: a trial does not span nodes
    four = nodes(Resources(cpus=1, gpus=0.3), node(CPU=16.0, GPU=1.0))
    assert four.places() == 3


def test_a_shortage_is_named():
    with pytest.raises(RequestError, match="2 GPU asked for, the largest node has 1"):
        nodes(Resources(gpus=2.0), node(CPU=8.0, GPU=1.0), node(CPU=8.0, GPU=1.0)).require_room()
    with pytest.raises(RequestError, match="9 CPU asked for, the largest node has 8"):
        nodes(Resources(cpus=9), node(CPU=8.0)).require_room()
    apart = (node(CPU=8.0), node(CPU=1.0, GPU=1.0))
    with pytest.raises(RequestError, match="no node has all of it"):
        nodes(Resources(cpus=4, gpus=1.0), *apart).require_room()


def test_without_a_prediction_a_trial_occupies_what_the_study_declares():
    cluster = nodes(Resources(cpus=2, gpus=0.25), node(CPU=8.0, GPU=1.0))
    assert cluster.demand("a", alone=False) == {"CPU": 2.0, "GPU": 0.25}
    assert nodes(Resources(cpus=2), node(CPU=8.0)).demand("a", alone=False) == {"CPU": 2.0}


def test_predicted_memory_is_asked_for_with_a_margin_in_few_sizes():
    cluster = nodes(Resources(), node(CPU=8.0, memory=16.0 * GIB), needs={"a": Need(4 * GIB, 60.0)})
    # 4.4 GiB, in steps of an eighth of 4 GiB.
    assert cluster.demand("a", alone=False) == {"CPU": 1.0, "memory": 4.5 * GIB}
    assert {rounded_up(n * 2**20) for n in range(1000, 1030)} == {1152 * 2**20}


def test_a_trial_larger_than_every_node_gets_a_whole_node_and_is_not_refused():
    cluster = nodes(
        Resources(), node(CPU=8.0, memory=16.0 * GIB), needs={"a": Need(90 * GIB, 60.0)}
    )
    assert cluster.demand("a", alone=False) == {"CPU": 1.0, "memory": 16.0 * GIB}
    cluster.require_room()


def test_gpus_auto_gives_the_share_that_memory_asks_for():
    needs = {"small": Need(4 * GIB, 1.0), "large": Need(30 * GIB, 1.0), "tiny": Need(1, 1.0)}
    cluster = nodes(
        Resources(gpus="auto"), node(CPU=64.0, GPU=2.0), needs=needs, gpu_bytes=80 * GIB
    )
    # 80 / 4.4 = 18, at most 16; 80 / 33 = 2.
    assert cluster.demand("small", alone=False) == {"CPU": 1.0, "GPU": 0.0625}
    assert cluster.demand("large", alone=False) == {"CPU": 1.0, "GPU": 0.5}
    assert cluster.demand("tiny", alone=False)["GPU"] == 0.0625
    assert cluster.demand("unknown", alone=False)["GPU"] == 1.0
    assert cluster.places() == 32


def test_a_third_of_a_gpu_can_be_had_three_times():
    cluster = nodes(
        Resources(gpus="auto"),
        node(CPU=8.0, GPU=1.0),
        needs={"a": Need(20 * GIB, 1.0)},
        gpu_bytes=70 * GIB,
    )
    assert cluster.demand("a", alone=False)["GPU"] == 0.3333
    assert cluster.places() == 3


def test_alone_is_a_whole_gpu_or_all_cpus_of_the_largest_node():
    assert nodes(Resources(gpus=0.25), node(CPU=8.0, GPU=2.0)).demand("a", alone=True) == {
        "CPU": 1.0,
        "GPU": 1.0,
    }
    assert nodes(Resources(gpus="auto"), node(CPU=8.0, GPU=2.0)).demand("a", alone=True) == {
        "CPU": 1.0,
        "GPU": 1.0,
    }
    assert nodes(Resources(), node(CPU=4.0), node(CPU=8.0)).demand("a", alone=True) == {"CPU": 8.0}


def test_ray_is_asked_for_its_nodes_when_places_are_counted_and_not_for_every_trial():
    asked = []
    cluster = Nodes(
        Resources(),
        {},
        listed=lambda: asked.append("?") or [node(CPU=8.0)],
        gpu_bytes=lambda: None,
    )
    assert cluster.places() == 8
    for trial_id in "abc":
        cluster.demand(trial_id, alone=False)
    assert asked == ["?"]


def test_a_measured_step_corrects_every_prediction_of_its_kind():
    needs = {
        "small": Need(3 * GIB, 1.0, around=GIB, kind=("meantime", "a")),
        "large": Need(5 * GIB, 1.0, around=GIB, kind=("meantime", "a")),
        "other": Need(5 * GIB, 1.0, around=GIB, kind=("meantime", "b")),
    }
    assert largest(needs) == {("meantime", "a"): "large", ("meantime", "b"): "other"}
    cluster = nodes(Resources(gpus="auto"), node(CPU=8.0, GPU=1.0), needs=needs, gpu_bytes=22 * GIB)
    # 22 / (1.1 * 5) = 4 at once; then 1 + 4 / 2 = 3 instead of 5, which is 6 at once.
    assert cluster.demand("large", alone=False)["GPU"] == 0.25
    cluster.correct({("meantime", "a"): 2 * GIB})
    assert cluster.demand("large", alone=False)["GPU"] == 0.1666
    assert cluster.demand("small", alone=False)["GPU"] == 0.1
    assert cluster.demand("other", alone=False)["GPU"] == 0.25


def test_steps_are_measured_only_where_memory_may_decide():
    roomy, tight = node(CPU=4.0, memory=16.0 * GIB), node(CPU=4.0, memory=6.0 * GIB)
    needs = {"a": Need(GIB, 1.0)}
    assert not nodes(Resources(), roomy, needs=needs).memory_decides()
    assert nodes(Resources(), roomy, tight, needs=needs).memory_decides()
    assert not nodes(Resources(cpus=2), tight, needs=needs).memory_decides()
    assert nodes(Resources(gpus="auto"), node(CPU=4.0, GPU=1.0), needs=needs).memory_decides()
    assert not nodes(Resources(gpus=0.5), node(CPU=4.0, GPU=1.0), needs=needs).memory_decides()
