"""Writes `values.yaml` and `values.schema.json` of every chart: `make docs`."""

from devkit.charts.files import FOLDER, files

for path, text in files().items():
    (FOLDER / path).write_text(text)
