# Lookahead with its bundled models: docker build -t lookahead . && docker run -p 7860:7860 lookahead
# To show a revision on the page: docker build --build-arg REVISION=$(git rev-parse HEAD) -t lookahead .
# With SmolLM2, which answers questions: docker build --build-arg SMOL=1 -t lookahead .
FROM python:3.12-slim

# "cpu", or a CUDA version such as "cu130": uv selects the index of that PyTorch build. Empty: the default package index.
ARG TORCH_BACKEND=cpu
ARG SMOL=
WORKDIR /app
COPY requirements.txt requirements-smol.txt ./
RUN pip install --no-cache-dir uv==0.13.8 \
    && uv pip install --system --no-cache ${TORCH_BACKEND:+--torch-backend=${TORCH_BACKEND}} -r requirements.txt \
    && if [ -n "$SMOL" ]; then pip install --no-cache-dir --no-deps -r requirements-smol.txt; fi \
    && pip uninstall --yes uv

COPY app.py README.md LICENSE ./
COPY lookahead lookahead
COPY docs docs
COPY assets assets
# COPY keeps file modes, and weights may be readable by their owner only. The import compiles the packages that the app uses.
# Kernels are compiled for four kinds of processors, so that the first start of a container compiles none.
RUN find . -not -perm -444 -exec chmod a+rX {} + \
    && python -m compileall -q lookahead app.py \
    && python -c "from lookahead.page import serve" \
    && python -c "from lookahead.kernels import first_start; first_start.prebuild('/app/kernels')" \
    && chmod -R a+rX kernels \
    && useradd --create-home --uid 1000 app \
    && if [ -n "$SMOL" ]; then su app -c "python -m lookahead fetch smol"; fi
USER app

# The app writes nothing below /app, so /app may be mounted read-only.
ARG REVISION=
ENV GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_TEMP_DIR=/tmp/gradio \
    HF_HUB_DISABLE_TELEMETRY=1 \
    LOOKAHEAD_KERNELS=/app/kernels \
    LOOKAHEAD_MODELS=${SMOL:+pocket,smol} \
    LOOKAHEAD_REVISION=${REVISION} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/healthz', timeout=4)"]
CMD ["python", "app.py"]
