import stat

import pytest

from analysis.files import write_atomically
from model.errors import RequestError


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "new" / "a.html"
    write_atomically(path, b"first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.html"]
    assert path.stat().st_mode & stat.S_IRUSR


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path):
    (tmp_path / "a.html").mkdir()
    (tmp_path / "a.html" / "inside").write_text("old")
    with pytest.raises(RequestError):
        write_atomically(tmp_path / "a.html", b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.html"]
    assert (tmp_path / "a.html" / "inside").read_text() == "old"
