# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# What the cuda target needs beside the locked wheels; run while the image is built.
#
# FlashInfer, DeepGEMM, TileLang and Humming compile kernels when they are first used.
# The lock brings the compiler: humming-kernels and tilelang require nvidia-cuda-nvcc
# (with nvvm, crt, cccl), torch the libraries and their headers, all in one folder of
# site-packages. These programs look for a toolkit as NVIDIA's installer lays it out,
# though.
set -eu
toolkit=$(echo /opt/venv/lib/python3.11/site-packages/nvidia/cu[0-9]*)
test -x "$toolkit/bin/nvcc"

# The toolkit's usual place, which is also CUDA_HOME.
ln -s "$toolkit" /usr/local/cuda

# lib64 is where they pass to the linker as -L; wheels have lib.
ln -s lib "$toolkit/lib64"

# -lcudart wants libcudart.so; wheels have libcudart.so.13 only.
for library in "$toolkit"/lib/lib*.so.*; do
    plain=${library%%.so.*}.so
    test -e "$plain" || ln -s "${library##*/}" "$plain"
done

# FlashInfer links with -lcuda, the driver's library: it comes with the GPU at run time,
# by the name libcuda.so.1. An empty one of that name satisfies the linker, as the stub
# of NVIDIA's toolkit does.
mkdir "$toolkit/lib/stubs"
echo | gcc -shared -x c - -Wl,-soname,libcuda.so.1 -o "$toolkit/lib/stubs/libcuda.so"
