from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from model.data.catalogue import Counts, KnownDataset
from model.data.columns import Columns
from model.data.download import UnreachableError
from model.data.interactions import content_sha256
from model.data.sources import data_folder, fetch, fetch_known, import_file, load, stored
from model.errors import RequestError

T = 881250949
TEXT = f"user,item,timestamp,rating\nu,é,{T + 1},4\nv,b,{T + 2},3.5\nu,b,{T},1\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def rows(interactions_of):
    return interactions_of([("u", "é", T + 1, 4.0), ("v", "b", T + 2, 3.5), ("u", "b", T, 1.0)])


class Shelf:
    """A place that gives fixed rows or raises, and counts how often it was asked."""

    def __init__(self, name, gives):
        self.name, self.gives, self.asked = name, gives, 0

    def __str__(self):
        return self.name

    def download(self, scratch, *, progress):
        del progress
        assert list(scratch.iterdir()) == []
        self.asked += 1
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def known(*places, expected):
    return KnownDataset("small", "A small one", places, expected, terms="cite us")


def test_an_imported_file_loads_as_it_was(file, rows, tmp_path):
    stored = import_file(file, name="mine", folder=tmp_path / "data", columns=Columns())
    loaded = load("mine", tmp_path / "data")
    assert stored == tmp_path / "data/mine/interactions.parquet"
    assert content_sha256(loaded) == content_sha256(rows)


def test_stored_data_sets_are_listed_by_name(file, tmp_path):
    folder = tmp_path / "data"
    assert stored(folder) == []
    for name in ("mine", "a"):
        import_file(file, name=name, folder=folder, columns=Columns())
    (folder / "unfinished").mkdir()
    assert stored(folder) == ["a", "mine"]


def test_data_without_ratings_loads_without(tmp_path):
    (tmp_path / "a.csv").write_text(f"user,item,timestamp\nu,a,{T}\n")
    import_file(tmp_path / "a.csv", name="a", folder=tmp_path, columns=Columns())
    assert load("a", tmp_path).ratings is None


def test_importing_again_replaces(file, tmp_path):
    for text in (TEXT, f"user,item,timestamp\nu,a,{T}\n"):
        file.write_text(text, encoding="utf-8")
        import_file(file, name="mine", folder=tmp_path, columns=Columns())
    assert len(load("mine", tmp_path)) == 1


def test_a_faulty_file_leaves_what_was_there(file, tmp_path):
    import_file(file, name="mine", folder=tmp_path, columns=Columns())
    file.write_text(TEXT + "u,a,x,1\n", encoding="utf-8")
    with pytest.raises(RequestError, match="line 5: time must be"):
        import_file(file, name="mine", folder=tmp_path, columns=Columns())
    assert len(load("mine", tmp_path)) == 3
    assert {f.name for f in (tmp_path / "mine").iterdir()} <= {"interactions.parquet", "lock"}


def test_other_content_is_not_stored_under_a_name_of_the_catalogue(file, tmp_path):
    with pytest.raises(
        RequestError, match=r"content of ml-100k must be 06416e59.*, got .*other name"
    ):
        import_file(file, name="ml-100k", folder=tmp_path, columns=Columns())
    with pytest.raises(
        RequestError, match=r"ml-1m must be Counts\(rows=1000209.*Counts\(rows=3, us"
    ):
        import_file(file, name="ml-1m", folder=tmp_path, columns=Columns())
    assert {path.name for path in tmp_path.iterdir()} == {"mine.csv"}


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a b", ".hidden", "prepared"])
def test_a_name_that_is_no_folder_name_is_refused(file, tmp_path, name):
    with pytest.raises(RequestError, match="name must be letters, digits"):
        import_file(file, name=name, folder=tmp_path / "data", columns=Columns())
    assert {path.name for path in tmp_path.iterdir()} == {"mine.csv"}


def test_an_unwritable_folder_is_a_request_error(file):
    with pytest.raises(RequestError, match=r"folder must be writable, got .* set MEANTIME_DATA to"):
        import_file(file, name="mine", folder=file / "below-a-file", columns=Columns())


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("ml-100k", "meantime data fetch ml-100k, or: meantime data import PATH --as ml-100k"),
        ("mine", "use: meantime data import PATH --as mine"),
    ],
)
def test_a_missing_data_set_says_how_to_bring_it(tmp_path, name, advice):
    with pytest.raises(RequestError) as error:
        load(name, tmp_path)
    assert f"data set {name} must be in the data folder, got none in {tmp_path}" in str(error.value)
    assert str(error.value).endswith(advice)


def test_a_damaged_stored_file_says_how_to_bring_it_again(file, tmp_path):
    stored = import_file(file, name="mine", folder=tmp_path, columns=Columns())
    stored.write_bytes(stored.read_bytes()[:50])
    with pytest.raises(RequestError, match=r"must be readable, .*data import PATH --as mine"):
        load("mine", tmp_path)


def test_fetching_stores_the_first_place_with_the_right_content(rows, interactions_of, tmp_path):
    places = (
        Shelf("far", UnreachableError("no route")),
        Shelf("broken", RequestError("a zip must be whole")),
        Shelf("wrong", interactions_of([("u", "a", 1)])),
        Shelf("right", rows),
        Shelf("spare", rows),
    )
    lines = []
    wanted = known(*places, expected=content_sha256(rows))
    fetch_known(wanted, folder=tmp_path, report=lines.append)
    assert content_sha256(load("small", tmp_path)) == content_sha256(rows)
    assert [place.asked for place in places] == [1, 1, 1, 1, 0]
    assert lines[0] == "cite us"
    assert "left far: no route" in lines
    assert "left broken: a zip must be whole" in lines
    assert any(line.startswith("left wrong: the content of small must be ") for line in lines)
    assert lines[-1] == f"small: 3 rows verified and stored in {tmp_path / 'small'}"


def test_counts_verify_where_the_exact_rows_are_unknown(rows, tmp_path):
    right = known(Shelf("a", rows), expected=Counts(rows=3, users=2, items=2))
    fetch_known(right, folder=tmp_path, report=lambda _: None)
    wrong = known(Shelf("a", rows), expected=Counts(rows=3, users=2, items=3))
    with pytest.raises(RequestError):
        fetch_known(wrong, folder=tmp_path / "other", report=lambda _: None)


def test_no_place_with_the_right_content_stores_nothing(tmp_path):
    place = Shelf("far", UnreachableError("no route"))
    with pytest.raises(RequestError, match=r"one of its 1 places .* data import PATH --as small"):
        fetch_known(known(place, expected="x"), folder=tmp_path, report=lambda _: None)
    assert not (tmp_path / "small/interactions.parquet").exists()


def test_only_one_of_several_at_once_fetches(rows, tmp_path):
    place, barrier = Shelf("a", rows), Barrier(4)
    wanted = known(place, expected=content_sha256(rows))

    def start(_):
        barrier.wait()
        return fetch_known(wanted, folder=tmp_path, report=lambda _: None)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(start, range(4)))) == 1
    assert place.asked == 1


def test_a_name_outside_the_catalogue_cannot_be_fetched(tmp_path):
    with pytest.raises(
        RequestError,
        match=r"ml-20m, beauty, games\), got x; use: .*PATH --as x",
    ):
        fetch("x", folder=tmp_path, report=lambda _: None)


def test_what_is_there_is_not_fetched_again(rows, tmp_path):
    place, lines = Shelf("a", rows), []
    wanted = known(place, expected=content_sha256(rows))
    for _ in range(2):
        fetch_known(wanted, folder=tmp_path, report=lines.append)
    assert place.asked == 1
    assert lines[-1] == f"small is already in {tmp_path / 'small'}"


def test_the_data_folder_is_declared_or_the_users_cache():
    assert data_folder({"MEANTIME_DATA": "/x/y"}) == Path("/x/y")
    assert data_folder({"MEANTIME_DATA": "~/y"}) == Path.home() / "y"
    assert data_folder({}).name == data_folder({"MEANTIME_DATA": ""}).name == "meantime"
