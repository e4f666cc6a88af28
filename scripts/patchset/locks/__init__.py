# SPDX-License-Identifier: Apache-2.0
"""What an image or a toolchain installs: locked with hashes, and fetched."""
