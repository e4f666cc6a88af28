"""``python -m conformance.writers``: write all case files."""

from __future__ import annotations

from conformance.case import CASES, dump
from conformance.writers.all import every


def main() -> None:
    """Write what changed."""
    for case in every():
        path, text = CASES / f"{case.name}.json", dump(case)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(case.name)


if __name__ == "__main__":
    main()
