import json
import mmap
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

import numpy as np
import pytest
from filelock import FileLock

from model.data.array_cache import mapped, size

ARRAYS = {"numbers": np.arange(1_000), "texts": np.array(["é", "bb"])}


class Workshop:
    """Builds the arrays and counts how often it was asked."""

    def __init__(self):
        self.built, self._lock = 0, Lock()

    def __call__(self):
        with self._lock:
            self.built += 1
        return ARRAYS


@pytest.fixture
def build():
    return Workshop()


def same(found):
    return {name: a.tolist() for name, a in found.items()} == {
        name: a.tolist() for name, a in ARRAYS.items()
    }


def forget(contents, name):
    digests = json.loads(contents.read_text())
    del digests[name]
    contents.write_text(json.dumps(digests))


def root(array):
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


def test_arrays_are_built_once_and_mapped_from_then_on(tmp_path, build):
    first, second = mapped(tmp_path / "a", build), mapped(tmp_path / "a", build)
    assert same(first)
    assert same(second)
    assert build.built == 1
    for array in (*first.values(), *second.values()):
        assert isinstance(root(array), mmap.mmap)
        assert type(array) is np.ndarray
        assert not array.flags.writeable
    assert {path.name for path in tmp_path.iterdir()} == {"a", "a.lock"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "numbers.npy").unlink(),
        lambda entry: (entry / "contents.json").unlink(),
        lambda entry: (entry / "numbers.npy").write_bytes(b""),
        lambda entry: (entry / "texts.npy").write_bytes((entry / "texts.npy").read_bytes()[:-1]),
        lambda entry: flip(entry / "numbers.npy", at=500),
        lambda entry: flip(entry / "contents.json", at=40),
        lambda entry: (entry / "contents.json").write_text("[1]"),
        lambda entry: (entry / "contents.json").write_text(json.dumps({"numbers": "x"})),
        lambda entry: (entry / "contents.json").write_text("{}"),
        lambda entry: forget(entry / "contents.json", name="texts"),
    ],
    ids=[
        *["array gone", "contents gone", "array empty", "array cut off", "a bit in an array"],
        *["a bit in the contents", "other contents", "wrong contents"],
        *["no contents", "an array left out of the contents"],
    ],
)
def test_what_is_damaged_or_missing_is_built_again(tmp_path, build, damage):
    mapped(tmp_path / "a", build)
    damage(tmp_path / "a")
    assert same(mapped(tmp_path / "a", build))
    assert same(mapped(tmp_path / "a", build))
    assert build.built == 2


def flip(file, *, at):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(bytes(content))


def test_what_a_killed_process_left_is_no_obstacle(tmp_path, build):
    (tmp_path / "a.unfinished").mkdir()
    (tmp_path / "a.unfinished" / "numbers.npy").write_bytes(b"half")
    (tmp_path / "a.lock").touch()
    assert same(mapped(tmp_path / "a", build))
    assert {path.name for path in tmp_path.iterdir()} == {"a", "a.lock"}


def test_of_several_at_once_one_builds_and_all_map(tmp_path, build):
    barrier = Barrier(6)

    def ask(_):
        barrier.wait()
        return mapped(tmp_path / "a", build)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(6)))
    assert all(map(same, found))
    assert build.built == 1


def test_who_waited_for_the_lock_maps_what_was_built_meanwhile(tmp_path, build):
    mapped(tmp_path / "made", build)
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "contents.json")
    with ThreadPoolExecutor(1) as pool:
        with FileLock(tmp_path / "a.lock"):
            asked = pool.submit(mapped, tmp_path / "a", build)
            # Opens once the other thread reads it: nothing is there yet when it first looks.
            (tmp_path / "a" / "contents.json").write_text("")
            shutil.rmtree(tmp_path / "a")
            shutil.copytree(tmp_path / "made", tmp_path / "a")
        assert same(asked.result())
    assert build.built == 1


def test_deleted_entries_stay_readable_where_they_are_mapped(tmp_path, build):
    first = mapped(tmp_path / "a", build)
    for file in (tmp_path / "a").iterdir():
        file.unlink()
    (tmp_path / "a").rmdir()
    assert same(first)
    assert same(mapped(tmp_path / "a", build))
    assert build.built == 2


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path, build):
    (tmp_path / "file").touch()
    for _ in range(2):
        assert same(mapped(tmp_path / "file" / "a", build))
    assert build.built == 2


def test_a_build_that_fails_leaves_nothing_and_frees_the_lock(tmp_path, build):
    def fail():
        raise ValueError("too little is left")

    with pytest.raises(ValueError, match="too little"):
        mapped(tmp_path / "a", fail)
    assert same(mapped(tmp_path / "a", build))


def test_the_size_is_that_of_all_entries(tmp_path, build):
    assert size(tmp_path / "none") == 0
    mapped(tmp_path / "a", build)
    one = size(tmp_path)
    assert one > ARRAYS["numbers"].nbytes
    mapped(tmp_path / "b", build)
    assert size(tmp_path) == 2 * one
