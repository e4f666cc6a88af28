# SPDX-License-Identifier: Apache-2.0
"""Each patch's proof, and the patch at which a verdict changes."""
