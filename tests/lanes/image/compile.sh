#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compile what vLLM's just-in-time compilers would: C with Python.h, C++, and for cuda a
# kernel linked with the runtime.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf '#include <Python.h>\nint answer(void) { return PY_MAJOR_VERSION; }\n' \
    > launcher.c
include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
gcc -shared -fPIC "-I$include" launcher.c -o launcher.so
printf '#include <vector>\nint main() { return std::vector<int>(3).size() - 3; }\n' \
    > inductor.cpp
g++ -std=c++17 -fopenmp inductor.cpp -o inductor && ./inductor
if [ "$1" = cuda ]; then
    cat > kernel.cu <<'CODE'
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <nvrtc.h>
#include <cublas_v2.h>
#include <curand_kernel.h>
#include <cub/cub.cuh>
__global__ void twice(float *values) { values[threadIdx.x] *= 2; }
int main() { int version = 0; return cudaRuntimeGetVersion(&version); }
CODE
    "$CUDA_HOME/bin/nvcc" -std=c++17 -gencode arch=compute_90a,code=sm_90a kernel.cu \
        -L"$CUDA_HOME/lib64" -lcudart -lnvrtc -lcublas -o kernel
    LD_LIBRARY_PATH="$CUDA_HOME/lib64" ./kernel
fi
