"""The published data sets, where a folder holds them (MEANTIME_TEST_DATA)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model.config import DatasetConfig, TrainingConfig
from model.data.batches import TrainingBatches, windows
from model.data.catalogue import CATALOGUE
from model.data.columns import Columns
from model.data.formats import read_file
from model.data.interactions import content_sha256
from model.data.prepare import load_prepared
from model.data.sources import import_file, stored
from model.limits import LIMITS
from model.parts import parts

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def folder():
    path = Path(os.environ.get("MEANTIME_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no real data in {path}; set MEANTIME_TEST_DATA")
    return path


@pytest.fixture(scope="module")
def prepared(folder, tmp_path_factory):
    """Import a file and prepare it; once, whoever asks."""
    kept = tmp_path_factory.mktemp("data")

    def build(file, name):
        if name not in stored(kept):
            import_file(folder / file, name=name, folder=kept, columns=Columns())
        return load_prepared(DatasetConfig(name=name), kept)

    return build


@pytest.mark.parametrize(
    ("file", "rows", "users", "items"),
    [
        ("ml-100k.zip", 100_000, 943, 1_682),
        ("ml-1m.zip", 1_000_209, 6_040, 3_706),
        ("beauty-5core.csv.gz", 198_502, 22_363, 12_101),
        ("games-5core-partial.csv.gz", 183_174, 24_303, 10_639),
    ],
)
def test_published_files_are_read_with_their_known_counts(folder, file, rows, users, items):
    said = []
    found = read_file(folder / file, Columns(), say=said.append)
    assert (len(found), len(set(found.users)), len(set(found.items))) == (rows, users, items)
    assert " are seconds (found): " in said[0]


@pytest.mark.parametrize(
    ("file", "name", "users", "items", "fingerprint"),
    [
        ("ml-100k.zip", "ml-100k", 943, 1_349, "612d63c5e3f3"),
        pytest.param(
            *("beauty-5core.csv.gz", "beauty-5core", 22_363, 12_101, "839b222a22b4"),
            marks=pytest.mark.slow,
        ),
        ("games-5core-partial.csv.gz", "games-partial", 12_069, 9_068, "92eb5d63adec"),
        pytest.param("ml-1m.zip", "ml-1m", 6_040, 3_416, "7a7b2a420030", marks=pytest.mark.slow),
    ],
)
def test_published_files_import_and_prepare_to_their_known_sizes(
    prepared, file, name, users, items, fingerprint
):
    data = prepared(file, name)
    assert (data.n_users, data.n_items) == (users, items)
    # Another one needs another VERSION.
    assert data.fingerprint[:12] == fingerprint
    negatives = data.negatives["popular-100"]
    assert negatives.min() >= 1
    assert (np.diff(np.sort(negatives, axis=1), axis=1) > 0).all()
    assert np.diff(data.offsets).min() >= 5


CHILD = """
import hashlib, sys
from pathlib import Path

from model.config import DatasetConfig
from model.data.columns import Columns
from model.data.prepare import load_prepared
from model.data.sources import import_file, stored

file, own, shared = map(Path, sys.argv[1:])
import_file(file, name="ml-100k", folder=own, columns=Columns())
config = DatasetConfig(name="ml-100k")
print("ready", flush=True)
sys.stdin.readline()
for folder in (shared, own):
    data = load_prepared(config, folder)
    arrays = [data.items, data.timestamps, data.days, data.offsets, data.popularity]
    arrays += [data.user_ids, data.item_ids, *data.negatives.values()]
    digests = [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]
    print(data.fingerprint, data.n_days, *digests, flush=True)
"""


def test_two_processes_at_once_prepare_the_same_under_any_zone_and_hash_seed(folder, tmp_path):
    import_file(
        folder / "ml-100k.zip", name="ml-100k", folder=tmp_path / "shared", columns=Columns()
    )
    command = [sys.executable, "-c", CHILD, folder / "ml-100k.zip"]
    children = [
        subprocess.Popen(
            [*command, tmp_path / f"own-{seed}", tmp_path / "shared"],
            env=os.environ | {"TZ": zone, "PYTHONHASHSEED": seed},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for zone, seed in [("Asia/Seoul", "1"), ("America/Los_Angeles", "2")]
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    found = {line for child in children for line in child.communicate()[0].splitlines()}
    assert len(found) == 1
    assert len(found.pop().split()) == 2 + 9
    assert [path.name for path in (tmp_path / "shared" / "prepared").glob("*[!k]")] == [
        path.name for path in (tmp_path / "own-1" / "prepared").glob("*[!k]")
    ]


def test_the_official_ml_100k_file_is_what_the_catalogue_expects(folder):
    rows = read_file(folder / "ml-100k.zip", Columns())
    assert content_sha256(rows) == CATALOGUE["ml-100k"].expected


def test_windows_of_50_cover_58_percent_of_ml_100ks_training_events(prepared):
    data = prepared("ml-100k.zip", "ml-100k")
    cut = windows(data, max_len=50, train_window=100)
    assert (cut.ends - cut.starts).sum() / (len(data.items) - 2 * data.n_users) == pytest.approx(
        0.58, abs=0.005
    )


@pytest.mark.slow
def test_parts_take_most_of_the_padding_out_of_beauty_s_batches(prepared):
    data = prepared("beauty-5core.csv.gz", "beauty-5core")
    batches = TrainingBatches(
        data,
        TrainingConfig(batch=256),
        max_len=50,
        order_rng=np.random.default_rng(0),
        mask_rng=np.random.default_rng(1),
    )
    whole, cut = [
        np.sum([(int((b.items == 0).sum()), b.items.numel()) for b in of], axis=0)
        for of in (
            batches,
            [
                part
                for batch in batches
                for part, _ in parts(batch, limits=LIMITS["cpu"], shared=True)
            ],
        )
    ]
    assert whole[0] / whole[1] > 0.8  # 0.86
    assert cut[0] / cut[1] < 0.05  # 0.025
