"""The published data sets, where a folder holds them (MEANTIME_TEST_DATA)."""

import os
from pathlib import Path

import numpy as np
import pytest

from model.config import DatasetConfig, TrainingConfig
from model.data.batches import TrainingBatches, windows
from model.data.catalogue import CATALOGUE
from model.data.columns import Columns
from model.data.formats import read_file
from model.data.interactions import content_sha256
from model.data.prepare import load_prepared, prepare
from model.data.sources import import_file, load
from model.parts import LIMITS, parts

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def folder():
    path = Path(os.environ.get("MEANTIME_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no real data in {path}; set MEANTIME_TEST_DATA")
    return path


@pytest.mark.parametrize(
    ("file", "name", "rows", "users", "items"),
    [
        ("ml-100k.zip", "ml-100k", 100_000, 943, 1_349),
        pytest.param(
            "beauty-5core.csv.gz", "beauty-5core", 198_502, 22_363, 12_101, marks=pytest.mark.slow
        ),
        ("games-5core-partial.csv.gz", "games-partial", 183_174, 12_069, 9_068),
        pytest.param("ml-1m.zip", "ml-1m", 1_000_209, 6_040, 3_416, marks=pytest.mark.slow),
    ],
)
def test_published_files_import_and_prepare_to_their_known_sizes(
    folder, tmp_path, file, name, rows, users, items
):
    import_file(folder / file, name=name, folder=tmp_path, columns=Columns())
    assert len(load(name, tmp_path)) == rows
    data = load_prepared(DatasetConfig(name=name), tmp_path)
    assert (data.n_users, data.n_items) == (users, items)
    negatives = data.negatives["popular-100"]
    assert negatives.min() >= 1
    assert all(len(set(drawn)) == 100 for drawn in negatives.tolist())
    assert np.diff(data.offsets).min() >= 5


def test_the_official_ml_100k_file_is_what_the_catalogue_expects(folder):
    rows = read_file(folder / "ml-100k.zip", Columns())
    assert content_sha256(rows) == CATALOGUE["ml-100k"].expected


def test_windows_of_50_cover_58_percent_of_ml_100ks_training_events(folder):
    data = prepare(read_file(folder / "ml-100k.zip", Columns()), DatasetConfig(name="ml-100k"))
    cut = windows(data, max_len=50, train_window=100)
    assert (cut.ends - cut.starts).sum() / (len(data.items) - 2 * data.n_users) == pytest.approx(
        0.58, abs=0.005
    )


@pytest.mark.slow
def test_parts_take_most_of_the_padding_out_of_beauty_s_batches(folder, tmp_path):
    import_file(
        folder / "beauty-5core.csv.gz", name="beauty-5core", folder=tmp_path, columns=Columns()
    )
    data = load_prepared(DatasetConfig(name="beauty-5core"), tmp_path)
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
