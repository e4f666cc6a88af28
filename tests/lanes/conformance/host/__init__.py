# SPDX-License-Identifier: Apache-2.0
"""The tree adapter's inner half: runs in a process of its own, with a release's
sources on its path.
"""

import os

SET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
os.environ.update({**SET, **os.environ})
