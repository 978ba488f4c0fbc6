"""Dates in names: each letter as java.time and Joda-Time write it, which are asked, and what is refused."""

import json
import subprocess
from pathlib import Path
from zoneinfo import ZoneInfo

import pyspark
import pytest

from ingest.template.date_fields import has_short_name
from ingest.template.date_letters import DateDialect
from ingest.template.date_pattern import DatePatternError, read_date_pattern

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
_MOMENTS = (
    *(1_704_067_200_000, 1_704_110_400_000, 1_735_689_599_999, 1_735_603_200_001, 1_798_761_600_000),
    *(1_711_846_800_000, 1_729_990_800_000, 1_709_164_800_123, 1_577_836_800_000, 1_609_372_800_000, 0),
    *(1_483_228_799_000, 1_640_995_200_000, 1_719_792_000_000, 1_700_000_000_000),
)
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu")
_PROGRAM = """
import java.nio.file.*; import java.time.*; import java.time.format.*; import java.util.*;
import org.joda.time.DateTime; import org.joda.time.DateTimeZone; import org.joda.time.format.DateTimeFormat;
public class Dates {
  public static void main(String[] args) throws Exception {
    for (String line : Files.readAllLines(Path.of(args[0]))) {
      String[] part = line.split("\\t", 4);
      long moment = Long.parseLong(part[1]);
      System.out.println(part[0].equals("java.time")
        ? DateTimeFormatter.ofPattern(part[3], Locale.US).withZone(ZoneId.of(part[2]))
            .format(Instant.ofEpochMilli(moment))
        : DateTimeFormat.forPattern(part[3]).withLocale(Locale.US)
            .withZone(DateTimeZone.forID(part[2])).print(new DateTime(moment)));
    }
  }
}
"""


def test_every_letter_is_written_as_the_libraries_do(tmp_path: Path) -> None:
    """Both of them, at New Year, in leap years, at changes of the clock, in zones of half hours."""
    cases = [
        (dialect, moment, zone, pattern)
        for dialect, patterns in ((DateDialect.JAVA, _JAVA), (DateDialect.JODA, _JODA))
        for pattern in patterns
        for zone in _ZONES
        for moment in _MOMENTS
    ]
    program, given = tmp_path / "Dates.java", tmp_path / "cases"
    program.write_text(_PROGRAM)
    given.write_text("\n".join("\t".join(map(str, case)) for case in cases), encoding="utf-8")
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("joda-time-*.jar")
    answered = subprocess.run(
        ["java", "-Dfile.encoding=UTF-8", "-cp", jar, program, given], check=True, capture_output=True
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
    ],
)
def test_a_letter_that_is_none_is_named(pattern: str, dialect: DateDialect, says: str) -> None:
    """With what to write instead, where that is known."""
    with pytest.raises(DatePatternError, match=says.replace("{", r"\{")):
        read_date_pattern(pattern, dialect)


@pytest.mark.parametrize(
    ("zone", "letters", "has"),
    [("UTC", "UTC", True), ("Europe/Berlin", "CET", True), ("America/Sao_Paulo", "-03", False)],
)
def test_a_zone_has_a_short_name_or_is_known_to_have_none(zone: str, letters: str, *, has: bool) -> None:
    """Which Java makes up there, and Python does not."""
    assert has_short_name(zone) is has
    assert read_date_pattern("z").text(1_704_067_200_000, ZoneInfo(zone)) == letters


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
