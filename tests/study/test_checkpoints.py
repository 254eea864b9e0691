"""Checkpoints lie where the study says, one file a trial that is not complete."""

from pathlib import Path

import pytest

from model.errors import RequestError
from study.checkpoints import Checkpoints, place


@pytest.fixture(params=["folder", "url"])
def kept(request, tmp_path):
    """A place for checkpoints: a folder, or the same as a cloud URL."""
    folder = tmp_path / "kept"
    checkpoints = Checkpoints(str(folder) if request.param == "folder" else folder.as_uri())
    checkpoints.prepare()
    return checkpoints


def written(checkpoints, trial, content):
    checkpoint = checkpoints.of(trial)
    checkpoint.path.write_bytes(content)
    checkpoint.keep()
    checkpoint.close()


def test_what_one_attempt_keeps_the_next_one_finds(kept):
    assert not kept.of("a").path.exists()
    written(kept, "a", b"three epochs")
    again = kept.of("a")
    assert again.path.read_bytes() == b"three epochs"
    again.close()
    assert kept.kept() == ["a"]


def test_a_removed_one_is_gone_and_others_stay(kept):
    written(kept, "a", b"1")
    written(kept, "b", b"2")
    kept.remove(["a", "never-there"])
    assert kept.kept() == ["b"]
    assert not kept.of("a").path.exists()


def test_the_local_file_of_a_cloud_url_goes_with_the_attempt(tmp_path):
    checkpoints = Checkpoints((tmp_path / "kept").as_uri())
    checkpoints.prepare()
    checkpoint = checkpoints.of("a")
    checkpoint.path.write_bytes(b"1")
    checkpoint.keep()
    checkpoint.close()
    assert not checkpoint.path.parent.exists()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.checkpoint"]


def test_a_place_that_cannot_be_written_to_is_refused_with_its_name(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=r"got .*/file/kept"):
        Checkpoints(str(tmp_path / "file" / "kept")).prepare()
    with pytest.raises(RequestError, match="got nowhere://bucket"):
        Checkpoints("nowhere://bucket").prepare()


def test_a_training_goes_on_where_its_checkpoint_cannot_be_kept(tmp_path, caplog):
    checkpoints = Checkpoints((tmp_path / "kept").as_uri())
    checkpoints.prepare()
    checkpoint = checkpoints.of("a")
    checkpoint.path.write_bytes(b"1")
    (tmp_path / "kept").rmdir()
    (tmp_path / "kept").touch()
    checkpoint.keep()
    checkpoint.close()
    assert "the checkpoint was not put to" in caplog.text


@pytest.mark.parametrize(
    ("storage", "database", "on_cluster", "expected"),
    [
        ("s3://bucket/runs", "/here/results.db", True, "s3://bucket/runs"),
        ("/shared/runs", "/here/results.db", False, "/shared/runs"),
        (None, "/here/results.db", False, "/here/results.db.checkpoints"),
        (None, "/here/results.db", True, None),
    ],
)
def test_a_launch_keeps_them_where_the_study_says_else_beside_the_results(
    storage, database, on_cluster, expected
):
    found = place(
        storage, database=Path(database), url="u", on_cluster=on_cluster, data=Path("/data")
    )
    assert (found and found.storage) == expected


def test_a_server_s_store_has_a_folder_of_its_own_among_the_data():
    one, other = (
        place(None, database=None, url=url, on_cluster=False, data=Path("/data"))
        for url in ("postgresql://a", "postgresql://b")
    )
    assert one.storage.startswith("/data/checkpoints/")
    assert one != other
