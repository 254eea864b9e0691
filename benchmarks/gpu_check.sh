#!/usr/bin/env bash
# What a GPU is asked, under 8 minutes: speed by hidden size and precision, then a whole trial.
# The data folder (MEANTIME_DATA) must hold ml-1m. DEVICE=cpu with SHORT=1 tries the script itself.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
device=${DEVICE:-cuda}
bench=(--cases ml-1m --batch 256 --batches 34)
trial=(--seconds 200)
if [[ ${SHORT:-} ]]; then
  bench=(--cases ml-100k --batch 4 --batches 1 --repeats 1)
  trial=(--dataset ml-100k --length 10 --seconds 1)
fi

"$python" -c 'import torch; print(torch.__version__, torch.cuda.device_count(), "GPUs")'
for hidden in 64 128; do
  for precision in float32 bfloat16; do
    timeout "${LIMIT:-60}" "$python" benchmarks/bench_training.py --device "$device" "${bench[@]}" \
      --hidden "$hidden" --precision "$precision" || echo "failed: $hidden $precision"
  done
done
"$python" benchmarks/full_trial.py --device "$device" "${trial[@]}"
