# SPDX-License-Identifier: Apache-2.0
"""Run vLLM's ``setup.py build_ext`` for some of its extension modules.

Called in vLLM's tree by the toolchain's Python: MODULE,... OBJECTS-FOLDER OUT-FOLDER.
"""

import os
import runpy
import sys
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext


def main() -> None:
    """Narrow what ``setup.py`` hands to setuptools to the chosen modules."""
    names, objects, out = sys.argv[1:]
    real = setuptools.setup

    def narrowed(**arguments: Any) -> None:
        by_name = {e.name.rpartition(".")[2]: e for e in arguments["ext_modules"]}
        chosen = [by_name[name] for name in names.split(",")]
        vllms = arguments["cmdclass"]["build_ext"]
        # vLLM's run() would copy the folders of other projects afterwards.
        command = type("build_some", (vllms,), {"run": build_ext.run})
        arguments |= {
            "ext_modules": chosen,
            "rust_extensions": [],
            "cmdclass": {"build_ext": command},
        }
        real(**arguments)

    setuptools.setup = narrowed
    sys.argv = ["setup.py", "build_ext", "--build-temp", objects, "--build-lib", out]
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as when setup.py itself is run
    runpy.run_path("setup.py", run_name="__main__")


if __name__ == "__main__":
    main()
