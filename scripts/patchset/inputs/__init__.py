# SPDX-License-Identifier: Apache-2.0
"""Inputs from outside: pinned by sha256 and verified before they are read."""
