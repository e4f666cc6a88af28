# SPDX-License-Identifier: Apache-2.0
"""A release's own tests of the parsers and of the serving code, on the stock and on
the patched tree.
"""
