# SPDX-License-Identifier: Apache-2.0
"""The command line, one module a command: each holds a click command named ``command``."""
