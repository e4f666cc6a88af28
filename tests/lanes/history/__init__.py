# SPDX-License-Identifier: Apache-2.0
"""What a model is shown of its own replies, and what a prefix cache loses by it."""

#: Raised whenever a figure can change.
SUITE_VERSION = 1
LANE = "history"
SURFACES = ("chat", "responses", "messages")
#: Tokens of a cache's blocks: of plain attention, and of hybrid models of two sizes.
BLOCKS = (16, 528, 1056)
#: Turns of a session; each tenth is an answer, which another question follows.
TURNS = 30
