# SPDX-License-Identifier: Apache-2.0
"""Container images: a thin layer on the official image, or a whole image on Debian."""
