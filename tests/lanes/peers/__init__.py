# SPDX-License-Identifier: Apache-2.0
"""Other engines' parsers of this format on the suite's outputs."""

from conformance import SUITE_VERSION as SUITE_VERSION
