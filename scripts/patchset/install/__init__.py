# SPDX-License-Identifier: Apache-2.0
"""A patched release where it is installed: patched in place, and asked which patches are live."""
