"""An environment says which code, packages and machine; equal ones have equal ids."""

import subprocess
from dataclasses import fields, replace
from importlib import metadata

import pytest

from study.provenance import environment, source_commit
from tests.stored import ENVIRONMENT


def git(folder, *arguments):
    identity = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path):
    """A Git tree with one commit."""
    git(tmp_path, "init")
    (tmp_path / "code.py").write_text("1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-m", "One")
    return tmp_path.resolve()


def test_a_clean_tree_has_its_commit(tree):
    commit, dirty = source_commit(tree)
    assert len(commit) == 40
    assert dirty is False


def test_a_changed_file_makes_a_tree_dirty(tree):
    (tree / "code.py").write_text("2\n")
    assert source_commit(tree)[1] is True


def test_results_beside_the_code_do_not_make_a_tree_dirty(tree):
    (tree / "results.db").write_text("")
    assert source_commit(tree)[1] is False


def test_a_package_inside_another_project_has_no_commit(tree):
    package = tree / "lib" / "site-packages"
    package.mkdir(parents=True)
    assert source_commit(package) == (None, None)


def test_a_folder_outside_git_and_a_tree_without_commits_have_no_commit(tmp_path):
    assert source_commit(tmp_path / "nowhere") == (None, None)
    git(tmp_path, "init")
    assert source_commit(tmp_path.resolve()) == (None, None)


def test_an_environment_names_versions_and_machine():
    found = environment(device="cpu", threads=3, node="first")
    assert (found.device, found.threads, found.gpus) == ("cpu", 3, ())
    assert dict(found.packages)["torch"] == metadata.version("torch")
    assert found.cpu
    assert found.python.count(".") == 2


CHANGED = {
    "commit": "1" * 40,
    "dirty": True,
    "python": "3.11.8",
    "packages": (("torch", "2.14.0"),),
    "platform": "Darwin",
    "cpu": "another",
    "node": "another-machine",
    "gpus": ("a GPU",),
    "device": "cuda",
    "threads": 2,
}


def test_every_field_is_in_the_id():
    assert set(CHANGED) == {field.name for field in fields(ENVIRONMENT)}
    ids = {replace(ENVIRONMENT, **{name: value}).id for name, value in CHANGED.items()}
    assert len(ids | {ENVIRONMENT.id}) == 11
    assert replace(ENVIRONMENT).id == ENVIRONMENT.id
