"""skaffold.yaml: what skaffold takes, and all that there is."""

import json
import os
from pathlib import Path

import yaml
from jsonschema import Draft7Validator

from devkit.charts import skaffold
from tests.charts.rendering import render


def test_it_is_what_the_source_says() -> None:
    assert skaffold.PATH.read_text() == skaffold.text(), "run make docs"
    assert yaml.safe_load(skaffold.text()) == skaffold.document()


def test_skaffold_knows_every_field() -> None:
    schema = json.loads(Path(os.environ["SKAFFOLD_SCHEMA"]).read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(skaffold.document())] == []
    wrong = skaffold.document() | {"bild": {}}
    assert list(Draft7Validator(schema).iter_errors(wrong))


def test_every_image_that_a_release_names_is_built() -> None:
    built = {artifact["image"] for artifact in skaffold.document()["build"]["artifacts"]}
    for release in skaffold.document()["deploy"]["helm"]["releases"]:
        for value, image in release.get("setValueTemplates", {}).items():
            assert image.removeprefix("{{.IMAGE_FULLY_QUALIFIED_").removesuffix("}}").replace("_", "-") in built
            assert render(release["name"], given={value: "image:1"})


def test_the_folder_of_charts_stays_as_it_is() -> None:
    """Unless told not to, skaffold adds an archive of the library chart, whose templates are then used for ever."""
    for release in skaffold.document()["deploy"]["helm"]["releases"]:
        depends = "dependencies" in yaml.safe_load(Path(release["chartPath"], "Chart.yaml").read_text())
        assert release.get("skipBuildDependencies", False) == depends
