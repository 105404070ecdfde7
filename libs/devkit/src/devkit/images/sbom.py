"""The contents of the images, from their lock files: a CycloneDX document each, and a list of licences.

python -m devkit.images.sbom DIR
"""

import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from devkit.charts.parts import VERSION
from devkit.docs.tables import table
from devkit.images.catalogue import Image, images
from streamstate.spark import jars

_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[a-z,]+\])?==(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """A package of an image. `sha256` is the hex digest of its file, for a package with a single file."""

    purl: PackageURL
    licence: str
    sha256: str = ""


def pins(lock: str) -> list[tuple[str, str]]:
    """Name and version of each package of a lock file."""
    return [(name, version) for name, version in _PIN.findall(lock)]


def licence(package: str) -> str:
    """The licence in the metadata of an installed package; empty without a licence, or for a package not installed."""
    try:
        said = metadata(package)
    except PackageNotFoundError:
        return ""
    classifiers = [
        text.rpartition(" :: ")[2] for text in said.get_all("Classifier", []) if text.startswith("License ::")
    ]
    named = next(iter([*said.get_all("License-Expression", []), *said.get_all("License", [])]), "")
    # Some packages have the whole text in this field.
    return " AND ".join(classifiers) if "\n" in named or not named else named


def packages(image: Image) -> list[Package]:
    """The Python packages and jars of an image, by their names."""
    locked = {pin for lock in image.locks for pin in pins(lock.read_text())}
    python = [Package(PackageURL("pypi", name=name, version=version), licence(name)) for name, version in locked]
    java = [Package(_maven(jar), "Apache-2.0", jar.sha256) for jar in jars.pinned()]
    return sorted(python + (java if image.target == "stream" else []), key=lambda package: package.purl.name)


def bill(image: Image) -> Bom:
    """The document of an image."""
    bom = Bom(components=map(_component, packages(image)))
    whole = Component(type=ComponentType.CONTAINER, name=image.name, version=VERSION)
    bom.metadata.component = whole
    bom.register_dependency(whole, bom.components)
    return bom


def licences() -> str:
    """A table of the packages of all images, and the licence of each."""
    found = {package for image in images() for package in packages(image)}
    rows = sorted((package.purl.name, package.purl.version or "", package.licence) for package in found)
    return "# Licences\n\n" + table(("package", "version", "licence"), rows)


def _maven(jar: jars.Jar) -> PackageURL:
    group, name, version = jar.module.split(":")
    return PackageURL("maven", group, name, version)


def _component(package: Package) -> Component:
    purl = package.purl
    return Component(
        type=ComponentType.LIBRARY,
        group=purl.namespace,
        name=purl.name,
        version=purl.version,
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.sha256)] if package.sha256 else [],
        licenses=[LicenseFactory().make_from_string(package.licence)] if package.licence else [],
    )


def write(folder: Path) -> None:
    """Write `IMAGE.cdx.json` of each image, and `licences.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    for image in images():
        JsonV1Dot6(bill(image)).output_to_file(str(folder / f"{image.name}.cdx.json"), allow_overwrite=True, indent=1)
    (folder / "licences.md").write_text(licences())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m devkit.images.sbom DIR")
    write(Path(sys.argv[1]))
