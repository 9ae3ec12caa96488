"""Reports on a machine's CUDA devices: a page for people beside all values as JSON, to which later calls add.

What there is to do can take longer than one call on a borrowed machine may, so a call with --only goes on where the one
before it on that day ended. The earlier report is the one in the folder that the new one is written to, or, if there is
none and --earlier names another folder, the newest there about the same device.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def earlier(page: Path, folder: Path | None = None) -> dict[str, Any]:
    """The values beside a page of this name, or else in the other folder; none if there is no such page yet."""
    values = page.with_suffix(".json")
    if not values.exists() and folder is not None:
        name = re.sub(r"\d{4}-\d\d-\d\d", "????-??-??", values.name)
        values = max(folder.glob(name), default=values)
    found: dict[str, Any] = json.loads(values.read_text()) if values.exists() else {}
    return found


def write(page: Path, text: str, values: dict[str, Any]) -> None:
    """Writes both."""
    keep(page.with_suffix(".json"), json.dumps(values, indent=1) + "\n")
    keep(page, text)


def keep(path: Path, text: str) -> None:
    """Writes a file. A report is passed on: it names no folders of the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(str(ROOT), ".").replace(str(Path.home()), "~"))
