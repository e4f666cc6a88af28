# SPDX-License-Identifier: Apache-2.0
"""What the check of a bundle is run with."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bundle", help="the bundle's folder; default: build/gpu/bundle")
    parser.addoption("--python", help="a Python 3.12; default: one that uv finds")
    parser.addoption(
        "--host", help="an environment that has what the host has; default: made in build/gpu/host"
    )
