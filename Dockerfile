# Two stages: wheels are built where compilers may be, and run where nothing else is.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY service service
COPY embeddings embeddings
COPY eval eval
# EXTRAS="postgres" for a lexical service, "postgres,embeddings" for vectors. TORCH_ARGS goes to pip when torch is
# installed: name an index of CPU builds there, or several gigabytes of CUDA may come along.
ARG EXTRAS=postgres
ARG TORCH_ARGS=""
RUN python -m venv /opt/citewell \
 && /opt/citewell/bin/pip install --no-cache-dir --upgrade pip \
 && case ",$EXTRAS," in *,embeddings,*) \
      /opt/citewell/bin/pip install --no-cache-dir $TORCH_ARGS torch==2.13.0 ;; esac \
 && /opt/citewell/bin/pip install --no-cache-dir -c constraints.txt ".[$EXTRAS]"

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --create-home --home-dir /home/citewell citewell \
 && mkdir /data && chown citewell:citewell /data
COPY --from=build /opt/citewell /opt/citewell
ENV PATH=/opt/citewell/bin:$PATH CITEWELL_DATA_DIR=/data CITEWELL_HOST=0.0.0.0 PYTHONUNBUFFERED=1
USER citewell
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health/live', timeout=2)"]
# There are no API keys in this version: publish the port to a trusted network only.
ENTRYPOINT ["citewell"]
CMD ["serve", "--allow-remote"]
