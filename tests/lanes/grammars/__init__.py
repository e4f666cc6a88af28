# SPDX-License-Identifier: Apache-2.0
"""The grammar that a release gives a request, token by token, without a model."""

#: Raised whenever a figure can change.
SUITE_VERSION = 4
LANE = "grammars"
