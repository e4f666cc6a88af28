# SPDX-License-Identifier: Apache-2.0
"""Wheels of a patched release, and the proof of what is inside one."""
