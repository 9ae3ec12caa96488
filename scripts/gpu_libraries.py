"""Which libraries dsstne finds on this machine, and in which forms the output layer can be computed with them.

    python3 scripts/gpu_libraries.py

Python and Go programs look for libraries on their own, so both are asked: `dsstne.doctor()`, and opbench, which
computes a small output in each form and says which one it was. The program fails if a library is missing, and says
where it was looked for.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "bench"))
import gpu_machine
from measure.alternate import UnavailableError
from measure.ops import Op

import dsstne

FORMS = {"float32": ("simple", "chunked"), "bfloat16": ("simple", "fused", "chunked")}
SHAPE = {"op": "output", "backend": "cuda", "loss": "softmax", "units": 64, "rows": 32, "items": 200, "row_length": 5}


def main() -> int:
    """Prints what was found; the last line is what is missing."""
    missing = []
    for extra in dsstne.doctor().engine.get("extras", ()):
        print(f"Python: {extra['name']} {extra.get('version') or extra['missing']}")
        if "missing" in extra:
            missing.append(extra["missing"])
    gpu_machine.use_environment()
    for precision, forms in FORMS.items():
        for form in ("", *forms):
            try:
                with Op(**SHAPE, precision=precision, form=form) as op:
                    op.run(3)
                    found = op.form
                if form and form != found.split(",")[0]:
                    missing.append(f"asked for {form}, opbench computed {found}")
            except UnavailableError as error:
                found = f"not available: {error}"
                missing.append(f"opbench, {precision}, {form or 'any form'}: {error}")
            print(f"opbench: {precision}, {form or 'the form that is chosen'}: {found}")
    print("; ".join(dict.fromkeys(missing)) or "nothing is missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
