# SPDX-License-Identifier: Apache-2.0
"""The command line: five modules by subject. A command ``new-patch`` is the function ``new_patch_command``."""
