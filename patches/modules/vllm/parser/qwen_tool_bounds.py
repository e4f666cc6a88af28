# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Bounds on what a model's output or a request's schema can make us do.

They are those of the section *Bounds* in docs/format.md, in its order.  What goes
beyond one is read as if its rule were not there.
"""

# Of a frame: characters, but for the last two.
MAX_GAP = 256  # white space between two tags
MAX_TEXT = 1024  # other text there
MAX_NAME = 128
MAX_SPACE = 4  # white space at one place within a tag
MAX_PARAMETER_ENDS = 5  # of one value, given more than once
MAX_FUNCTIONS = 3  # of one opening, given more than once

# Of an answer.
MAX_REREADS = 8  # of what is never complete
MAX_LINE = 1024  # characters of a line that are kept

# Of a value: characters.
MAX_JSON = 65_536  # whose strings hold tags
MAX_PYTHON = 65_536
MAX_SCALAR = 1_000  # where a string is admitted

# Of a schema.
MAX_DEPTH = 64
MAX_REFS = 16  # that lead on to another
MAX_REF = 1_024  # characters
MAX_REQUIRED = 256  # parameters of a tool; more are optional
MAX_CHECKS = 20_000  # of one value
