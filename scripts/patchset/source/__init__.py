# SPDX-License-Identifier: Apache-2.0
"""Compiled extension modules of a patched release: what goes in, the tools, the run, and what came out."""
