import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.config import DatasetConfig, SyntheticConfig
from model.data import sources
from model.data.columns import Columns
from model.data.prepare import (
    MAKERS,
    VERSION,
    cache_key,
    fingerprint_here,
    load_prepared,
    prepare,
)
from model.data.synthetic import generate
from model.errors import RequestError

DAY = 86_400


def config(**options):
    return DatasetConfig(name="tiny", **{"min_interactions": 3, **options})


def histories(data):
    """Return {raw user: [raw items in order]}."""
    return {
        str(user): data.item_ids[data.items[data.offsets[n] : data.offsets[n + 1]] - 1].tolist()
        for n, user in enumerate(data.user_ids)
    }


# `rare` occurs once, so P is left with 2 events and goes; then x is left with 2 of its 3.
RARE_ITEM_THEN_USER = [
    *[("P", "rare", 1), ("P", "x", 2), ("P", "a", 3)],
    *[("Q", "x", 1), ("Q", "a", 2), ("Q", "a", 3), ("Q", "b", 4)],
    *[("R", "x", 1), ("R", "a", 2), ("R", "b", 3), ("R", "b", 4)],
]


def test_core_once_filters_items_then_users_and_stops(interactions_of):
    data = prepare(interactions_of(RARE_ITEM_THEN_USER), config(core="once"))
    assert histories(data) == {"Q": ["x", "a", "a", "b"], "R": ["x", "a", "b", "b"]}


def test_core_iterate_filters_until_nothing_changes(interactions_of):
    data = prepare(interactions_of(RARE_ITEM_THEN_USER), config(core="iterate"))
    assert histories(data) == {"Q": ["a", "a", "b"], "R": ["a", "b", "b"]}


def test_events_are_in_order_of_time_then_of_the_files_rows(interactions_of):
    rows = [("u", "b", 9), ("u", "c", 5), ("v", "a", 5), ("u", "a", 5), ("u", "b", 5)]
    rows += [("v", "b", 5), ("v", "c", 4), ("v", "a", 6), ("v", "c", 6)]
    data = prepare(interactions_of(rows), config())
    assert histories(data) == {"u": ["c", "a", "b", "b"], "v": ["c", "a", "b", "a", "c"]}
    assert data.timestamps.tolist() == [5, 5, 5, 9, 4, 5, 5, 6, 6]
    assert data.offsets.tolist() == [0, 4, 9]


def test_whole_number_ids_are_sorted_as_numbers(interactions_of):
    rows = [(user, item, 0) for user in (10, 9) for item in (100, 20, 3)]
    data = prepare(interactions_of(rows * 2), config())
    assert data.user_ids.tolist() == ["9", "10"]
    assert data.item_ids.tolist() == ["3", "20", "100"]
    assert data.items.tolist() == [3, 2, 1, 3, 2, 1] * 2


def test_one_id_that_is_no_number_makes_all_sort_by_code_point(interactions_of):
    rows = [("u", item, 0) for item in ("é", "z", "10", "9", "Z")]
    data = prepare(interactions_of(rows * 3), config())
    assert data.item_ids.tolist() == ["10", "9", "Z", "z", "é"]


def test_ids_that_are_equal_as_numbers_stay_two(interactions_of):
    rows = [("u", item, 0) for item in ("7", "007")] * 3
    assert prepare(interactions_of(rows), config()).item_ids.tolist() == ["007", "7"]


def test_days_are_whole_utc_days_since_the_first_day_that_is_left(interactions_of):
    rows = [("gone", "rare", 0), *[("u", "a", 5 * DAY + second) for second in (100, DAY - 1, DAY)]]
    rows += [("u", "b", t * DAY + 7) for t in (6, 7, 9)]
    data = prepare(interactions_of(rows), config())
    # From 00:01:40 to 23:59:59 is one day, though 5 * DAY + 100 + DAY is more than a second later.
    assert data.days.tolist() == [5 - 5, 5 - 5, 6 - 5, 6 - 5, 7 - 5, 9 - 5]
    assert data.n_days == 5


def test_popularity_counts_every_event_with_the_held_out_ones(interactions_of):
    rows = [("u", item, time) for time, item in enumerate("aaabbbb")]
    assert prepare(interactions_of(rows), config()).popularity.tolist() == [0, 3, 4]


def test_min_rating_is_inclusive_and_comes_before_the_other_filters(interactions_of):
    rows = [("u", item, time, 4.0) for time, item in enumerate("aaabbb")]
    rows += [("u", "c", 10, 4.0), ("u", "c", 11, 4.0), ("u", "c", 12, 3.5)]
    data = prepare(interactions_of(rows), config(min_rating=4.0))
    assert histories(data) == {"u": ["a", "a", "a", "b", "b", "b"]}


def test_min_rating_without_ratings_is_refused(interactions_of):
    with pytest.raises(RequestError, match=r"min_rating needs ratings, .*min_rating=4\.0 and tiny"):
        prepare(interactions_of([("u", "a", 1)]), config(min_rating=4.0))


@pytest.mark.parametrize(
    ("rows", "left"), [([("u", "a", 1)] * 2, "got 0 and 0"), ([("u", "a", 1)] * 3, "got 1 and 1")]
)
def test_too_little_left_after_filtering_is_refused_with_the_options(interactions_of, rows, left):
    with pytest.raises(RequestError, match=f"{left} of {len(rows)} rows of tiny .core: once, min_"):
        prepare(interactions_of(rows), config())


def test_arrays_are_read_only_and_of_the_declared_types(interactions_of):
    data = prepare(interactions_of(RARE_ITEM_THEN_USER), config())
    arrays = {f.name: getattr(data, f.name) for f in fields(data)}
    arrays |= {"negatives": data.negatives["popular-100"]}
    arrays = {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}
    assert {name: str(a.dtype) for name, a in arrays.items() if a.dtype.kind == "i"} == {
        "items": "int32",
        "timestamps": "int64",
        "days": "int32",
        "offsets": "int64",
        "popularity": "int64",
        "negatives": "int32",
    }
    assert len(arrays) == 8
    assert not any(a.flags.writeable for a in arrays.values())


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("uvw"), st.sampled_from("abcd"), st.integers(0, 3)),
        max_size=60,
    ),
    core=st.sampled_from(["once", "iterate"]),
)
def test_preparation_agrees_with_plain_loops(interactions_of, rows, core):
    left = rows
    while True:
        before = left
        items = Counter(item for _, item, _ in left)
        left = [row for row in left if items[row[1]] >= 3]
        users = Counter(user for user, _, _ in left)
        left = [row for row in left if users[row[0]] >= 3]
        if core == "once" or left == before:
            break
    expected = defaultdict(list)
    for user, item, _ in sorted(left, key=lambda row: (row[0], row[2])):
        expected[user].append(item)
    if len({item for _, item, _ in left}) < 2:
        return
    assert histories(prepare(interactions_of(rows), config(core=core))) == expected


def test_the_fingerprint_sees_every_option_but_the_name_and_the_recipe(interactions_of):
    rows = interactions_of([(*row, 5.0) for row in RARE_ITEM_THEN_USER * 2])
    other = {"core": "iterate", "min_interactions": 4, "min_rating": 1.0}
    assert {*other, "name", "synthetic"} == set(DatasetConfig.model_fields)
    configs = [config(), *(config(**{option: value}) for option, value in other.items())]
    assert len({prepare(rows, c).fingerprint for c in configs}) == 4
    renamed = config().model_copy(update={"name": "other"})
    assert prepare(rows, renamed).fingerprint == prepare(rows, config()).fingerprint


def test_the_fingerprint_sees_the_order_of_rows_with_equal_times(interactions_of):
    rows = [("u", item, 1) for item in "aaabbb"]
    one, other = (prepare(interactions_of(r), config()).fingerprint for r in (rows, rows[::-1]))
    assert one != other


def test_other_arrays_need_another_version(interactions_of):
    # Whoever has to change the second line has changed the preparation: raise VERSION.
    rows = [(user, (user + step) % 9, step) for user in range(9) for step in range(6)]
    data = prepare(interactions_of(rows), config())
    drawn = data.negatives["popular-100"][:, :3].tolist()
    assert (VERSION, data.fingerprint[:16]) == (1, "931f3ac1bf9dc62b")
    assert drawn == [
        [8, 7, 9],
        [9, 8, 1],
        [9, 2, 1],
        [3, 2, 1],
        [2, 4, 3],
        [4, 5, 3],
        [4, 6, 5],
        [6, 7, 5],
        [7, 8, 6],
    ]


CHILD = """
import hashlib, sys
from pathlib import Path

from model.config import DatasetConfig, SyntheticConfig
from model.data.columns import Columns
from model.data.formats import read_file
from model.data.prepare import load_prepared

folder = Path(sys.argv[1])
config = DatasetConfig(name="s", synthetic=SyntheticConfig(recipe="planted-order", users=20))
data = load_prepared(config, folder)
arrays = (data.items, data.timestamps, data.days, data.offsets, data.negatives["popular-100"])
print(data.fingerprint, *(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays))
(folder / "a.csv").write_text("user,item,timestamp\\nu,a,2014-07-23T12:30:00\\nu,a,2014-07-23\\n")
print(*read_file(folder / "a.csv", Columns(), say=print).timestamps)
"""


def test_preparation_depends_on_neither_time_zone_nor_hash_seed(tmp_path):
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", CHILD, tmp_path / seed],
            env=os.environ | {"TZ": zone, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for zone, seed in [("Asia/Seoul", "1"), ("America/Los_Angeles", "2")]
    ]
    printed = [child.communicate()[0].splitlines() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert printed[0] == printed[1]
    prepared, said, seconds = printed[0]
    assert len(prepared.split()) == 6
    assert said == "times of a.csv are ISO dates (found): 2014-07-23 to 2014-07-23, UTC"
    assert seconds == "1406118600 1406073600"


def test_a_declared_synthetic_data_set_is_generated_not_loaded(tmp_path):
    synthetic = SyntheticConfig(recipe="planted-order", users=20)
    declared = DatasetConfig(name="planted", synthetic=synthetic)
    data = load_prepared(declared, tmp_path)
    assert data.fingerprint == prepare(generate(synthetic), declared).fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["prepared"]


@pytest.fixture
def imported(tmp_path):
    """Import a small data set as `mine`, and return a function that imports other rows."""

    def build(times=(881250949, 881250950)):
        file = tmp_path / "mine.csv"
        rows = "".join(f"u,{item},{t}\n" for item, t in zip("ab", times, strict=True))
        file.write_text("user,item,timestamp\n" + rows * 5)
        sources.import_file(file, name="mine", folder=tmp_path / "data", columns=Columns())

    build()
    return build


@pytest.mark.usefixtures("imported")
def test_any_other_data_set_is_loaded_from_the_folder(tmp_path):
    data = load_prepared(DatasetConfig(name="mine"), tmp_path / "data")
    assert (data.name, data.n_items, data.offsets.tolist()) == ("mine", 2, [0, 10])


@pytest.mark.usefixtures("imported")
def test_what_is_kept_is_what_was_prepared(tmp_path):
    declared = DatasetConfig(name="mine")
    made = prepare(sources.load("mine", tmp_path / "data"), declared)
    for data in [load_prepared(declared, tmp_path / "data") for _ in range(2)]:
        for field in fields(data):
            kept, expected = getattr(data, field.name), getattr(made, field.name)
            if field.name == "negatives":
                assert list(kept) == list(expected) == ["popular-100", "uniform-100"]
                assert all(np.array_equal(kept[name], expected[name]) for name in kept)
            elif isinstance(expected, np.ndarray):
                assert kept.dtype == expected.dtype
                assert kept.tolist() == expected.tolist()
                assert not kept.flags.writeable
            else:
                assert (type(kept), kept) == (type(expected), expected)
    assert len(list((tmp_path / "data" / "prepared").glob("*/items.npy"))) == 1


def test_other_rows_or_options_are_prepared_anew(imported, tmp_path):
    folder = tmp_path / "data"
    configs = [
        DatasetConfig(name="mine"),
        DatasetConfig(name="mine", core="iterate"),
        DatasetConfig(name="mine", min_interactions=3),
    ]
    found = {load_prepared(config, folder).fingerprint for config in configs}
    imported(times=(881250949, 881250949))
    found |= {load_prepared(config, folder).fingerprint for config in configs}
    assert len(found) == len(list((folder / "prepared").glob("*/items.npy"))) == 6


def test_the_fingerprint_is_known_without_preparing(imported, tmp_path):
    folder, mine = tmp_path / "data", DatasetConfig(name="mine")
    before = fingerprint_here(mine, folder)
    assert not (folder / "prepared").exists()
    assert before == load_prepared(mine, folder).fingerprint == fingerprint_here(mine, folder)
    imported(times=(881250949, 881250949))
    assert fingerprint_here(mine, folder) not in {None, before}
    assert fingerprint_here(DatasetConfig(name="absent"), folder) is None


def test_the_fingerprint_of_a_recipe_is_known_once_it_was_prepared(tmp_path):
    recipe = SyntheticConfig(recipe="planted-order", users=20, items=12, events=8)
    config = DatasetConfig(name="s", synthetic=recipe)
    assert fingerprint_here(config, tmp_path) is None
    prepared = load_prepared(config, tmp_path)
    assert fingerprint_here(config, tmp_path) == prepared.fingerprint


def test_a_recipe_and_its_sizes_are_prepared_apart(tmp_path):
    declared = [
        SyntheticConfig(recipe="planted-order", users=20),
        SyntheticConfig(recipe="planted-order", users=21),
        SyntheticConfig(recipe="planted-none", users=20),
    ]
    prints = {
        load_prepared(DatasetConfig(name="s", synthetic=config), tmp_path).fingerprint
        for config in declared
    }
    assert len(prints) == 3


def test_one_preparation_serves_every_name_of_a_recipe(tmp_path):
    synthetic = SyntheticConfig(recipe="planted-order", users=20)
    found = [
        load_prepared(DatasetConfig(name=name, synthetic=synthetic), tmp_path) for name in "ab"
    ]
    assert [data.name for data in found] == ["a", "b"]
    assert len(list((tmp_path / "prepared").glob("*/items.npy"))) == 1


def test_changed_code_prepares_anew(tmp_path):
    declared = DatasetConfig(name="mine")
    keys = []
    for text in ("x = 1", "x = 2"):
        (tmp_path / "maker.py").write_text(text)
        keys.append(cache_key("rows", declared, makers=[tmp_path / "maker.py"]))
    assert keys[0] != keys[1]
    assert [path.stem for path in MAKERS] == ["prepare", "negatives", "synthetic", "interactions"]


@pytest.mark.usefixtures("imported")
def test_a_deleted_cache_is_prepared_again(tmp_path):
    declared = DatasetConfig(name="mine")
    before = load_prepared(declared, tmp_path / "data").fingerprint
    shutil.rmtree(tmp_path / "data" / "prepared")
    assert load_prepared(declared, tmp_path / "data").fingerprint == before


@pytest.mark.usefixtures("imported")
def test_a_removed_data_set_is_missed_though_its_preparation_is_there(tmp_path):
    load_prepared(DatasetConfig(name="mine"), tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "mine")
    with pytest.raises(RequestError, match="data set mine must be in the data folder"):
        load_prepared(DatasetConfig(name="mine"), tmp_path / "data")


@pytest.mark.usefixtures("imported")
def test_arrays_leave_the_process_without_a_copy_in_between(tmp_path):
    data = load_prepared(DatasetConfig(name="mine"), tmp_path / "data")
    apart = []
    pickle.dumps(data, protocol=5, buffer_callback=apart.append)
    assert len(apart) == 9  # as Ray shares them: seven flat arrays and two of negatives


def test_prepared_data_survives_pickling(interactions_of):
    data = prepare(interactions_of(RARE_ITEM_THEN_USER), config())
    copy = pickle.loads(pickle.dumps(data))
    assert histories(copy) == histories(data)
