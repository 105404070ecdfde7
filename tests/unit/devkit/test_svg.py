"""Line charts."""

from xml.etree import ElementTree

from tests.faults import svg

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_has_a_name_and_goes_through_its_points() -> None:
    chart = svg.lines("Memory", "MB", "minutes", {"a < b": [(0, 10), (1, 20), (2, 0)]})
    drawn = ElementTree.fromstring(chart)
    assert [text.text for text in drawn.iter(f"{SVG}text")][:2] == ["Memory (MB)", "a < b"]
    (line,) = drawn.iter(f"{SVG}polyline")
    (left, middle), (_, top), (right, bottom) = (
        map(float, point.split(",")) for point in line.attrib["points"].split()
    )
    assert left < right
    assert middle - top == bottom - middle > 0
