"""Whole numbers of a values file, which Helm reads as floats: 2000000 would be printed as 2e+06."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit.charts.charts import charts
from devkit.charts.files import FOLDER
from tests.charts.rendering import helm

LARGE = 2_000_000


def large(values: Any) -> Any:
    """`values` with every whole number replaced by a large one."""
    match values:
        case bool():
            return values
        case int():
            return LARGE
        case dict():
            return {name: large(value) for name, value in values.items()}
        case list():
            return [large(value) for value in values]
        case _:
            return values


@pytest.mark.parametrize("chart", charts())
def test_a_whole_number_of_a_file_is_printed_as_one(chart: str, tmp_path: Path) -> None:
    values = large(yaml.safe_load((FOLDER / chart / "values.yaml").read_text()))
    for part in ("autoscaling", "api"):
        if part in values:
            scaling = values[part] if part == "autoscaling" else values[part].get("autoscaling", {})
            scaling |= {"enabled": True}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    # Its bounds are not asked about: what is printed is.
    rendered = helm("template", chart, str(FOLDER / chart), "--values", str(file), "--skip-schema-validation")
    assert rendered.returncode == 0, rendered.stderr
    assert "e+" not in rendered.stdout
