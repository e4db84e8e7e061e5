# The image of latentd: serves the demo checkpoint on port 50051, or --base=DIR of a volume.
#
#   deploy/image                         (or: docker build -t latentd . with docker, podman or buildah)
#   docker run --rm --read-only -v latentd-cache:/cache -p 50051:50051 latentd:0.1.0
#
# With DEVICE=cuda (deploy/image --cuda) it computes on an NVIDIA GPU, and the host brings nothing but the driver and NVIDIA's
# container runtime:
#
#   docker run --rm --read-only --gpus all -v latentd-cache:/cache -p 50051:50051 latentd:0.1.0-cuda
#
# It runs as user 65532 on a read-only root file system; only /cache is written to. Whether it serves, `latent
# health` in it says (exit code 0), and so does grpc.health.v1 from outside.
# BASE is Debian 12; another registry's copy of it, or one made by debootstrap, does as well.
ARG BASE=debian:bookworm-slim
# cpu or cuda
ARG DEVICE=cpu

FROM ${BASE} AS build
ARG DEVICE
WORKDIR /src/project
# First what changes least: Debian's packages, LibTorch and CUDA.
COPY deploy/steps.sh deploy/dependencies deploy/
# Nothing of this stage is left in the image but what cmake --install brings.
RUN if [ "$DEVICE" = cuda ]; then deploy/dependencies --cuda; else deploy/dependencies; fi
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY proto proto
COPY third_party third_party
COPY core core
COPY server server
COPY client client
COPY deploy/build deploy/
RUN if [ "$DEVICE" = cuda ]; then deploy/build --cuda; else deploy/build --no-cuda; fi
COPY deploy/demo-model deploy/demo-model
RUN cmake --install build --prefix /opt/latentd --strip \
 && if [ "$DEVICE" = cuda ]; then cmake --install build --prefix /opt/latentd --component cuda; fi

FROM ${BASE} AS runtime
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      libgrpc++1.51 libprotobuf32 libdnnl2 libspdlog1.10 libpng16-16 libjpeg62-turbo libwebp7 libvpx7 libdeflate0 libutf8proc2 libxxhash0 \
      libprometheus-cpp-core1.0 libcivetweb1 libssl3 \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && mkdir --mode=0777 /cache

# The image brings the list of what is in it: /opt/latentd/share/doc/latentd/sbom.spdx.json.
FROM build AS contents
COPY deploy/sbom deploy/
COPY --from=runtime /var/lib/dpkg /image/var/lib/dpkg
COPY --from=runtime /usr/share/doc /image/usr/share/doc
RUN mkdir /image/opt \
 && ln -s /opt/latentd /image/opt/latentd \
 && deploy/sbom --compiled-in nlohmann-json3-dev --compiled-in libboost1.74-dev "$(build/server/latentd --version | cut -d ' ' -f 2)" /image >sbom.json \
 && mv sbom.json /opt/latentd/share/doc/latentd/sbom.spdx.json

FROM runtime AS cpu
COPY --from=contents /opt/latentd /opt/latentd
# XDG_CACHE_HOME: compiled graphs are kept in /cache/latentd, which latentd makes.
ENV PATH=/opt/latentd/bin:/usr/local/bin:/usr/bin:/bin XDG_CACHE_HOME=/cache HOME=/tmp
USER 65532:65532
VOLUME /cache
EXPOSE 50051
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["latent", "health"]
ENTRYPOINT ["latentd"]
# Flags given to `docker run` take the place of this one; a port that is published wants --listen=0.0.0.0:50051 then too.
CMD ["--listen=0.0.0.0:50051"]

FROM cpu AS cuda
# For NVIDIA's container runtime: all GPUs unless it is told which, and of the driver what computes.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# A first start times algorithms, for minutes perhaps.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15m CMD ["latent", "health"]
CMD ["--backend=cuda", "--listen=0.0.0.0:50051"]

FROM ${DEVICE}
