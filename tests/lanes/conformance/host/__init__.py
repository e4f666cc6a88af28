# SPDX-License-Identifier: Apache-2.0
"""The tree adapter's inner half: runs in a process of its own, with a release's
sources on its path.
"""

import os

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
