"""Writes the charts, and `skaffold.yaml`: `make docs`."""

from devkit.charts import skaffold
from devkit.charts.files import FOLDER, files, links

for path, text in files().items():
    (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
    (FOLDER / path).write_text(text)
for path, target in links().items():
    (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
    (FOLDER / path).unlink(missing_ok=True)
    (FOLDER / path).symlink_to(target)
skaffold.PATH.write_text(skaffold.text())
