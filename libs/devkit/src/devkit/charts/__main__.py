"""Writes `values.yaml` and `values.schema.json` of every chart, and `skaffold.yaml`: `make docs`."""

from devkit.charts import skaffold
from devkit.charts.files import FOLDER, files

for path, text in files().items():
    (FOLDER / path).write_text(text)
skaffold.PATH.write_text(skaffold.text())
