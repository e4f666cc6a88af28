# SPDX-License-Identifier: Apache-2.0
"""What runs on the host: joined into one script, of the standard library alone."""
