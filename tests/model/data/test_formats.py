import csv
import gzip
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.data.formats import Columns, read_file
from model.errors import RequestError

PLAIN = Columns()
HEADER = "user,item,timestamp\n"


@pytest.fixture
def read(tmp_path):
    """Read bytes or text as if they stood in a file of that name."""

    def build(name, content, columns=PLAIN, **options):
        file = tmp_path / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_file(file, columns, **options)

    return build


def rows_of(interactions):
    columns = [interactions.users.tolist(), interactions.items.tolist()]
    columns += [interactions.timestamps.tolist()]
    if interactions.ratings is not None:
        columns += [interactions.ratings.tolist()]
    return list(zip(*columns, strict=True))


def zipped(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


OFFICIAL = {"ml-100k/u.data": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n"}
OFFICIAL_ROWS = [("196", "242", 881250949, 3.0), ("186", "302", 891717742, 3.0)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "rating,item,user,timestamp\n3,242,196,881250949\n3,302,186,891717742\n"),
        ("a.tsv", "user\titem\trating\ttimestamp\n" + OFFICIAL["ml-100k/u.data"]),
        ("u.data", OFFICIAL["ml-100k/u.data"]),
        ("ratings.dat", OFFICIAL["ml-100k/u.data"].replace("\t", "::")),
        ("ml-100k.zip", zipped(**OFFICIAL)),
        (
            "ml-1m.zip",
            zipped(**{"ml-1m/ratings.dat": OFFICIAL["ml-100k/u.data"].replace("\t", "::")}),
        ),
        ("u.data.gz", gzip.compress(OFFICIAL["ml-100k/u.data"].encode())),
        ("U.DATA", OFFICIAL["ml-100k/u.data"]),
    ],
    # Compressed content holds the time of day: in a test's name it would differ between processes.
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_every_layout_gives_the_same_rows_in_the_files_order(read, name, content):
    assert rows_of(read(name, content)) == OFFICIAL_ROWS


def test_a_named_member_of_a_zip_is_read(read):
    content = zipped(**{"x/a.csv": "user,item,timestamp\nu,a,5\n", **OFFICIAL})
    assert rows_of(read("x.whl", content, member="x/a.csv")) == [("u", "a", 5)]


def test_columns_are_found_by_name(read):
    columns = Columns(user="who", item="what", time="when", rating="stars")
    text = "when,stars,what,who\n5,4.5,a,u\n"
    assert rows_of(read("a.csv", text, columns)) == [("u", "a", 5, 4.5)]


def test_without_a_rating_column_there_are_no_ratings(read):
    assert read("a.csv", HEADER + "u,a,5\n").ratings is None


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + HEADER + "u,a,5\nv,b,6\n",
        (HEADER + "u,a,5\nv,b,6\n").replace("\n", "\r\n"),
        HEADER + "u,a,5\nv,b,6",
        HEADER + "u,a,5\n\nv,b,6\n\n",
        HEADER.replace(",", ", ") + "u,a,5\nv,b,6\n",
        HEADER + '"u","a",5.0\nv,b,6.\n',
    ],
    ids=["byte order mark", "CRLF", "no last line break", "empty lines", "spaces", "quotes"],
)
def test_harmless_variations_read_the_same(read, content):
    assert rows_of(read("a.csv", content)) == [("u", "a", 5), ("v", "b", 6)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("u,a", "3 fields expected, got 2"),
        ("u,a,5,6", "3 fields expected, got 4"),
        (",a,5", "user must not be empty"),
        ("u, ,5", "item must not be empty"),
        ("u,a,", "time must be whole seconds since 1970, got ''"),
        ("u,a,-5", "time must be whole seconds since 1970, got '-5'"),
        ("u,a,5.5", "time must be whole seconds since 1970, got '5.5'"),
        ("u,a,nan", "time must be whole seconds since 1970, got 'nan'"),
        ("u,a," + "9" * 19, "time must be whole seconds since 1970, got '9999999999999999999'"),
        ("u,a,1_000", "time must be whole seconds since 1970, got '1_000'"),
        ("u,a,٥", "time must be whole seconds since 1970, got '٥'"),
        ("u,a,881250949000", "time must be in seconds, got '881250949000' (milliseconds?)"),
        ('"u\t1",a,5', r"user must not hold tabs or line breaks, got 'u\t1'"),
    ],
)
def test_a_faulty_line_is_named_with_its_rule_and_value(read, line, fault):
    with pytest.raises(RequestError) as error:
        read("a.csv", f"{HEADER}u,a,5\n{line}\nu,a,5\n")
    assert str(error.value) == (
        "every line must hold a user, an item and a time in whole seconds, got 1 faulty in a.csv; "
        f"correct or remove them\n  line 3: {fault}"
    )


@pytest.mark.parametrize("rating", ["", "good", "nan", "inf", "4,5", "1e999"])
def test_a_rating_that_is_no_number_is_named(read, rating):
    with pytest.raises(RequestError, match=f"line 2: rating must be a number, got '{rating}'"):
        read("a.csv", f'{HEADER.strip()},rating\nu,a,5,"{rating}"\n')


def test_the_first_ten_faulty_lines_are_listed_and_all_are_counted(read):
    with pytest.raises(RequestError) as error:
        read("a.csv", HEADER + "u,a,5\n" * 4 + "u,a,x\n" * 13)
    first, *listed = str(error.value).splitlines()
    assert "got 13 faulty in a.csv" in first
    assert [line.split(":")[0] for line in listed] == [f"  line {n}" for n in range(6, 16)]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("user,item,when", "a.csv without one timestamp: it has user, item, when; name the"),
        ("uid,iid,timestamp", "a.csv without one user and one item: it has uid, iid, timestamp"),
        ("user,item,timestamp,item", "a.csv without one item: it has user, item, timestamp, item"),
        ("", "without one user and one item and one timestamp: it has no line"),
    ],
)
def test_missing_or_double_columns_are_named_with_those_there(read, header, message):
    with pytest.raises(RequestError, match=message):
        read("a.csv", f"{header}\n")


def test_naming_columns_of_a_file_without_a_header_is_refused(read):
    with pytest.raises(
        RequestError, match=r"got u\.data, which is user, item, rating, time; leave"
    ):
        read("u.data", OFFICIAL["ml-100k/u.data"], Columns(user="x"))


def test_a_declared_rating_column_must_exist(read):
    with pytest.raises(RequestError, match="without one stars"):
        read("a.csv", HEADER + "u,a,5\n", Columns(rating="stars"))


def test_a_truncated_zip_is_refused(read):
    with pytest.raises(
        RequestError, match=r"must be whole, got .*ml-100k\.zip .*download it again"
    ):
        read("ml-100k.zip", zipped(**OFFICIAL)[:-30])


def test_a_zip_with_a_damaged_member_is_refused(read):
    content = bytearray(zipped(**OFFICIAL))
    content[60] ^= 255
    with pytest.raises(RequestError, match="must be whole"):
        read("ml-100k.zip", bytes(content))


def test_a_truncated_gzip_is_refused(read):
    with pytest.raises(RequestError, match=r"must be whole, got .*a\.csv\.gz"):
        read("a.csv.gz", gzip.compress((HEADER + "u,a,5\n" * 99).encode())[:-9])


def test_a_zip_without_an_official_member_says_what_it_holds(read):
    with pytest.raises(RequestError, match=r"u\.data or .*csv, got .* with a/b\.txt;"):
        read("a.zip", zipped(**{"a/b.txt": "x"}))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", "x", r"must end in \.csv, \.tsv, \.inter, \.data, \.dat .*, got a\.xlsx"),
        ("a.csv", HEADER, r"must hold interactions, got none in a\.csv"),
        ("a.csv", HEADER.encode() + b"u,\xff,5\n", r"must be UTF-8 .* in a\.csv, line 2"),
        ("a.csv", HEADER + '"' + "x" * 200_000, r"properly quoted, got line 2 of a\.csv .*limit"),
        ("a.csv", HEADER + "u\0,a,5\n", r"must be text, got NUL in a\.csv"),
    ],
)
def test_files_that_are_no_data_are_refused(read, name, content, message):
    with pytest.raises(RequestError, match=message):
        read(name, content)


def test_a_missing_file_is_a_request_error():
    with pytest.raises(RequestError, match=r"readable, got /no/such\.csv .No such file .*path"):
        read_file(Path("/no/such.csv"), Columns())


ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), min_size=1
).filter(str.strip)


@given(rows=st.lists(st.tuples(ids, ids, st.integers(0, 10**11 - 1)), min_size=1))
def test_any_ids_survive_a_round_trip_through_csv(tmp_path_factory, rows):
    file = tmp_path_factory.getbasetemp() / "round.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("user", "item", "timestamp"), *rows])
    assert rows_of(read_file(file, Columns())) == rows


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("u,a,4.0,5\nv,b,3.0,6\n", [("u", "a", 5, 4.0), ("v", "b", 6, 3.0)]),
        ("u,a,5\nv,b,6\n", [("u", "a", 5), ("v", "b", 6)]),
    ],
    ids=["as Amazon's ratings", "without ratings"],
)
def test_a_first_line_that_is_an_event_is_no_header(read, content, expected):
    assert rows_of(read("ratings_Beauty.csv", content)) == expected


def test_movielens_20m_s_member_and_column_names_are_known(read):
    text = "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n"
    found = read("ml-20m.zip", zipped(**{"ml-20m/ratings.csv": text}))
    assert rows_of(found) == [("1", "2", 1112486027, 3.5)]
