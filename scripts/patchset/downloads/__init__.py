# SPDX-License-Identifier: Apache-2.0
"""What comes over the network: package indexes, files by sha256, archives unpacked within bounds."""
