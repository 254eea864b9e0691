import gzip
import io
import zipfile
from pathlib import Path

import pytest

from model.data.columns import Columns
from model.data.formats import Policy, read_file
from model.errors import RequestError

PLAIN = Columns()
HEADER = "user,item,timestamp\n"
T, T2 = 881250949, 891717742
"""1997-12-04 and 1998-04-04."""


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


OFFICIAL = {"ml-100k/u.data": f"196\t242\t3\t{T}\n186\t302\t3\t{T2}\n"}
OFFICIAL_ROWS = [("196", "242", T, 3.0), ("186", "302", T2, 3.0)]
AMAZON_2014 = (
    '{"reviewerID": "196", "asin": "242", "helpful": [2, 3], "reviewText": "a\\nb", '
    f'"overall": 3.0, "unixReviewTime": {T}, "reviewTime": "12 4, 1997"}}\n'
    f'{{"reviewerID": "186", "asin": "302", "overall": 3, "unixReviewTime": {T2}}}\n'
)
AMAZON_2023 = "".join(
    f'{{"rating": 3.0, "asin": "{item}", "user_id": "{user}", "timestamp": {t}123}}\n'
    for user, item, t in (("196", "242", T), ("186", "302", T2))
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"rating,item,user,timestamp\n3,242,196,{T}\n3,302,186,{T2}\n"),
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
        ("ratings_Beauty.csv", OFFICIAL["ml-100k/u.data"].replace("\t", ",")),
        (
            "ml-100k.inter",
            "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
            + OFFICIAL["ml-100k/u.data"],
        ),
        ("reviews_Beauty_5.json", AMAZON_2014),
        ("reviews_Beauty_5.json.gz", gzip.compress(AMAZON_2014.encode())),
        ("All_Beauty.jsonl", AMAZON_2023),
        ("a.zip", zipped(**{"x/a.ndjson": AMAZON_2014, "__MACOSX/x/a.json": "", "LICENSE": ""})),
    ],
    # Compressed content holds the time of day: in a test's name it would differ between processes.
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_every_layout_gives_the_same_rows_in_the_files_order(read, name, content):
    assert rows_of(read(name, content)) == OFFICIAL_ROWS


def test_a_named_member_of_a_zip_is_read(read):
    content = zipped(**{"x/a.csv": f"user,item,timestamp\nu,a,{T}\n", **OFFICIAL})
    assert rows_of(read("x.whl", content, member="x/a.csv")) == [("u", "a", T)]


def test_columns_are_found_by_name(read):
    columns = Columns(user="who", item="what", time="when", rating="stars")
    text = f"when,stars,what,who\n{T},4.5,a,u\n"
    assert rows_of(read("a.csv", text, columns)) == [("u", "a", T, 4.5)]


def test_one_declared_column_leaves_the_others_to_their_usual_names(read):
    text = f"asin,who,timestamp,reviewerID\na,u,{T},x\n"
    assert rows_of(read("a.csv", text, Columns(user="who"))) == [("u", "a", T)]


@pytest.mark.parametrize("name", ["a.csv", "a.data"])
def test_without_a_header_columns_are_found_by_number(read, name):
    text = f"{T},9,a,u,0.5\n{T2},8,b,v,4\n".replace(",", "," if name == "a.csv" else "\t")
    columns = Columns(user="4", item="3", time="1", rating="5")
    assert rows_of(read(name, text, columns)) == [("u", "a", T, 0.5), ("v", "b", T2, 4.0)]


def test_a_number_beyond_the_columns_is_refused(read):
    with pytest.raises(RequestError, match=r"a\.csv without one 4: it has 1, 2, 3; name the"):
        read("a.csv", f"u,a,{T}\n", Columns(user="1", item="2", time="4"))


def test_without_a_rating_column_there_are_no_ratings(read):
    assert read("a.csv", HEADER + f"u,a,{T}\n").ratings is None


@pytest.mark.parametrize(
    "content",
    [
        f"\ufeff{HEADER}u,a,{T}\nv,b,{T2}\n",
        f"{HEADER}u,a,{T}\nv,b,{T2}\n".replace("\n", "\r\n"),
        f"{HEADER}u,a,{T}\nv,b,{T2}\n".replace("\n", "\r"),
        f"{HEADER}u,a,{T}\nv,b,{T2}",
        f"\n{HEADER}u,a,{T}\n\nv,b,{T2}\n\n",
        f"{HEADER.replace(',', ', ')}u,a,{T}\nv,b,{T2}\n",
        f'{HEADER}"u","a",{T}.0\nv,b,{T2}.\n',
        f"u,a,{T}\nv,b,{T2}\n",
        f"\ufeffu,a,{T}\nv,b,{T2}\n",
    ],
    ids=[
        *["byte order mark", "CRLF", "CR", "no last line break", "empty lines", "spaces"],
        *["quotes", "no header", "byte order mark without header"],
    ],
)
def test_harmless_variations_read_the_same(read, content):
    assert rows_of(read("a.csv", content)) == [("u", "a", T), ("v", "b", T2)]


@pytest.mark.parametrize(
    ("line", "kind", "fault"),
    [
        ("u,a", "row", "3 fields expected, got 2"),
        ("u,a,5,6", "row", "3 fields expected, got 4"),
        (f",a,{T}", "user", "user must not be empty"),
        (f"u,\u2003 ,{T}", "item", "item must not be empty"),
        ("u,a,", "time", "time must be whole seconds since 1970, got ''"),
        ("u,a,-5", "time", "time must not be negative, got '-5'"),
        ("u,a,5.5", "time", "time must be whole seconds since 1970, got '5.5'"),
        ("u,a,nan", "time", "time must be whole seconds since 1970, got 'nan'"),
        ("u,a," + "9" * 19, "time", f"time must be whole seconds since 1970, got '{'9' * 19}'"),
        ("u,a,1_000", "time", "time must be whole seconds since 1970, got '1_000'"),
        ("u,a,0x10", "time", "time must be whole seconds since 1970, got '0x10'"),
        ("u,a,٥", "time", "time must be whole seconds since 1970, got '٥'"),
        ("u,a,now", "time", "time must be whole seconds since 1970, got 'now'"),
        ("u,a,2014-07-23", "time", "time must be whole seconds since 1970, got '2014-07-23'"),
        (f'"u\t1",a,{T}', "user", r"user must not hold tabs or line breaks, got 'u\t1'"),
        (f'u,"a\r1",{T}', "item", r"item must not hold tabs or line breaks, got 'a\r1'"),
    ],
)
def test_a_faulty_line_is_named_with_its_rule_and_value(read, line, kind, fault):
    with pytest.raises(RequestError) as error:
        read("a.csv", f"{HEADER}u,a,{T}\n{line}\nu,a,{T}\n")
    assert str(error.value) == (
        "every row must hold a user, an item and a time, got 1 faulty of 3 in a.csv "
        f"({kind} 1); correct or remove them\n  line 3: {fault}"
    )


@pytest.mark.parametrize("rating", ["", "good", "nan", "inf", "4,5", "1e999"])
def test_a_rating_that_is_no_number_is_named(read, rating):
    with pytest.raises(RequestError, match=f"line 2: rating must be a number, got '{rating}'"):
        read("a.csv", f'{HEADER.strip()},rating\nu,a,{T},"{rating}"\n')


def test_a_quote_that_is_never_closed_is_suspected(read):
    with pytest.raises(RequestError, match=r"line 3: 3 fields .* got 1 .a quote that is never clo"):
        read("a.csv", f'{HEADER}u,a,{T}\n"u,a,{T}\nu,a,{T}\n')


def test_all_faults_of_a_file_come_in_one_message_in_the_order_of_its_lines(read):
    text = f'{HEADER}u,a,x\n\n"u\nu",a,{T}\nu,a\n,,-1\nu,a,{T}\n'
    with pytest.raises(RequestError) as error:
        read("a.csv", text)
    assert str(error.value).splitlines() == [
        "every row must hold a user, an item and a time, got 4 faulty of 5 in a.csv "
        "(row 1, user 2, time 1); correct or remove them",
        "  line 2: time must be whole seconds since 1970, got 'x'",
        r"  line 4: user must not hold tabs or line breaks, got 'u\nu'",
        "  line 6: 3 fields expected, got 2",
        "  line 7: user must not be empty",
    ]


def test_the_first_ten_faulty_lines_are_listed_and_all_are_counted(read):
    with pytest.raises(RequestError) as error:
        read("a.csv", HEADER + f"u,a,{T}\n" * 4 + "u,a,x\n,a,5\nu,a\n" * 5)
    first, *listed, last = str(error.value).splitlines()
    assert "got 15 faulty of 19 in a.csv (row 5, user 5, time 5)" in first
    assert [line.split(":")[0] for line in listed] == [f"  line {n}" for n in range(6, 16)]
    assert last == "  and 5 more"


def test_lines_are_counted_beyond_the_first_block_that_is_read(read):
    good = f"u,a,{T}\n" * 100_000
    with pytest.raises(RequestError, match="got 2 faulty of 100002") as error:
        read("a.csv", f"{HEADER}{good}u,a\nu,a,x\n")
    assert [line.split(":")[0] for line in str(error.value).splitlines()[1:]] == [
        "  line 100002",
        "  line 100003",
    ]


def test_a_long_field_is_named_by_its_row_where_lines_cannot_be_counted(read):
    with pytest.raises(RequestError, match=r"\n  row 2: 3 fields expected, got 1"):
        read("a.csv", f'{HEADER}"{"x" * 200_000}')


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("not json", "a line must be one JSON object (Expecting value: line 1 column 1 (char 0))"),
        ("[1, 2]", "a line must be one JSON object, got [1, 2]"),
        ('{"user": {"id": 3}, "item": "a"}', 'user must be text or a number, got {"id": 3}'),
        ('{"user": "u", "item": true}', "item must be text or a number, got true"),
        (r'{"user": "u", "item": "\ud800"}', r'item must be text or a number, got "\ud800"'),
        ('{"item": "a", "timestamp": 5}', "user must not be empty"),
        ('{"user": "u", "item": "a"}', "time must be whole seconds since 1970, got nothing"),
        (
            '{"user": "u", "item": "a", "timestamp": 5.5}',
            "time must be whole seconds since 1970, got '5.5'",
        ),
        ('{"user": "u", "item": "a", "timestamp": -5}', "time must not be negative, got '-5'"),
        (
            '{"user": "u", "item": "a", "timestamp": NaN}',
            "time must be whole seconds since 1970, got nothing",
        ),
        ('{"user": "u\\u0000", "item": "a", "timestamp": 5}', "user must not hold tabs or line"),
    ],
)
def test_a_faulty_line_of_json_is_named_and_the_lines_after_it_are_read(read, text, fault):
    good = f'{{"user": "u", "item": "a", "timestamp": {T}}}\n'
    with pytest.raises(RequestError) as error:
        read("a.jsonl", f"{good}\n{text}\n{good}")
    first, listed = str(error.value).splitlines()
    assert "got 1 faulty of 3 in a.jsonl" in first
    assert listed.startswith(f"  line 3: {fault}")


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", HEADER + "u,a\nu\n"), ("a.jsonl", "x\n[]\n"), ("a.dat", "u::a::1::x\nu::a::1::\n")],
)
def test_a_file_of_nothing_but_faults_is_told_as_any_other(read, name, text):
    with pytest.raises(RequestError, match=rf"got 2 faulty of 2 in {name}"):
        read(name, text)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("user,item,when", "a.csv without one timestamp: it has user, item, when; name the"),
        ("uid,iid,timestamp", "a.csv without one user and one item: it has uid, iid, timestamp"),
        ("user,item,timestamp,item", "a.csv without one item: it has user, item, timestamp, item"),
        ("user,userId,item,timestamp", "a.csv without one user: it has user, userId, item"),
    ],
)
def test_missing_or_double_columns_are_named_with_those_there(read, header, message):
    with pytest.raises(RequestError, match=message):
        read("a.csv", f"{header}\n")


def test_missing_fields_of_json_are_named(read):
    with pytest.raises(RequestError, match=r"a\.json without one user: it has id, item, times"):
        read("a.json", '{"id": 1, "item": 2, "timestamp": 3}\n')


def test_naming_columns_of_a_file_without_a_header_is_refused(read):
    with pytest.raises(
        RequestError, match=r"got u\.data, which has none; give their numbers, from 1, or leave"
    ):
        read("u.data", OFFICIAL["ml-100k/u.data"], Columns(user="x"))


def test_a_declared_rating_column_must_exist(read):
    with pytest.raises(RequestError, match="without one stars"):
        read("a.csv", HEADER + f"u,a,{T}\n", Columns(rating="stars"))


def test_repeated_rows_are_kept_and_told(read):
    said = []
    found = read("a.csv", HEADER + f"u,a,{T}\nu,a,{T2}\n" * 2, say=said.append)
    assert rows_of(found) == [("u", "a", T), ("u", "a", T2)] * 2
    assert said[1] == (
        "2 rows repeat the user, item and time of an earlier row: kept "
        "(--duplicates drop or refuse)"
    )


def test_of_repeated_rows_the_first_is_left_if_so_declared(read):
    said = []
    text = f"{HEADER.strip()},rating\nu,a,{T},1\nv,a,{T},2\nu,a,{T},3\nu,a,{T2},4\n"
    found = read("a.csv", text, policy=Policy(duplicates="drop"), say=said.append)
    assert rows_of(found) == [("u", "a", T, 1.0), ("v", "a", T, 2.0), ("u", "a", T2, 4.0)]
    assert said[1] == "1 rows repeat the user, item and time of an earlier row: left out"


def test_repeated_rows_are_faults_if_so_declared(read):
    with pytest.raises(RequestError) as error:
        read("a.csv", HEADER + f"u,a,{T}\nu,b,{T}\n" * 2, policy=Policy(duplicates="refuse"))
    assert str(error.value).splitlines()[1:] == [
        f"  line {n}: user, item and time must not be those of an earlier row" for n in (4, 5)
    ]


def test_a_file_without_repeats_says_nothing_of_them(read):
    said = []
    read("a.csv", HEADER + f"u,a,{T}\n", say=said.append)
    assert said == ["times of a.csv are seconds (found): 1997-12-04 to 1997-12-04, UTC"]


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
        read("a.csv.gz", gzip.compress((HEADER + f"u,a,{T}\n" * 99).encode())[:-9])


@pytest.mark.parametrize(
    ("members", "got"),
    [
        ({"a/b.txt": "x"}, r"a/b\.txt"),
        ({"a.csv": HEADER, "b.csv": HEADER}, r"a\.csv, b\.csv"),
        ({}, "nothing"),
    ],
)
def test_a_zip_without_one_table_says_what_it_holds(read, members, got):
    with pytest.raises(
        RequestError, match=rf"hold one table, or one of MovieLens, got .*a\.zip with {got}; unp"
    ):
        read("a.zip", zipped(**members))


def test_movielens_s_table_is_taken_from_a_zip_of_several(read):
    text = f"userId,movieId,rating,timestamp\n1,2,3.5,{T}\n"
    members = {"ml-20m/movies.csv": "movieId,title\n", "ml-20m/ratings.csv": text}
    assert rows_of(read("ml-20m.zip", zipped(**members))) == [("1", "2", T, 3.5)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", "x", r"must end in \.csv, \.tsv, .*\.parquet, \.json, .*, got a\.xlsx"),
        ("a.csv", HEADER, r"must hold interactions, got none in a\.csv"),
        ("a.csv", "", r"must hold interactions, got none in a\.csv"),
        ("a.csv", "\n\n", r"must hold interactions, got none in a\.csv"),
        ("a.jsonl", "\n", r"must hold interactions, got none in a\.jsonl"),
        ("a.csv", HEADER.encode() + b"u,\xff,5\n", r"must be UTF-8 .* in a\.csv, line 2"),
        ("a.csv", HEADER + "u\0,a,5\n", r"must be text, got NUL in a\.csv"),
        ("a.dat", "u\x1f::a::3::5\n", r"must be text, got the control character 0x1F in a\.dat"),
        ("a.csv", "x" * 200_000, r"first line must be .* quoted, got a\.csv .*limit.*; correct it"),
        ("a.parquet", "PAR1", r"Parquet file must be whole, got a\.parquet .*again"),
    ],
)
def test_files_that_are_no_data_are_refused(read, name, content, message):
    with pytest.raises(RequestError, match=message):
        read(name, content)


def test_a_missing_file_is_a_request_error():
    with pytest.raises(RequestError, match=r"readable, got /no/such\.csv .No such file .*path"):
        read_file(Path("/no/such.csv"), Columns())
