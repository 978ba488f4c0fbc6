"""The status page in a real Chromium: what it shows, how it lives, and that no key becomes markup."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ingest.http.snapshot import (
    ArchivedObject,
    ReadingObject,
    RecentObject,
    SinkPartition,
    SinkStatus,
    Snapshot,
)
from tests.ingest.http.page.chromium import Chromium, Page, find_chromium
from tests.ingest.http.page.page_service import LEADER, NOW_MS, Shown, showing
from tests.support.until import until_sync

HOSTILE = [
    "<img src=x onerror=\"document.title='taken'\">.jsonl",
    "</script><script>document.title='taken'</script>",
    "'\"><svg onload=document.title='taken'>",
    "{{constructor.constructor('document.title=1')()}}",
    "javascript:document.title='taken'//",
    "שלום/مرحبا/🧨 with blanks  and%20percent+plus.jsonl",
    "long/" + "x" * 1019,
]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests of this module."""
    command = find_chromium()
    if command is None:
        pytest.skip(
            "there is no Chromium on PATH (Debian: apt-get install chromium): the page was NOT looked at"
        )
    browser = Chromium(command, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def shown() -> Iterator[Shown]:
    """The endpoints of a leader in the middle of its work."""
    with showing() as made:
        yield made


@pytest.fixture
def page(chromium: Chromium, shown: Shown) -> Iterator[Page]:
    """The page on a desk, with its first figures; nothing may have gone wrong in it by the end."""
    with chromium.page(shown.url) as made:
        made.await_text("#role", lambda text: text == "leader")
        yield made
        assert made.complaints == []


def test_it_shows_what_status_says(page: Page) -> None:
    """One look: who it is, whether it is well, how much, how far behind, how late, what needs a person."""
    assert page.text("h1") == "orders"
    assert [page.text(badge) for badge in ("#role", "#ready", "#mode")] == ["leader", "ready", "events"]
    assert page.text("#reason") == "the queue answers"
    assert page.text("#records-rate") == "412,381 records/s"
    assert page.text("#bytes-rate").startswith("82.5 MB/s")
    assert page.text("#pending") == "34 objects wait"
    assert (page.text("#pending-bytes"), page.text("#oldest")) == ("812 MB to read", "the oldest for 4.2 s")
    assert page.text("#latency") == "46 ms for the median object"
    assert page.text("#latency-tail") == "p99 212 ms, the slowest 1.93 s"
    assert "done 1,204,388" in page.text("#states")
    totals = page.text("#totals")
    assert "Records committed 4,812,004,117" in totals
    assert "Bad records 1,204" in totals
    assert "not_json 1,201" in totals
    assert "part-0007.jsonl not_json byte 3,201,774" in page.text("#quarantined")
    # Nothing is green beside what needs a person.
    assert page.value("document.querySelector('#ready').className") == "badge warn"
    assert page.value("document.title").startswith("⚠ ")
    rows = page.value("[...document.querySelectorAll('#recent tbody th')].map((cell) => cell.innerText)")
    assert rows == [recent.key for recent in reversed(LEADER.recent)]


def test_what_is_read_now_stands_above_ten_that_are_over(page: Page, shown: Shown) -> None:
    """Fifty rows would push everything else off the screen; who wants them finds them in /status."""
    many = tuple(replace(LEADER.recent[0], key=f"over/{number}") for number in range(50))
    reading = ReadingObject(
        slot=3, bucket="uploads", key="large.jsonl", topic="orders", records=1_200_000, bytes=73_400_320,
        others=2, at_ms=NOW_MS - 42_000,
    )  # fmt: skip
    shown.change(recent=many, reading=(reading,))
    text = page.await_text("#reading", lambda text: "large.jsonl" in text)

    assert text.endswith("large.jsonl 3 orders 1,200,000 records 73.4 MB 42.3 s ago 2 objects")
    rows = page.value("[...document.querySelectorAll('#recent tbody th')].map((cell) => cell.innerText)")
    assert rows == [f"over/{number}" for number in range(49, 39, -1)]
    assert page.text("#recent").endswith("… and 40 more in /status")
    assert page.value(
        "document.querySelector('#reading').getBoundingClientRect().bottom"
        " <= document.querySelector('#recent').getBoundingClientRect().top"
    )


def test_of_several_buckets_each_key_has_its_own_before_it(page: Page, shown: Shown) -> None:
    """One key in two of them is two objects; a single bucket need not be repeated in each line."""
    one = replace(LEADER.recent[0], bucket="one", key="k")
    shown.change(buckets=("one", "two"), recent=(one, replace(one, bucket="two")))
    page.await_text("#recent", lambda text: "two/k" in text)
    rows = page.value("[...document.querySelectorAll('#recent tbody th')].map((cell) => cell.innerText)")
    assert rows == ["two/k", "one/k"]


def test_a_sink_shows_its_partitions_and_nothing_of_a_source(page: Page, shown: Shown) -> None:
    """How far behind, what is open, where each partition stands and why, and the last objects."""
    partition = SinkPartition(
        topic="orders",
        partition=3,
        state="stopped",
        slot=1,
        offset=1_000,
        position=1_200,
        end=5_000,
        lag=4_000,
        pending_objects=1,
        quarantined_objects=0,
        detail="orders-3 is at offset 1000 (not_json): it is no JSON",
    )
    archived = ArchivedObject(
        key=HOSTILE[0],
        state="quarantined",
        reason="name_taken",
        topic="orders",
        partition=3,
        first_offset=900,
        last_offset=999,
        records=100,
        bytes=2_000,
        at_ms=NOW_MS,
    )
    sink = SinkStatus(
        lag=4_000,
        open_objects=2,
        pending_objects=1,
        objects_total=7,
        bytes_total=9_000_000,
        buffered_bytes=1_000_000,
        missing_topics=("late", HOSTILE[1]),
        partitions=(partition,),
        recent=(archived,),
    )
    shown.change(sink=sink)
    text = page.await_text("#partitions", lambda text: "orders-3" in text)

    assert "stopped 1 1,000 1,200 5,000 4,000 1 object orders-3 is at offset 1000" in text
    assert text.endswith(f"2 topics not there: late, {HOSTILE[1]}")
    assert page.text("#pending") == "4,000 offsets behind"
    assert page.text("#pending-bytes") == "2 open objects, 1 MB in memory, 0 B on disk"
    assert page.text("#oldest") == "1 sealed object not visible yet"
    assert "Archived 7 objects, 9 MB" in page.text("#totals")
    assert "quarantined: name_taken" in page.text("#recent")
    hidden = "[...document.querySelectorAll('.of-source')].every((part) => part.offsetParent === null)"
    assert page.value(hidden)
    assert page.value("document.title") != "taken"


def test_the_curve_spans_the_card(page: Page, shown: Shown) -> None:
    """From the first seconds on: a page just opened showed a line at the right edge."""
    points = "document.querySelector('#sparkline polyline').getAttribute('points').split(' ')"
    seen = page.value(f"{points}.length")
    shown.change(records_per_second=1000.0)
    until_sync(lambda: page.value(f"{points}.length") > seen + 1, what="more points")

    ends = page.value(f"[{points}[0], {points}.at(-1)].map((point) => Number(point.split(',')[0]))")
    assert ends == [0, page.value("document.querySelector('#sparkline').viewBox.baseVal.width")]


@pytest.mark.long
def test_hostile_keys_stay_text(chromium: Chromium) -> None:
    """A key comes from whoever may upload; on the page it is what it says, and nothing runs."""
    recent = tuple(
        RecentObject(
            bucket="uploads",
            key=key,
            state="done",
            reason=key,
            topic=key,
            records=1,
            bad=0,
            bytes=1,
            at_ms=NOW_MS - 1000,
        )
        for key in HOSTILE
    )
    hostile = replace(
        LEADER,
        name=HOSTILE[0],
        mode_reason=HOSTILE[1],
        problems={HOSTILE[2]: HOSTILE[0]},
        last_error=HOSTILE[1],
        recent=recent,
    )
    with showing(hostile) as shown, chromium.page(shown.url, width=360) as page:
        page.await_text("#role", lambda text: text == "leader")

        keys = page.value(
            "[...document.querySelectorAll('#recent tbody th')].map((cell) => cell.textContent)"
        )
        assert keys == HOSTILE[::-1]
        assert page.value("document.querySelector('h1').textContent") == HOSTILE[0]
        assert page.value("document.querySelectorAll('img, svg[onload], body script ~ script').length") == 0
        assert "taken" not in page.value(
            "document.title.replace(document.querySelector('h1').textContent, '')"
        )
        assert page.value("document.scrollingElement.scrollWidth <= innerWidth"), "a long key widens the page"
        assert page.complaints == []


@pytest.mark.long
def test_the_policy_stops_what_would_get_in_all_the_same(page: Page, shown: Shown) -> None:
    """Markup that did reach the document has no script, no style and no request to anywhere else."""
    page.value(
        """(() => {
            const hole = document.createElement("div");
            hole.innerHTML = '<img src=x onerror="window.taken = 1"><p id=dressed style="color: red">x</p>';
            document.body.append(hole);
            const script = document.createElement("script");
            script.textContent = "window.taken = 2";
            document.body.append(script);
        })()"""
    )
    fetched = page.value("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
    refused = page.complaints

    assert page.value("window.taken ?? null") is None
    assert page.value("getComputedStyle(document.querySelector('#dressed')).color") != "rgb(255, 0, 0)"
    assert fetched == "refused"
    assert sum("Content Security Policy" in text for text in refused) >= 4, refused
    # Said and looked at; the page's own fixture wants silence from here on.
    page.forgive()
    shown.change()


def test_it_lives(page: Page, shown: Shown) -> None:
    """Figures move without a reload; a screen reader hears of what matters, and not of every figure."""
    spoken = page.text("#spoken")
    page.value("window.row = document.querySelector('#recent tbody tr'); 0")
    asked = shown.asked

    shown.change(records_per_second=7.5, pending_objects=35)
    page.await_text("#records-rate", lambda text: text == "7.5 records/s")
    assert page.text("#spoken") == spoken == "leader, ready; mode events; 2 objects quarantined"

    shown.change(mode="fallback", mode_reason="the queue fails", ready=False, problems={"bucket": "403"})
    page.await_text("#problems", lambda text: text == "bucket: 403")
    assert page.text("#mode") == "fallback"
    assert page.text("#spoken") == "leader, not ready; mode fallback; 2 objects quarantined; 403"
    assert page.value("document.title") == "⚠ orders · leader"
    assert page.value("window.row.isConnected"), "a table that did not change was built anew"
    assert shown.asked > asked
    points = page.value("document.querySelector('#sparkline polyline').getAttribute('points')").split()
    assert len(points) >= 2


@pytest.mark.long
def test_it_says_when_nobody_answers_and_comes_back(chromium: Chromium, shown: Shown) -> None:
    """Old figures never look like new ones."""
    with chromium.page(shown.url) as page:
        page.await_text("#role", lambda text: text == "leader")
        shown.failing = True
        said = page.await_text("#silent", lambda text: text.startswith("No answer from Headrace since"))
        assert page.text("#spoken") == said
        assert page.value("getComputedStyle(document.querySelector('main')).opacity") == "0.55"

        shown.failing = False
        page.await_text("#silent", lambda text: text == "")
        page.await_text("#spoken", lambda text: text.startswith("leader"))


def test_an_answer_that_cannot_be_shown_is_said_to_be_one(page: Page, shown: Shown) -> None:
    """As of a version without a field that the page reads; what stays on it is dimmed."""
    shown.left_out = ("buckets", "slots")
    said = page.await_text("#silent", lambda text: "this page cannot show all of it" in text)
    assert page.text("#spoken") == said
    assert page.text("#fresh") == "not shown"
    assert page.value("getComputedStyle(document.querySelector('main')).opacity") == "0.55"
    assert page.value("document.title").startswith("⚠ ")

    shown.left_out = ()
    shown.change(pending_objects=35)
    page.await_text("#silent", lambda text: text == "")
    assert page.text("#pending") == "35 objects wait"
    page.forgive()


@pytest.mark.long
def test_a_leader_that_hangs_is_told_from_one_that_is_idle(chromium: Chromium, shown: Shown) -> None:
    """The endpoints answer from a thread of their own, also when the deciding one does not move."""
    with chromium.page(shown.url) as page:
        page.await_text("#silent", lambda text: "have not moved" in text, seconds=60)
        shown.change()
        page.await_text("#silent", lambda text: text == "")


@pytest.mark.long
def test_a_standby_says_so(chromium: Chromium) -> None:
    """It knows little, and must not look broken."""
    standby = Snapshot(
        name="orders", version="1.0.0", role="standby", ready=True, since_ms=NOW_MS, at_ms=NOW_MS
    )
    with showing(standby) as shown, chromium.page(shown.url) as page:
        page.await_text("#role", lambda text: text == "standby")
        assert page.text("#reason") == (
            "Another instance leads, and the figures are on that one's page. "
            "This one takes over when it ends."
        )
        figures = "document.querySelector('main, #mode:not(:empty)').checkVisibility()"
        assert page.value(figures) is False
        # Who led before still has figures of then; who leads from now on has its own.
        shown.change(objects={"done": 7}, mode="events")
        page.value("new Promise((resolve) => setTimeout(resolve, 1200))")
        assert page.value(figures) is False
        shown.change(role="leader")
        page.await_text("#states", lambda text: "done 7" in text)
        assert page.value(figures) is True
        assert page.complaints == []


@pytest.mark.long
def test_the_keyboard_reaches_everything_and_stops_it(page: Page, shown: Shown) -> None:
    """Tab goes to the skip link, the button and the links; Space stops what moves."""
    reached = []
    for _ in range(6):
        page.press("Tab", 9)
        reached.append(page.value("document.activeElement.innerText"))
        outline = page.value("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{reached[-1]} does not show that it has the focus"
        if reached[-1] == "Stop refreshing":
            page.press(" ", 32)
    links = ["/status", "/metrics", "/health/live", "/health/ready"]
    assert reached == ["To the figures", "Stop refreshing", *links]
    assert page.value("document.querySelector('#refreshing').getAttribute('aria-pressed')") == "true"
    until_sync(lambda: page.text("#fresh") == "not refreshed", what="a page at rest")
    asked = shown.asked
    page.value("new Promise((resolve) => setTimeout(resolve, 1500))")
    assert shown.asked == asked

    page.value("document.querySelector('#refreshing').click()")
    until_sync(lambda: shown.asked > asked, what="another poll")


@pytest.mark.long
def test_what_a_screen_reader_is_told(page: Page) -> None:
    """Landmarks, headings, tables with headers, and a name for all that can be used or is a picture."""
    nodes = page.accessible()
    roles = {node["role"] for node in nodes}
    assert {"banner", "main", "contentinfo", "status", "columnheader", "rowheader", "table"} <= roles
    headings = [node["name"] for node in nodes if node["role"] == "heading"]
    assert headings[:2] == ["orders", "Throughput"]
    assert {"Objects by state", "Quarantined: these need an operator", "Recent objects"} <= set(headings)
    unnamed = [
        node
        for node in nodes
        if node["role"] in {"button", "link", "image", "table", "region"} and not node["name"]
    ]
    assert unnamed == []
    assert any(node["role"] == "image" and "412,381" in node["name"] for node in nodes)


# Text against what is painted behind it, as WCAG 2 computes it; what is not shown does not count.
CONTRAST = """
(() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parsed(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, style, noscript")) continue;
    const [a, b] = [light(parsed(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return poor;
})()
"""


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_day_and_night(chromium: Chromium, shown: Shown, scheme: str) -> None:
    """Every text has a contrast of 4.5, badges and banners of each kind included."""
    shown.change(ready=False, mode="fallback", problems={"bucket": "it cannot be listed"})
    with chromium.page(shown.url, scheme=scheme) as page:
        page.await_text("#role", lambda text: text == "leader")
        brightness = page.value("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")

        assert page.value(CONTRAST) == []
        assert (brightness < 64) == (scheme == "dark")


@pytest.mark.long
@pytest.mark.parametrize("width", [320, 390, 768, 980, 1280, 1920])
def test_it_fits_every_window(chromium: Chromium, shown: Shown, width: int) -> None:
    """Nothing is cut off, and nobody has to scroll sideways; a phone's fingers find the button."""
    with chromium.page(shown.url, width=width) as page:
        page.await_text("#role", lambda text: text == "leader")

        wide = page.value(
            "[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()"
            " && !e.closest('.unseen, .skip, caption, thead')"
            " && e.getBoundingClientRect().right > innerWidth + 1)"
            ".map((e) => e.outerHTML.slice(0, 80))"
        )
        assert wide == []
        assert page.value("document.scrollingElement.scrollWidth <= innerWidth")
        assert page.value("document.querySelector('#refreshing').getBoundingClientRect().height") >= 36


def test_the_picture_in_the_docs_is_small() -> None:
    """It is loaded with the page that explains `/status`."""
    picture = Path(__file__).parents[4] / "docs" / "page.png"
    content = picture.read_bytes()

    assert content.startswith(b"\x89PNG")
    assert len(content) < 200_000


def test_the_page_reads_nothing_that_status_does_not_say() -> None:
    """A field that was renamed would show as a dash for ever."""
    script = (
        (Path(__file__).parents[4] / "ingest" / "http" / "page" / "status.html")
        .read_text()
        .split("<script>")[1]
    )
    read = set(re.findall(r"\bstatus\.(\w+)", script))

    assert read <= {field.name for field in fields(Snapshot)}
    assert {"name", "role", "quarantined", "event_to_commit", "bad_records"} <= read
