from datetime import UTC, date, datetime, time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.data.columns import Columns
from model.data.formats import Policy, read_file
from model.data.times import read_times
from model.errors import RequestError

T = 881250949
"""1997-12-04 15:55:49 UTC."""


@pytest.fixture
def read(tmp_path):
    """Read texts as the times of a file, and return the seconds and what was said."""

    def build(texts, unit="auto"):
        file, said = tmp_path / "a.csv", []
        lines = [f'u{n},a,"{text}"\n' for n, text in enumerate(texts)]
        file.write_text("user,item,timestamp\n" + "".join(lines), encoding="utf-8")
        rows = read_file(file, Columns(), policy=Policy(time_unit=unit), say=said.append)
        return rows.timestamps.tolist(), said[0]

    return build


@pytest.mark.parametrize(
    ("texts", "seconds", "said"),
    [
        ([f"{T}", "0"], [T, 0], "seconds (found): 1970-01-01 to 1997-12-04"),
        ([f"{T}000", f"{T}999"], [T, T], "milliseconds (found): 1997-12-04 to 1997-12-04"),
        (
            ["1997-12-04", "2014-07-23T12:30:00Z"],
            [881193600, 1406118600],
            "ISO dates (found): 1997-12-04 to 2014-07-23",
        ),
    ],
)
def test_the_unit_is_found_and_said(read, texts, seconds, said):
    assert read(texts) == (seconds, f"times of a.csv are {said}, UTC")


@pytest.mark.parametrize(
    ("unit", "text", "seconds"),
    [
        ("seconds", "7", 7),
        ("milliseconds", "7999", 7),
        ("iso", "1970-01-02", 86_400),
        ("iso", "1970-01-02T00:00:01", 86_401),
        ("iso", "1970-01-02 00:00:01.9", 86_401),
        ("iso", "1970-01-02T09:00:00+09:00", 86_400),
        ("iso", "1970-01-02T00:00-0530", 86_400 + 19_800),
    ],
)
def test_a_declared_unit_is_taken_at_its_word(read, unit, text, seconds):
    found, said = read([text], unit)
    assert found == [seconds]
    assert "(declared)" in said


@pytest.mark.parametrize(
    ("texts", "got"),
    [
        (["5", "6"], "got 5 to 6, which is 1970 to 1973 in either"),
        ([f"{T}", f"{T}000", f"{T}000"], "got 1 that look like seconds and 2 like milliseconds"),
    ],
)
def test_an_ambiguous_unit_is_refused(read, texts, got):
    with pytest.raises(RequestError) as error:
        read(texts)
    assert str(error.value) == (
        f"times must tell whether they are seconds or milliseconds, {got}; declare the unit with "
        "--time-unit seconds or milliseconds"
    )


def test_an_ambiguous_unit_is_named_beside_the_faulty_rows(read):
    with pytest.raises(RequestError) as error:
        read(["5", "x"])
    _, fault, unclear = str(error.value).splitlines()
    assert fault == (
        "  line 3: time must be whole seconds or milliseconds since 1970 or an ISO date, got 'x'"
    )
    assert unclear.startswith(
        "times must tell whether they are seconds or milliseconds, got 5 to 5"
    )


@pytest.mark.parametrize(
    ("unit", "text", "fault"),
    [
        ("seconds", f"{T}000", f"time must be in seconds (milliseconds?), got '{T}000'"),
        (
            "milliseconds",
            f"{T}000000",
            f"time must be in milliseconds (microseconds?), got '{T}000000'",
        ),
        ("milliseconds", "-1", "time must not be negative, got '-1'"),
        ("milliseconds", "1.5", "time must be whole milliseconds since 1970, got '1.5'"),
        ("iso", "1969-12-31T23:59:59.5Z", "time must not be before 1970, got '1969-12-31T23:59:5"),
        *(
            (
                "iso",
                text,
                "time must be an ISO date such as 2014-07-23 or 2014-07-23T12:30:00Z, "
                f"got '{text}'",
            )
            for text in ("now", "today", "09 13, 2009", "2014-02-30", "2014-07-23T25:00", f"{T}")
        ),
        (
            "auto",
            "09 13, 2009",
            "time must be whole seconds or milliseconds since 1970 or an ISO date, "
            "got '09 13, 2009'",
        ),
    ],
)
def test_a_time_of_another_kind_is_a_fault(read, unit, text, fault):
    with pytest.raises(RequestError) as error:
        read([text], unit)
    assert str(error.value).splitlines()[1].startswith(f"  line 2: {fault}")


@pytest.mark.parametrize(
    ("values", "kind", "seconds"),
    [
        ([date(1997, 12, 4)], pa.date32(), [881193600]),
        ([datetime(1970, 1, 1, 0, 0, 1, 999_999)], pa.timestamp("us"), [1]),  # noqa: DTZ001
        ([datetime(1970, 1, 2, tzinfo=UTC)], pa.timestamp("ms", "Asia/Seoul"), [86_400]),
    ],
)
def test_dates_of_their_own_type_need_no_unit(values, kind, seconds):
    found = read_times(pa.chunked_array([pa.array(values, kind)]), "auto")
    assert found.seconds.tolist() == seconds
    assert not any(rows.any() for rows in found.faults.values())


@pytest.mark.parametrize(
    ("value", "kind", "rule"),
    [
        (date(1969, 12, 31), pa.date32(), "time must not be before 1970"),
        (None, pa.timestamp("ns"), "time must be an ISO date such as 2014-07-23"),
        (time(12), pa.time32("s"), "time must be a date"),
    ],
)
def test_faulty_dates_of_their_own_type_are_faults(value, kind, rule):
    found = read_times(pa.chunked_array([pa.array([value], kind)]), "auto")
    assert next(name for name, rows in found.faults.items() if rows.any()).startswith(rule)


@given(st.lists(st.datetimes(datetime(1970, 1, 1), datetime(5000, 1, 1)), min_size=1))  # noqa: DTZ001
def test_iso_dates_give_back_their_moment(moments):
    texts = pa.chunked_array([[moment.isoformat() for moment in moments]])
    expected = [int(moment.replace(microsecond=0, tzinfo=UTC).timestamp()) for moment in moments]
    found = read_times(texts, "auto")
    assert (found.unit, found.seconds.tolist()) == ("iso", expected)
