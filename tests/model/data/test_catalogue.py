import zipfile

import pytest

from model.data.catalogue import CATALOGUE, Archive, WheelMember
from model.data.columns import Columns
from model.data.download import UnreachableError


def test_an_archive_is_downloaded_and_its_official_member_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("ml-100k/u.data", "1\t2\t3\t4\n")
    (tmp_path / "scratch").mkdir()
    rows = Archive((tmp_path / "a.zip").as_uri()).download(tmp_path / "scratch")
    assert (rows.users[0], rows.items[0], rows.ratings[0], rows.timestamps[0]) == ("1", "2", 3, 4)


def test_an_archive_that_is_not_there_is_unreachable(tmp_path):
    with pytest.raises(UnreachableError, match="No such file"):
        Archive((tmp_path / "none.zip").as_uri()).download(tmp_path)


@pytest.fixture
def local_index(tmp_path, monkeypatch):
    """Let pip see one folder of wheels and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in {
        "NO_INDEX": "1",
        "FIND_LINKS": str(folder),
        "CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def test_a_wheels_member_is_read_and_nothing_installed(local_index, tmp_path):
    with zipfile.ZipFile(local_index / "shelf-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("shelf/small.inter", "user_id:token\titem:token\ttime:float\nu\ta\t5\n")
        about = "Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\nRequires-Dist: not-there\n"
        wheel.writestr("shelf-1.0.dist-info/METADATA", about)
        wheel.writestr("shelf-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("shelf-1.0.dist-info/RECORD", "")
    (tmp_path / "scratch").mkdir()
    columns = Columns(user="user_id:token", item="item:token", time="time:float")
    place = WheelMember("shelf==1.0", "shelf/small.inter", columns)
    rows = place.download(tmp_path / "scratch")
    assert (rows.users.tolist(), rows.items.tolist(), rows.timestamps.tolist()) == (
        ["u"],
        ["a"],
        [5],
    )
    assert str(place) == "small.inter in the wheel shelf==1.0"


@pytest.mark.usefixtures("local_index")
def test_a_package_index_without_the_wheel_is_unreachable(tmp_path):
    (tmp_path / "scratch").mkdir()
    place = WheelMember("shelf==1.0", "shelf/small.inter", Columns())
    with pytest.raises(UnreachableError, match=r"shelf==1\.0"):
        place.download(tmp_path / "scratch")


def test_the_catalogue_states_terms_places_and_expected_content():
    assert sorted(CATALOGUE) == ["beauty", "games", "ml-100k", "ml-1m", "ml-20m"]
    for entry in CATALOGUE.values():
        assert "cite" in entry.terms
        assert str(entry.places[0]).startswith("https://")
