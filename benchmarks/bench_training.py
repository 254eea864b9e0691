"""An epoch of training: sequences per second, where the time goes, peak memory, share of sgemm.

    python benchmarks/bench_training.py [--json] [--cases ml-100k beauty] [--model sasrec] ..

Data sets are read by name from the product's data folder. Times are of one pass over `--batches`
batches (all of the epoch's if 0); `sgemm_share` is the matrix products that a training step really
does (counted by torch), per second of the whole step, over the rate of one large product measured
just before. On Amazon Beauty the same batches also go whole, padded to their longest.
"""

import argparse
import itertools
import json
import os
from collections import defaultdict
from dataclasses import replace

import torch
from measure import machine, peak_bytes, settle, sgemm_rate, timed
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from model.build import build, training_batches
from model.config import MODELS, DatasetConfig, EvaluationConfig, TrainingConfig
from model.data.batches import TrainingBatch
from model.data.prepare import PreparedData, load_prepared
from model.data.sources import data_folder
from model.evaluate import evaluate
from model.limits import LIMITS
from model.parts import parts
from model.randomness import numpy_generator, torch_generator
from model.results import PROTOCOLS
from model.train import gradient

CASES = {"ml-100k": (200, 64), "ml-1m": (200, 256), "beauty": (50, 256)}
"""Data set -> longest sequence, batch."""


class Bench:
    """A model, its data and its optimizer, and how an epoch of them is measured."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options, self.device = name, options, options.device
        self.length, batch = CASES[name]
        self.training = TrainingConfig(batch=options.batch or batch, precision=options.precision)
        self.data: PreparedData = load_prepared(DatasetConfig(name=name), data_folder(os.environ))
        self.config = config_of(options, self.length)
        rngs = numpy_generator(0, "order"), numpy_generator(0, "masks")
        self.drawn_by = [(rng, rng.bit_generator.state) for rng in rngs]
        # Once: drawing each user's pool of negatives is no part of an epoch.
        self.all_batches = training_batches(
            self.config,
            self.data,
            training=self.training,
            seed=0,
            order_rng=rngs[0],
            draw_rng=rngs[1],
        )
        self.model = build(self.config, self.data, seed=0).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        self.dropout = torch_generator(0, "dropout")
        self.masks = torch_generator(0, "masks of a part", device=self.device)

    def batches(self):
        """Return the batches of the first epoch, always the same."""
        for rng, state in self.drawn_by:
            rng.bit_generator.state = state
        return itertools.islice(iter(self.all_batches), self.options.batches or None)

    def epoch(self, *, cut: bool = True) -> int:
        """Train on the batches and return how many sequences they held."""
        n_sequences = 0
        for batch in self.batches():
            self.optimizer.zero_grad()
            if cut:
                gradient(self.model, batch, self.dropout, precision=self.training.precision)
            else:
                self.uncut_gradient(batch)
            self.step()
            n_sequences += len(batch.items)
        settle(self.device)
        return n_sequences

    def step(self) -> None:
        """Do what follows the gradient of a batch."""
        self.model.freeze_padding()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()

    def uncut_gradient(self, batch: TrainingBatch) -> None:
        """Take the gradient in parts as large as the limits allow, padded to the full length."""
        n_rows, time = batch.items.shape
        whole = {
            name: torch.zeros(n_rows, self.length, dtype=torch.int64)
            for name in ("items", "times", "days", "labels")
        }
        for name, tensor in whole.items():
            tensor[:, self.length - time :] = getattr(batch, name)
        whole["times"][:, : self.length - time] = batch.times[:, :1]
        n_chosen = int((batch.labels > 0).sum())
        size = max(1, LIMITS["cpu"].scores // self.length**2)
        for first in range(0, n_rows, size):
            part = replace(batch, **{k: v[first : first + size] for k, v in whole.items()})
            n = int((part.labels > 0).sum())
            (self.model.loss(part.to(self.device), self.masks) * (n / n_chosen)).backward()

    def shares(self) -> dict[str, float]:
        """Return seconds by kind of work, of one pass over the batches."""
        seconds: dict[str, float] = defaultdict(float)

        def spend(name, work):
            found = []
            seconds[name] += timed(lambda: (found.append(work()), settle(self.device)))
            return found[0]

        # What runs the blocks, without the loss.
        name = "_encode" if self.options.model == "meantime" else "hidden"
        encode = getattr(self.model, name)

        def spent(*given, **named):
            return spend("encode", lambda: encode(*given, **named))

        setattr(self.model, name, spent)
        batches = self.batches()
        kind = torch.device(self.device).type
        while (batch := spend("batches", lambda: next(batches, None))) is not None:
            self.optimizer.zero_grad()
            n_chosen = int((batch.labels > 0).sum())
            cut = spend(
                "batches",
                lambda b=batch: [
                    *parts(b, limits=LIMITS[kind], shared=self.model.tells_windows_apart)
                ],
            )
            for part, n in cut:
                part_here = spend("batches", lambda p=part: p.to(self.device))
                with torch.autocast(
                    kind, torch.bfloat16, enabled=self.training.precision == "bfloat16"
                ):
                    loss = spend("loss", lambda p=part_here: self.model.loss(p, self.masks))
                spend("backward", (loss * (n / n_chosen)).backward)
            spend("optimizer", self.step)
        delattr(self.model, name)
        seconds["forward"] = seconds.pop("encode")
        seconds["loss"] -= seconds["forward"]
        return dict(seconds)

    def evaluation(self, split: str, protocols: tuple[str, ...]) -> None:
        """Rank all users."""
        evaluate(
            self.model,
            self.data,
            split,
            protocols=protocols,
            evaluation=EvaluationConfig(),
            max_len=self.config.span,
            device=self.device,
        )

    def peak(self) -> int:
        """Return the bytes that an epoch needs above what was there before."""
        if torch.device(self.device).type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self.epoch()
            return torch.cuda.max_memory_allocated()
        return peak_bytes(self.epoch)

    def measure(self) -> dict[str, object]:
        """Return everything about this data set."""
        cut = [
            part
            for batch in self.batches()
            for part, _ in parts(
                batch,
                limits=LIMITS[torch.device(self.device).type],
                shared=self.model.tells_windows_apart,
            )
        ]
        padding = sum(int((p.items == 0).sum()) for p in cut) / sum(p.items.numel() for p in cut)
        peak = self.peak()
        rate = sgemm_rate(2048, device=self.device)
        counts = []
        best = min(timed(lambda: counts.append(self.epoch())) for _ in range(self.options.repeats))
        n_sequences = counts[0]
        counter = FlopCounterMode(display=False)
        with counter:
            self.epoch()
        shares = self.shares()
        shares["evaluation"] = timed(
            lambda: (self.evaluation("validation", ("popular-100",)), settle(self.device))
        )
        both = timed(lambda: (self.evaluation("validation", PROTOCOLS), settle(self.device)))
        found = {
            "dataset": self.name,
            "model": self.options.model,
            "length": self.length,
            "hidden": self.options.hidden,
            "batch": self.training.batch,
            "precision": self.training.precision,
            "device": self.device,
            "batches": sum(1 for _ in self.batches()),
            "sequences": n_sequences,
            "sequences_per_second": n_sequences / best,
            "peak_megabytes": peak / 2**20,
            "padding_share": padding,
            "seconds": shares,
            "evaluation_of_both_protocols_seconds": both,
            "sgemm_gigaflops": rate / 1e9,
            "achieved_gigaflops": counter.get_total_flops() / best / 1e9,
            "sgemm_share": counter.get_total_flops() / best / rate,
        }
        if self.name == "beauty" and self.options.model == "meantime":
            uncut = min(timed(lambda: self.epoch(cut=False)) for _ in range(self.options.repeats))
            found["uncut_sequences_per_second"] = n_sequences / uncut
            found["speedup_by_cutting"] = uncut / best
        return found


def config_of(options: argparse.Namespace, length: int):
    """Return the model's configuration, with the options that it has."""
    config = MODELS[options.model]
    fields = {"hidden": options.hidden, "max_len": length}
    if options.model == "meantime":
        embeddings = tuple(options.embeddings.split("+"))
        fields |= {"embeddings": embeddings, "heads": len(embeddings)}
    return config(**{name: v for name, v in fields.items() if name in config.model_fields})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--batches", type=int, default=8, help="of the epoch; 0: all")
    parser.add_argument("--batch", type=int, help="sequences a batch; by default the case's own")
    parser.add_argument("--hidden", type=int, default=64)
    # Not those that count or sample: they have no batches.
    trained = [name for name, config in MODELS.items() if "batch" in config.training_factors]
    parser.add_argument("--model", choices=trained, default="meantime")
    parser.add_argument("--embeddings", default="day+pos+sin+log")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = {"machine": machine(), "cases": []}
    for name in options.cases:
        case = Bench(name, options).measure()
        found["cases"].append(case)
        if not options.json:
            whole = sum(case["seconds"].values())
            shares = ", ".join(f"{k} {v / whole:.0%}" for k, v in case["seconds"].items())
            print(
                f"{case['model']} on {name} N {case['length']} h {case['hidden']} "
                f"batch {case['batch']} "
                f"{case['precision']} on {case['device']}, {case['batches']} batches: "
                f"{case['sequences_per_second']:.0f} sequences/s, "
                f"{case['peak_megabytes']:.0f} MB, padding {case['padding_share']:.1%}, "
                f"{case['achieved_gigaflops']:.0f} GFLOP/s = {case['sgemm_share']:.0%} of sgemm; "
                f"{shares}; both protocols {case['evaluation_of_both_protocols_seconds']:.2f} s",
                flush=True,
            )
            if "speedup_by_cutting" in case:
                print(
                    f"  uncut {case['uncut_sequences_per_second']:.0f} sequences/s: "
                    f"{case['speedup_by_cutting']:.1f} times"
                )
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
