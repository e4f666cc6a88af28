# SPDX-License-Identifier: Apache-2.0
"""Inputs from outside: pinned by sha256, downloaded once, verified before they are read."""
