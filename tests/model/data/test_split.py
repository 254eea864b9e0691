import numpy as np

from model.data.split import target_positions, training_ends

ITEMS = np.array([*"abcde", *"xyz"])
OFFSETS = np.array([0, 5, 8])


def test_the_last_item_is_the_test_target_and_the_one_before_is_validation():
    assert ITEMS[target_positions(OFFSETS, "test")].tolist() == ["e", "z"]
    assert ITEMS[target_positions(OFFSETS, "validation")].tolist() == ["d", "y"]


def test_everything_before_validation_is_training():
    assert training_ends(OFFSETS).tolist() == target_positions(OFFSETS, "validation").tolist()
