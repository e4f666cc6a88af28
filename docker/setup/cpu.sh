# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# What the cpu target needs beside the locked wheels; run while the image is built.
set -eu
# Lets a torchvision that was built for CUDA be imported beside a CPU build of torch.
cp /mnt/setup/torchvision_without_cuda.py /mnt/setup/torchvision_without_cuda.pth \
    /opt/venv/lib/python3.11/site-packages/
