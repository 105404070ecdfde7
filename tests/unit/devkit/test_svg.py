"""Charts of figures."""

from xml.etree import ElementTree

from devkit import svg

SVG = "{http://www.w3.org/2000/svg}"


def test_a_bar_is_as_long_as_its_share_of_the_longest() -> None:
    chart = svg.stacked("CPU", "ms", [("short", {"a": 1.0}), ("long", {"a": 1.0, "b": 3.0})])
    drawn = [box for box in ElementTree.fromstring(chart).iter(f"{SVG}rect") if box.get("height") == "18.0"]
    short, first, second = (float(box.attrib["width"]) for box in drawn)
    assert short == first
    assert abs(second - 3 * first) < 0.5


def test_a_chart_names_its_bars_segments_and_sums() -> None:
    chart = svg.stacked("CPU", "ms", [("a < b", {"Redis": 1.25})])
    texts = [text.text for text in ElementTree.fromstring(chart).iter(f"{SVG}text")]
    assert texts == ["CPU (ms)", "Redis", "a < b", "1.25"]


def test_a_line_goes_through_its_points() -> None:
    chart = svg.lines("Memory", "MB", "minutes", {"gateway": [(0, 10), (1, 20), (2, 0)]})
    (line,) = ElementTree.fromstring(chart).iter(f"{SVG}polyline")
    (left, middle), (_, top), (right, bottom) = (
        map(float, point.split(",")) for point in line.attrib["points"].split()
    )
    assert left < right
    assert middle - top == bottom - middle > 0
