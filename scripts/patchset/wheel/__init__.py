# SPDX-License-Identifier: Apache-2.0
"""Patched wheels: the official one with the series' files, and the proof that it is."""
