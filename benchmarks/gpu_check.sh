#!/usr/bin/env bash
# What a GPU is asked, under 8 minutes: speed by hidden size and precision, then a whole trial.
# The data folder (MEANTIME_DATA) must hold ml-1m.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python}

$python -c 'import torch; print(torch.__version__, torch.cuda.get_device_name())'
for hidden in 64 128; do
  for precision in float32 bfloat16; do
    timeout 60 "$python" benchmarks/bench_training.py --device cuda --cases ml-1m --batch 256 \
      --batches 34 --hidden "$hidden" --precision "$precision" || echo "failed: $hidden $precision"
  done
done
"$python" benchmarks/full_trial.py --device cuda --seconds 200
