# Made by lumicontainer from the recipe 'pytorch-deepspeed' for the platform 'lumi-g' and the profile 'rocm-6.4.4'.
# It is complete, and needs neither a build context nor BuildKit: docker build -t pytorch-deepspeed - < Dockerfile
# Only lumicontainer build records the modes of the base's files: the check image/files may fail for some.
ARG BASE=docker.io/library/ubuntu:noble-20251013
FROM ${BASE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
LABEL org.opencontainers.image.title="pytorch-deepspeed" \
      org.opencontainers.image.description="PyTorch with DeepSpeed and Horovod over MPI" \
      org.opencontainers.image.version="rocm-6.4.4"

# layer: ubuntu (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: python (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: rocm (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: slingshot (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: mpich (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: rccl-plugin (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: pytorch (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: flash-attention (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: mpi4py (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: deepspeed (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: horovod (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: training-packages (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: bitsandbytes (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

ENV PYTHONNOUSERSITE="1"
ENV LANG="C.UTF-8"
ENV PYTORCH_ROCM_ARCH="gfx90a"
ENV HCC_AMDGPU_TARGET="gfx90a"
ENV GPU_ARCHS="gfx90a"
ENV GPU_TARGETS="gfx90a"
ENV AMDGPU_TARGETS="gfx90a"
ENV HIP_ARCHITECTURES="gfx90a"
ENV ROCM_PATH="/opt/rocm"
ENV FI_MR_CACHE_MONITOR="userfaultfd"
ENV FI_CXI_DISABLE_HOST_REGISTER="1"
ENV FI_CXI_DEFAULT_TX_SIZE="2048"
ENV MPIR_CVAR_CH4_NETMOD="ofi"
ENV MPIR_CVAR_ENABLE_GPU="1"
ENV MPIR_CVAR_CH4_OFI_ENABLE_HMEM="1"
ENV MPIR_CVAR_CH4_OFI_ENABLE_MR_HMEM="1"
ENV DS_ACCELERATOR="cuda"
ENV PATH="/opt/rocm/bin:/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENTRYPOINT ["/opt/lumicontainer/bin/lumi-entry"]
