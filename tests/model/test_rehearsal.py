"""Memory of a training, measured in a process that makes one step."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from model.config import *
from model.data.prepare import prepare
from model.data.synthetic import generate
from model.rehearsal import peak_bytes
recipe = SyntheticConfig(recipe="planted-order", users=400, items=int(sys.argv[1]), events=12)
dataset = DatasetConfig(name="made", synthetic=recipe)
config = TrialConfig(
    dataset=dataset,
    model=MODELS[sys.argv[2]](**json.loads(sys.argv[3])),
    training=TrainingConfig(batch=64),
)
print(json.dumps(peak_bytes(config, prepare(generate(recipe), dataset))))
"""


def measured(items, model, **fields):
    words = [sys.executable, "-c", PROGRAM, str(items), model, json.dumps(fields)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_a_step_shows_the_memory_of_the_weights_and_more_for_a_larger_network():
    few = measured(40, "meantime", hidden=16, max_len=12)
    many = measured(2_000, "meantime", hidden=256, max_len=12)
    # 2,000 x 256 weights, their gradients, two moments and two copies, 4 bytes each: 12 MB.
    assert many - few > 8e6
    assert 0 < few < 100e6


def test_a_model_that_counts_has_nothing_to_rehearse():
    assert measured(40, "popularity") is None
