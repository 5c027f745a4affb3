# syntax=docker/dockerfile:1
# Wheels are built where compilers may be, and run where nothing else is: no pip, no source, no root.
#
#   docker build -t citewell .                                              lexical, on either database
#   docker build -t citewell --build-arg EXTRAS=postgres,embeddings .       with vectors
#   … --build-arg MODEL=BAAI/bge-base-en-v1.5                               and a model from its hub in the image
#   … --build-context model=./a-model-folder                                or one from a folder
ARG PYTHON=3.11.14-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY service service
COPY embeddings embeddings
COPY eval eval
RUN pip wheel --no-deps --wheel-dir /wheels .
# TORCH_ARGS goes to pip when torch is installed: name an index of CPU builds there, or several gigabytes of CUDA
# may come along.
ARG EXTRAS=postgres
ARG TORCH_ARGS=""
RUN python -m venv --without-pip /opt/citewell \
 && case ",$EXTRAS," in *,embeddings,*) \
      pip --python /opt/citewell/bin/python install -c constraints.txt $TORCH_ARGS torch ;; esac \
 && pip --python /opt/citewell/bin/python install -c constraints.txt "$(ls /wheels/citewell-*.whl)[$EXTRAS]"

FROM build AS download
ARG MODEL=""
ARG MODEL_REVISION=""
RUN mkdir /model \
 && if [ -n "$MODEL" ]; then /opt/citewell/bin/python -c "import sys; from huggingface_hub import snapshot_download; \
      snapshot_download(sys.argv[1], revision=sys.argv[2] or None, local_dir='/model', \
      ignore_patterns=['onnx/*', 'openvino/*', '*.onnx', '*.h5', '*.ot', '*.msgpack'])" "$MODEL" "$MODEL_REVISION"; fi

# A stage of its own, so that --build-context model=FOLDER can stand in for it.
FROM scratch AS model
COPY --from=download /model/ /

FROM python:${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="citewell" \
      org.opencontainers.image.description="Hybrid passage retrieval with citations that never go stale" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Numbers and no names, so that an orchestrator can see that this is not root. A named volume takes over the owner
# of the folder that it is mounted on.
RUN groupadd --gid 10001 citewell \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin citewell \
 && mkdir /data /models \
 && chown 10001:10001 /data /models
COPY --from=build /opt/citewell /opt/citewell
# A model in the image is used with CITEWELL_EMBEDDING_MODEL=/opt/model.
COPY --from=model / /opt/model/
# Written to are /data (database, indexes), /models (what a hub gives) and /tmp (large requests), nothing else.
ENV PATH=/opt/citewell/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_CACHE_HOME=/tmp/.cache \
    HF_HOME=/models \
    CITEWELL_DATA_DIR=/data \
    CITEWELL_HOST=0.0.0.0 \
    CITEWELL_PORT=8000
USER 10001:10001
WORKDIR /data
VOLUME ["/data", "/models"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['CITEWELL_PORT'] + '/health/live', timeout=2)"]
# Listens to other machines, and therefore refuses to start until an API key was made: citewell keys create NAME.
ENTRYPOINT ["citewell"]
CMD ["serve"]
