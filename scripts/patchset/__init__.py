# SPDX-License-Identifier: Apache-2.0
"""From a pinned vLLM release and a series of diffs to wheels and images.

One direction, no step reaching back::

    pin -> fetch -> stock tree -> apply -> patched tree -> wheel -> image
"""
