# SPDX-License-Identifier: Apache-2.0
"""Run in the toolchain's Python, in vLLM's tree: its own build backend, for some of its extension modules.

    python driver.py configure|build MODULE,MODULE,... FOLDER-FOR-OBJECTS FOLDER-FOR-MODULES

``setup.py`` is run as it stands; what it hands to setuptools is narrowed to the modules asked for.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext


def main() -> None:
    """Call ``setup.py build_ext`` with a ``setup`` that leaves out what was not asked for."""
    action, names, objects, out = sys.argv[1:]
    wanted = names.split(",")
    real = setuptools.setup

    def narrowed(**arguments: Any) -> None:
        known = {extension.name.rpartition(".")[2]: extension for extension in arguments["ext_modules"]}
        if lacking := [name for name in wanted if name not in known]:
            sys.exit(f"setup.py builds no {', '.join(lacking)} here; it builds {', '.join(known)}")
        for extension in known.values():
            # An optional module that fails is left out without a word; these were asked for.
            extension.optional = False
        command: Any = type("build_some", (arguments["cmdclass"]["build_ext"],), {})
        # vLLM's run() copies the folders of external projects afterwards; setuptools' builds the extensions.
        command.run = build_ext.run
        if action == "configure":
            command.build_extensions = _configure
        arguments |= {
            "ext_modules": [known[name] for name in wanted],
            "rust_extensions": [],
            "cmdclass": {"build_ext": command},
        }
        real(**arguments)

    setuptools.setup = narrowed
    sys.argv = ["setup.py", "build_ext", "--build-temp", objects, "--build-lib", out]
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as when setup.py itself is run
    runpy.run_path("setup.py", run_name="__main__")


def _configure(command: Any) -> None:
    os.makedirs(command.build_temp, exist_ok=True)  # noqa: PTH103
    command.configure(command.extensions[0])


if __name__ == "__main__":
    main()
