# SPDX-License-Identifier: Apache-2.0
"""The ordered diffs of a release, the stock tree below them, and the patched tree."""
