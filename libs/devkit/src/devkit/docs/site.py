"""The documents in the form of MkDocs, for `make site`.

Documents keep their paths, so that links between documents hold. A linked file or folder that is no document gets a
page of its own: with the content of the file, or a list of the folder's files.
"""

import re
import shutil
import sys
from functools import partial
from os.path import normpath
from pathlib import Path

PAGES = ("*.md", "charts/README.md", "docs/**/*.md", "libs/*/README.md", "services/*/README.md")
LINK = re.compile(r"\]\(([^)\s#:]*)(#[^)\s]*)?\)")
"""A link within the clone: path and #anchor; either may be empty."""

_IMAGES = (".svg", ".png")


def pages() -> list[Path]:
    """The documents of the clone, by their paths."""
    return sorted({page for pattern in PAGES for page in Path().glob(pattern)})


def write(folder: Path) -> None:
    """Write all documents and their link targets into `folder`, after emptying the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages():
        _write(folder / page, LINK.sub(partial(_linked, page, folder), page.read_text()))


def _linked(page: Path, folder: Path, link: re.Match[str]) -> str:
    """A link of `page` in `folder`, after writing its target. A broken link stays: MkDocs reports broken links."""
    path, anchor = link[1], link[2] or ""
    target = Path(normpath(page.parent / path))
    if not path or target.suffix == ".md" or not target.exists():
        return link[0]
    if target.suffix in _IMAGES:
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, folder / target)
        return link[0]
    if target.is_dir():
        if not (target / "README.md").exists():
            _write(folder / target / "README.md", _listed(target))
        return f"]({path}/README.md{anchor})"
    shown = f"# {target.name}\n\n`{target}`\n\n```{target.suffix[1:]}\n{target.read_text()}```\n"
    _write(folder / f"{target}.md", f"---\nsearch:\n  exclude: true\n---\n{shown}")
    return f"]({path}.md{anchor})"


def _listed(target: Path) -> str:
    files = sorted(path.name for path in target.iterdir() if path.is_file())
    return "\n".join([f"# {target}\n", *(f"- `{name}`" for name in files), ""])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
