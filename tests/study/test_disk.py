"""Space is asked for before days of training, and the message names the place."""

import shutil

import pytest

from model.errors import RequestError
from study.disk import RESERVE_BYTES, require_space, result_bytes


def test_results_of_a_trial_are_bounded_by_its_users():
    # 32 bytes of ranks a user and 200 kB for everything else.
    assert result_bytes([1000, 0]) == 2 * 200_000 + 32_000


def test_a_full_disk_is_refused_with_the_folder_s_name(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    require_space(tmp_path, free // 2 - RESERVE_BYTES)
    with pytest.raises(RequestError, match=f"the disk of {tmp_path} must have"):
        require_space(tmp_path, 2 * free)
