#!/usr/bin/env python3
"""Makes the demo's data from Debian's public package index.

Rows are packages, items are the packages they depend on. Usage, on a Debian machine after `apt-get update`:

    python3 scripts/make_debian_data.py          # reads the index that apt keeps under /var/lib/apt/lists
    python3 scripts/make_debian_data.py --packages Packages.xz --release InRelease

The same index yields the same bytes. The format, UTF-8 text inside xz, is described in the README that is
written with it.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import hashlib
import lzma
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "python" / "dsstne" / "datasets" / "debian"
APT_LISTS = Path("/var/lib/apt/lists")
APT_HELPER = "/usr/lib/apt/apt-helper"  # reads every compression that apt uses, lz4 too
RELATIONS = ("Pre-Depends", "Depends", "Recommends")
NOT_A_NAME = re.compile(r"\([^)]*\)|\[[^\]]*\]|<[^>]*>|\s")  # versions, architectures, profiles

README = """\
# Debian package dependencies

`packages.txt.xz` is a matrix of {rows:,} packages (rows) and {items:,} packages that they depend on (items),
with {entries:,} entries, that is {mean:.1f} a row.

Source: the package index of Debian {version} ({codename}), section main, architecture {architecture},
published by the Debian project on {date}. The unpacked index has the SHA-256
`{digest}`.

Made by `scripts/make_debian_data.py`:

- An entry says that the package names the other one under {relations}. Of alternatives
  (`a | b`) the first counts; versions and architectures are left out. A virtual package that exactly one
  package provides is replaced by that package; other virtual packages keep their name.
- Rows with the same items as a row before them (in alphabetical order) are left out: what is hidden from one
  package would stand in plain sight in the other.
- Rows with fewer than {row_minimum} items and items with fewer than {item_minimum} rows are left out,
  repeatedly, until none is left.

The file is UTF-8 text: a line with the number of items; for each item a line `name<TAB>description`, the
most frequent item first; then for each package a line `name<TAB>description<TAB>items`, where items are
ascending numbers of items from 0, each written as the difference to the one before. Virtual packages have no
description.

Licence: names and dependencies are facts. The one-line descriptions are quoted from the packages' own
control files; all packages of Debian's main section, and with them these texts, are free to use, change and
distribute under the Debian Free Software Guidelines. The copyright of each text is its package's
maintainers', under the package's licence.
"""


@dataclass
class Package:
    """What the index says of a package."""

    name: str
    description: str
    needs: list[str] = field(default_factory=list)
    provides: list[str] = field(default_factory=list)


def read_text(path: Path) -> str:
    """The text of a file that may be compressed."""
    data = path.read_bytes()
    if path.suffix == ".lz4":
        data = subprocess.run([APT_HELPER, "cat-file", str(path)], check=True, capture_output=True).stdout
    else:
        unpack = {".xz": lzma.decompress, ".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix)
        data = unpack(data) if unpack else data
    return data.decode("utf-8")


def find_index(suite: str, architecture: str) -> tuple[Path, Path]:
    """The index and the release file of a suite among the lists that apt keeps."""
    found = sorted(APT_LISTS.glob(f"*_dists_{suite}_main_binary-{architecture}_Packages*"))
    if not found:
        sys.exit(f"{APT_LISTS} has no index of {suite} {architecture}: run apt-get update, or give --packages")
    return found[0], Path(str(found[0]).split("_main_binary-")[0] + "_InRelease")


def fields_of(stanza: str) -> dict[str, str]:
    """The fields of one stanza. Continuation lines hold nothing that is needed here."""
    fields = {}
    for line in stanza.splitlines():
        key, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields[key] = value.strip()
    return fields


def names(relation: str) -> list[str]:
    """Package names of a relation field; the first of alternatives, without restrictions."""
    firsts = (NOT_A_NAME.sub("", clause.split("|")[0]).split(":")[0] for clause in relation.split(","))
    return [name for name in firsts if name]


def read_packages(text: str, relations: list[str]) -> dict[str, Package]:
    """The packages of an index, by name."""
    packages = {}
    for stanza in text.strip().split("\n\n"):
        fields = fields_of(stanza)
        name = fields["Package"]
        packages[name] = Package(
            name,
            fields.get("Description", ""),
            [need for relation in relations for need in names(fields.get(relation, ""))],
            names(fields.get("Provides", "")),
        )
    return packages


def resolve(packages: dict[str, Package]) -> dict[str, frozenset[str]]:
    """What each package needs, virtual packages with a single provider replaced by it."""
    providers: dict[str, set[str]] = {}
    for package in packages.values():
        for virtual in package.provides:
            providers.setdefault(virtual, set()).add(package.name)

    def real(name: str) -> str:
        candidates = providers.get(name, set())
        return next(iter(candidates)) if name not in packages and len(candidates) == 1 else name

    return {p.name: frozenset(real(need) for need in p.needs) - {p.name} for p in packages.values()}


def distinct(rows: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Only the first, by name, of all rows with the same items."""
    first = {}
    for name in sorted(rows):
        first.setdefault(rows[name], name)
    return {name: items for items, name in first.items()}


def prune(rows: dict[str, frozenset[str]], row_minimum: int, item_minimum: int) -> dict[str, frozenset[str]]:
    """Leaves out short rows, rare items and repeated rows until nothing changes."""
    while True:
        count = Counter(item for items in rows.values() for item in items)
        kept = {name: frozenset(i for i in items if count[i] >= item_minimum) for name, items in rows.items()}
        kept = distinct({name: items for name, items in kept.items() if len(items) >= row_minimum})
        if kept == rows:
            return rows
        rows = kept


def encode(rows: dict[str, frozenset[str]], packages: dict[str, Package]) -> str:
    """The text of the data file."""
    count = Counter(item for items in rows.values() for item in items)
    order = sorted(count, key=lambda item: (-count[item], item))
    number = {item: i for i, item in enumerate(order)}

    def line(name: str, *more: str) -> str:
        description = packages[name].description if name in packages else ""
        return "\t".join((name, description.replace("\t", " "), *more)) + "\n"

    def differences(items: frozenset[str]) -> str:
        numbers = sorted(number[item] for item in items)
        return " ".join(str(b - a) for a, b in zip([0, *numbers], numbers, strict=False))

    lines = [f"{len(order)}\n", *(line(item) for item in order)]
    lines += [line(name, differences(rows[name])) for name in sorted(rows)]
    return "".join(lines)


def main() -> None:
    """Reads the index and writes the data and its README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, help="Packages, also .xz, .gz, .bz2, .lz4 (default: apt's)")
    parser.add_argument("--release", type=Path, help="its InRelease file, for the date and the version")
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--architecture", default="amd64")
    parser.add_argument("--relations", nargs="+", default=["Pre-Depends", "Depends"], choices=RELATIONS)
    parser.add_argument("--row-minimum", type=int, default=4, help="items a row needs to be kept")
    parser.add_argument("--item-minimum", type=int, default=4, help="rows an item needs to be kept")
    parser.add_argument("--output", type=Path, default=FOLDER)
    args = parser.parse_args()

    index, release = args.packages, args.release
    if index is None:
        index, release = find_index(args.suite, args.architecture)
    text = read_text(index)
    about = fields_of(read_text(release)) if release else {}
    packages = read_packages(text, args.relations)
    rows = prune(resolve(packages), args.row_minimum, args.item_minimum)
    entries, items = sum(map(len, rows.values())), len(frozenset().union(*rows.values()))

    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "packages.txt.xz"
    path.write_bytes(lzma.compress(encode(rows, packages).encode(), preset=9 | lzma.PRESET_EXTREME))
    readme = README.format(
        rows=len(rows),
        items=items,
        entries=entries,
        mean=entries / len(rows),
        version=about.get("Version", "(unknown release)"),
        codename=about.get("Codename", args.suite),
        architecture=args.architecture,
        date=about.get("Date", "(unknown date)"),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        relations=", ".join(args.relations),
        row_minimum=args.row_minimum,
        item_minimum=args.item_minimum,
    )
    (args.output / "README.md").write_text(readme)
    size = path.stat().st_size
    print(f"{path}: {len(rows):,} packages, {items:,} items, {entries:,} entries, {size:,} bytes")


if __name__ == "__main__":
    main()
