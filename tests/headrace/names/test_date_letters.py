"""Dates by patterns: each letter as three libraries of Java write it, which are asked; what is refused."""

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.clock import ms_since_1970
from headrace.names.date_fields import DateKind, has_short_name, read_zone
from headrace.names.date_letters import DateDialect
from headrace.names.date_pattern import DatePatternError, read_date_pattern, step_ms
from tests.support import short_java

_JAVA = (
    *("yyyy-MM-dd-HH", "yyyy/MM/dd/HHmmss.SSS", "y yy yyy uuuu uu", "YYYY-ww", "Y w", "M MM MMM MMMM MMMMM"),
    *("L LL LLL LLLL", "d dd", "D DD DDD", "E EE EEE EEEE EEEEE", "e ee eee eeee", "c ccc cccc", "W"),
    *("Q QQ QQQ QQQQ q qq", "a h hh", "K KK", "k kk", "H HH", "m mm s ss", "S SS SSS SSSS SSSSSSSSS"),
    *(
        "A AAAA n nnn N",
        "VV",
        "O OOOO",
        "X XX XXX XXXX XXXXX",
        "x xx xxx",
        "Z ZZ ZZZ ZZZZ ZZZZZ",
        "G GGGG GGGGG",
    ),
    *("'year='yyyy'/o''clock='HH", "yyyy''MM", "[yyyy][-MM]", "yyyyMMdd", "dd.MM.yyyy", "'T'HH"),
)
_JODA = (
    *("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "YYYY-MM-dd/HH", "y yy yyy yyyy", "Y YY YYYY"),
    *("x xx xxxx", "w ww", "e", "E EEE EEEE", "D DDD", "M MM MMM MMMM", "d dd", "a h hh", "K KK", "k kk"),
    *(
        "H HH m mm s ss",
        "S SS SSS SSSSS",
        "Z ZZ ZZZ",
        "C CC",
        "G",
        "'dt='yyyyMMdd",
        "yyyy''MM",
        "[yyyy]{MM}#",
    ),
    *("'o''clock'=HH", "yyyyMMddHHmm"),
)
_SIMPLE = (
    *("yyyyMMdd", "y yy yyy yyyy yyyyy", "Y YY YYYY ww", "M MM MMM MMMM MMMMM", "L LLL LLLL", "w ww www"),
    *("W WW", "D DDD", "d dd ddd", "F FF", "E EEE EEEE EEEEE", "u uu", "a aa", "H HHH", "k K h", "m mm s ss"),
    *("S SSS SSSS SSSSSS", "Z ZZZZ ZZZZZ", "X XX XXX", "G GGG GGGG", "'o''clock' [yyyy]{MM}#"),
)
_MOMENTS = (
    *(1_704_067_200_000, 1_704_110_400_000, 1_735_689_599_999, 1_735_603_200_001, 1_798_761_600_000),
    *(1_711_846_800_000, 1_729_990_800_000, 1_709_164_800_123, 1_577_836_800_000, 1_609_372_800_000, 0),
    *(1_483_228_799_000, 1_640_995_200_000, 1_719_792_000_000, 1_700_000_000_000),
)
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu")
_PROGRAM = """
import java.nio.file.*; import java.text.*; import java.time.*; import java.time.format.*; import java.util.*;
import org.joda.time.DateTime; import org.joda.time.DateTimeZone; import org.joda.time.format.DateTimeFormat;
public class Dates {
  public static void main(String[] args) throws Exception {
    for (String line : Files.readAllLines(Path.of(args[0]))) {
      String[] part = line.split("\\t", 4);
      long moment = Long.parseLong(part[1]);
      SimpleDateFormat simple = part[0].equals("SimpleDateFormat")
        ? new SimpleDateFormat(part[3], Locale.US) : new SimpleDateFormat();
      simple.setTimeZone(TimeZone.getTimeZone(part[2]));
      System.out.println(part[0].equals("SimpleDateFormat") ? simple.format(new Date(moment))
        : part[0].equals("java.time")
        ? DateTimeFormatter.ofPattern(part[3], Locale.US).withZone(ZoneId.of(part[2]))
            .format(Instant.ofEpochMilli(moment))
        : DateTimeFormat.forPattern(part[3]).withLocale(Locale.US)
            .withZone(DateTimeZone.forID(part[2])).print(new DateTime(moment)));
    }
  }
}
"""


def test_every_letter_is_written_as_the_libraries_do(tmp_path: Path) -> None:
    """All three, at New Year, in leap years, at changes of the clock, in zones of half hours."""
    cases = [
        (dialect, moment, zone, pattern)
        for dialect, patterns in (
            (DateDialect.JAVA, _JAVA),
            (DateDialect.JODA, _JODA),
            (DateDialect.SIMPLE, _SIMPLE),
        )
        for pattern in patterns
        for zone in _ZONES
        for moment in _MOMENTS
    ]
    program, given = tmp_path / "Dates.java", tmp_path / "cases"
    program.write_text(_PROGRAM)
    given.write_text("\n".join("\t".join(map(str, case)) for case in cases), encoding="utf-8")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("joda-time-*.jar")
    answered = subprocess.run(
        ["java", *short_java.OPTIONS, "-Dfile.encoding=UTF-8", "-cp", jar, program, given],
        check=True,
        capture_output=True,
    )
    wanted = answered.stdout.decode().splitlines()

    found = [
        read_date_pattern(pattern, dialect).text(moment, ZoneInfo(zone))
        for dialect, moment, zone, pattern in cases
    ]

    assert len(wanted) == len(cases)
    wrong = [
        (case, ours, theirs)
        for case, ours, theirs in zip(cases, found, wanted, strict=True)
        if ours != theirs
    ]
    assert not wrong, json.dumps(wrong[:20], indent=1)


@pytest.mark.parametrize(
    ("pattern", "dialect", "says"),
    [
        ("YYYY-MM", DateDialect.JAVA, "write yyyy"),
        ("yyyy-F", DateDialect.JAVA, "'F' is no part"),
        ("yyyy-B", DateDialect.JAVA, "'B' is no part"),
        ("ddd", DateDialect.JAVA, "takes at most 2 letters, not 3"),
        ("yyyy zzzz", DateDialect.JAVA, "VV"),
        ("yyyy zzzz", DateDialect.JODA, "ZZZ"),
        ("VVV", DateDialect.JAVA, "takes 2 letters, not 3"),
        ("yyyy-uuuu", DateDialect.JODA, "'uuuu' is no part"),
        ("{yyyy", DateDialect.JAVA, "'{' is reserved"),
        ("'abc'", DateDialect.JODA, "no part of a date"),
        ("yyyy'", DateDialect.JAVA, "not closed"),
        ("yyyy]", DateDialect.JAVA, "has no \\[ before it"),
        ("yyyy zzzz", DateDialect.SIMPLE, "XXX"),
        ("XXXX", DateDialect.SIMPLE, "takes at most 3 letters, not 4"),
        ("yyyy VV", DateDialect.SIMPLE, "'VV' is no part"),
    ],
)
def test_a_letter_that_is_none_is_named(pattern: str, dialect: DateDialect, says: str) -> None:
    """With what to write instead, where that is known."""
    with pytest.raises(DatePatternError, match=says.replace("{", r"\{")):
        read_date_pattern(pattern, dialect)


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("Europe/Berlin", "Europe/Berlin", "2024-01-01T01:00 +01:00"),
        ("+02:00", "+02:00", "2024-01-01T02:00 +02:00"),
        ("-05:30", "-05:30", "2023-12-31T18:30 -05:30"),
        ("+0545", "+05:45", "2024-01-01T05:45 +05:45"),
        ("+2", "+02:00", "2024-01-01T02:00 +02:00"),
        ("-00:00", "UTC", "2024-01-01T00:00 +00:00"),
        ("UTC+02:00", "+02:00", "2024-01-01T02:00 +02:00"),
        ("GMT+2", "+02:00", "2024-01-01T02:00 +02:00"),
        ("GMT+2:30", "+02:30", "2024-01-01T02:30 +02:30"),
        ("UT-0530", "-05:30", "2023-12-31T18:30 -05:30"),
        ("UTC-5", "-05:00", "2023-12-31T19:00 -05:00"),
        ("UTC+0", "UTC", "2024-01-01T00:00 +00:00"),
        ("GMT+0", "GMT+0", "2024-01-01T00:00 +00:00"),
        ("Etc/GMT+2", "Etc/GMT+2", "2023-12-31T22:00 -02:00"),
        ("Z", "UTC", "2024-01-01T00:00 +00:00"),
    ],
)
def test_a_zone_is_a_name_or_an_offset(name: str, known: str, text: str) -> None:
    """As Joda's and Java's are, and dates are those of its clock."""
    zone = read_zone(name)

    assert str(zone) == known
    assert read_date_pattern("yyyy-MM-dd'T'HH:mm xxx").text(1_704_067_200_000, zone) == text
    assert read_date_pattern("VV", is_name=False).text(1_704_067_200_000, zone) == known


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "+15:00", "+14:01", "+02:60", "+200", "02:00", "/etc", "UTC+15", "UTC2", "CET+1"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    """With no error of a library's."""
    with pytest.raises(ValueError, match=r"[zZ]one"):
        read_zone(name)


@pytest.mark.parametrize("name", ["+02:00", "-05:30", "+05:45", "-00:01"])
@pytest.mark.parametrize("pattern", ["yyyy-MM-dd", "HH", "HH:mm"])
def test_a_step_of_a_fixed_offset_holds_one_date(name: str, pattern: str) -> None:
    """All moments of a multiple of it have the text of its first."""
    zone, date = read_zone(name), read_date_pattern(pattern)
    step = step_ms(date.step_ms, zone, 1_704_067_200_000)
    begins = range(1_704_067_200_000 // step * step, 1_704_067_200_000 + 7_200_000, step)

    assert all(date.text(each, zone) == date.text(each + step - 1, zone) for each in begins)


@pytest.mark.parametrize(
    ("zone", "change", "step"),
    [
        ("America/St_Johns", "2006-10-29T02:31Z", 60_000),
        ("America/Goose_Bay", "2010-03-14T04:01Z", 60_000),
        ("America/Moncton", "2006-10-29T03:01Z", 60_000),
        ("Asia/Gaza", "2011-03-31T22:01Z", 60_000),
        ("Antarctica/Casey", "2020-10-03T16:01Z", 60_000),
        ("Pacific/Kiritimati", "1979-10-01T10:40Z", 60_000),
        ("America/St_Johns", "2024-11-03T04:30Z", 900_000),
        ("Europe/Berlin", "1980-04-06T01:00Z", 900_000),
        ("Africa/Monrovia", "1972-01-07T00:44:30Z", 1000),
    ],
)
def test_a_step_holds_one_date_where_clocks_are_changed(zone: str, change: str, step: int) -> None:
    """Some are changed at one past midnight; the same moment has one date whatever is fetched with it."""
    known, date, moment = read_zone(zone), read_date_pattern("yyyy-MM-dd-HH"), ms_since_1970(_moment(change))
    begin = moment // 900_000 * 900_000

    assert step_ms(date.step_ms, known, moment - 86_400_000) == step
    begins = range(begin, begin + 900_000, step)
    assert all(date.text(each, known) == date.text(each + step - 1, known) for each in begins)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "letters", "has"),
    [
        ("UTC", "UTC", True),
        ("Europe/Berlin", "CET", True),
        ("America/Sao_Paulo", "-03", False),
        ("+02:00", "+02:00", False),
    ],
)
def test_a_zone_has_a_short_name_or_is_known_to_have_none(zone: str, letters: str, *, has: bool) -> None:
    """Which Java makes up there, and Python does not."""
    assert has_short_name(zone) is has
    assert read_date_pattern("z").text(1_704_067_200_000, read_zone(zone)) == letters


def test_a_step_holds_one_date() -> None:
    """What grouping and the end of a wall clock's name rely on."""
    steps = {
        pattern: read_date_pattern(pattern).step_ms
        for pattern in ("yyyy", "HH", "a", "mm", "ss", "SSS", "VV")
    }

    assert steps == {
        "yyyy": 86_400_000,
        "HH": 3_600_000,
        "a": 3_600_000,
        "mm": 60_000,
        "ss": 1000,
        "SSS": 1,
        "VV": 900_000,
    }


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 13:30:05.078"),
        ("yy.M.d h 'o''clock' a", "24.2.29 1 o'clock PM"),
        ("YYYY", "2024"),
        ("MMMMM EEEEE", "F T"),
        ("HH x xx xxx", "13 +00 +0000 +00:00"),
        ("HH ZZZZ ZZZZZ", "13 GMT Z"),
    ],
)
def test_times_are_written_in_transforms(pattern: str, text: str) -> None:
    """As DateTimeFormatter writes them, the year of weeks alone too: Lenses' transforms do."""
    assert read_date_pattern(pattern, is_name=False).text(1_709_213_405_078, ZoneInfo("UTC")) == text


@given(moment=st.integers(0, 253_402_300_799_999))
def test_what_is_written_can_be_read(moment: int) -> None:
    """To the millisecond, by names of months and halves of the day, and in any zone that is named."""
    for pattern in (
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "dd MMMM yyyy hh:mm:ss a SSS",
        "yyyyMMddHHmmssSSS[ X]",
        "uuuu MMM d H:m:s.SSS xx",
        "yyyy-MM-dd HH:mm:ss[.SSS] ZZZZ",
    ):
        dates = read_date_pattern(pattern, is_read=True)
        zones = ("UTC",) if dates.fields[-1].kind is not DateKind.OFFSET else ("UTC", "Asia/Kathmandu")
        for zone in zones if moment < 253_402_200_000_000 else ("UTC",):
            assert dates.moment_ms(dates.text(moment, ZoneInfo(zone))) == moment


@pytest.mark.parametrize(
    ("pattern", "text", "moment"),
    [
        ("yyyy-MM-dd[ HH:mm[:ss]]", "2024-02-29", 1_709_164_800_000),
        ("yyyy-MM-dd[ HH:mm[:ss]]", "2024-02-29 13:30", 1_709_213_400_000),
        ("yyyy-MM-dd[ HH:mm[:ss", "2024-02-29 13:30:05", 1_709_213_405_000),
        ("yyyy-MM-dd[]XXX", "2024-02-29-05:30", 1_709_184_600_000),
        ("yy MMM", "24 Feb", 1_706_745_600_000),
        ("HH:mm", "00:01", 60_000),
        ("h a", "12 am", 0),
    ],
)
def test_texts_are_read(pattern: str, text: str, moment: int) -> None:
    """What is missing is that of 1970-01-01, and what stands in [..] may be."""
    assert read_date_pattern(pattern, is_name=False, is_read=True).moment_ms(text) == moment


@pytest.mark.parametrize("text", ["2024-02-30", "2024-2-1", "x", "2024-02-01 "])
def test_what_is_no_date_is_not_read(text: str) -> None:
    """As strict as the pattern."""
    with pytest.raises(ValueError, match=r"."):
        read_date_pattern("yyyy-MM-dd", is_read=True).moment_ms(text)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [("EEE", "the day of the week (short) cannot be read"), ("yyyy yyyy", "has the year twice")],
)
def test_what_cannot_be_read_is_found_at_the_start(pattern: str, says: str) -> None:
    """Names of days alone are no date."""
    with pytest.raises(DatePatternError, match=re.escape(says)):
        read_date_pattern(pattern, is_name=False, is_read=True)


@pytest.mark.parametrize("moment", [253_402_300_800_000, 2**63 - 1, -(2**63)])
def test_a_time_without_a_date_in_python_is_no_text(moment: int) -> None:
    """Names are asked with `is_date` before; a transform refuses the record."""
    with pytest.raises(ValueError, match="beyond the year 9999"):
        read_date_pattern("yyyy").text(moment, ZoneInfo("UTC"))
