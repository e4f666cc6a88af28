# SPDX-License-Identifier: Apache-2.0
"""What names a release for ever: its files by sha256, and the third-party sources that its build names."""
