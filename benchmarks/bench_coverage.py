"""How often intervals cover and corrected tests err, over simulated studies whose truth is known.

All arms of a simulated study are equal in distribution, so that every true difference is zero: an
interval that misses zero is a miss, and any comparison that survives Holm is a false positive.
Users are shared by all arms and seeds (crossed). NDCG@10 comes from ranks, hence is full of zeros;
a seed moves a whole arm up or down.
"""

import argparse
import json
import time
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from analysis.error_distribution import two_sided
from analysis.resampling import resample
from analysis.statistics import error_parts, holm
from model.metrics import ndcg_at

LEVEL = 0.95
GAINS = ndcg_at(10, np.arange(102), equal=np.zeros(102, dtype=np.int64))


class World(NamedTuple):
    """How simulated ranks vary, on the logarithm of the number of items above the target.

    Attributes:
        user: standard deviation of users, shared by all arms.
        taste: of what an arm does to a user under every seed.
        rest: of what a seed does to one user of an arm.
        uneven: of the logarithm of how far seeds move an arm: 0 moves all arms equally far.
    """

    user: float = 1.2
    taste: float = 0.5
    rest: float = 0.5
    uneven: float = 0.0


def simulated(generator, world, *, arms, seeds, users, seed_sd):
    """Return NDCG@10, shape (arms, seeds, users), and no true difference between arms."""
    level = (
        1.8
        + world.user * generator.standard_normal((1, 1, users))
        + world.taste * generator.standard_normal((arms, 1, users))
        + world.rest * generator.standard_normal((arms, seeds, users), dtype=np.float32)
    )
    values = GAINS[np.minimum(np.exp(level), 101).astype(np.int64)]
    # The mean square over arms stays the same, whatever `uneven` is.
    reach = np.exp(world.uneven * generator.standard_normal((arms, 1, 1)) - world.uneven**2)
    return values + seed_sd / np.sqrt(2) * reach * generator.standard_normal((arms, seeds, 1))


def user_standard_error(world, users):
    """Return the standard error of a mean difference at one seed without seed effects."""
    generator = np.random.default_rng(1)
    many = simulated(generator, world, arms=2, seeds=1, users=400_000, seed_sd=0.0)
    return float((many[0] - many[1]).std() / np.sqrt(users))


def residual_share(world):
    """Return the share of a user's difference at one seed that another seed would redraw."""
    generator = np.random.default_rng(2)
    many = simulated(generator, world, arms=2, seeds=2, users=400_000, seed_sd=0.0)
    differences = many[0] - many[1]
    return float((differences[0] - differences[1]).var() / 2 / differences[0].var())


def interval_misses(mean, error):
    """Return which intervals of `LEVEL` miss zero."""
    return two_sided(mean, error) < 1 - LEVEL


def satterthwaite_p(mean, error):
    return 2 * special.stdtr(error.satterthwaite_df, -np.abs(mean) / np.sqrt(error.variance))


def student_misses(means):
    return stats.ttest_1samp(means, 0.0, axis=-1).pvalue < 1 - LEVEL


def pooled_error(values, error):
    """Replace the seeds' error by one that is common to all arms of each study."""
    means = values.mean(axis=-1)
    rest = means - means.mean(axis=0) - means.mean(axis=1, keepdims=True) + means.mean()
    arms, seeds = means.shape
    df = (arms - 1) * (seeds - 1)
    part = 2 * float((rest**2).sum()) / df / seeds
    return error._replace(seed_part=np.full(error.user_part.shape, part), seed_df=float(df))


def setting(generator, world, *, studies, arms, seeds, users, ratio, draws):
    """Return coverage and false positives of one setting."""
    seed_sd = ratio * user_standard_error(world, users)
    drawn = resample(generator, seeds=seeds, users=users, repeats=draws)
    tallies = {name: [] for name in ("components", "satterthwaite", "users", "seeds", "mixed")}
    bootstrap, differing = [], []
    false = {name: [] for name in ("components", "satterthwaite", "pooled")}
    for _ in range(studies):
        values = simulated(generator, world, arms=arms, seeds=seeds, users=users, seed_sd=seed_sd)
        differences = values[1:] - values[0]
        mean, error = error_parts(differences)
        p = {
            "components": two_sided(mean, error),
            "satterthwaite": satterthwaite_p(mean, error),
            "pooled": two_sided(mean, pooled_error(values, error)),
        }
        for name, found in p.items():
            false[name].append(np.any(holm(found) <= 1 - LEVEL))
            if name in tallies:
                tallies[name].append(found < 1 - LEVEL)
        differing.append(p["components"])
        tallies["users"].append(student_misses(differences.mean(axis=1)))
        tallies["seeds"].append(student_misses(differences.mean(axis=2)))
        tallies["mixed"].append(student_misses(differences.reshape(arms - 1, -1)))
        if draws:
            low, high = np.quantile(drawn.means(differences[0]), [0.025, 0.975])
            bootstrap.append((low > 0) | (high < 0))
    return {
        "seeds": seeds,
        "seed_sd": ratio,
        "coverage": {
            **{name: 1 - float(np.mean(misses)) for name, misses in tallies.items()},
            "crossed bootstrap": 1 - float(np.mean(bootstrap)) if bootstrap else None,
        },
        "false_positives": {name: float(np.mean(found)) for name, found in false.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies a setting")
    parser.add_argument("--arms", type=int, default=17, help="arms, compared with the first")
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 5, 10])
    parser.add_argument("--seed-sd", type=float, nargs="+", default=[0.0, 0.5, 1.5])
    parser.add_argument("--rest", type=float, default=World().rest, help="see World")
    parser.add_argument("--taste", type=float, default=World().taste, help="see World")
    parser.add_argument("--uneven", type=float, default=World().uneven, help="see World")
    parser.add_argument("--draws", type=int, default=500, help="resamples of the bootstrap")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    world = World(taste=options.taste, rest=options.rest, uneven=options.uneven)
    started = time.perf_counter()
    rows = []
    for seeds in options.seeds:
        for ratio in options.seed_sd:
            row = setting(
                np.random.default_rng([seeds, round(10 * ratio)]),
                world,
                studies=options.studies,
                arms=options.arms,
                seeds=seeds,
                users=options.users,
                ratio=ratio,
                draws=options.draws,
            )
            rows.append(row)
            if not options.json:
                shares = {k: v and round(v, 3) for k, v in row["coverage"].items()}
                errors = {k: round(v, 3) for k, v in row["false_positives"].items()}
                print(
                    f"{seeds:2} seeds, seed sd {ratio}: {shares}, after Holm {errors}", flush=True
                )
    summary = {
        "studies": options.studies,
        "users": options.users,
        "comparisons": options.arms - 1,
        "world": world._asdict(),
        "residual_share": residual_share(world),
        "user_standard_error": user_standard_error(world, options.users),
        "seconds": time.perf_counter() - started,
        "settings": rows,
    }
    if options.json:
        print(json.dumps(summary, indent=1))
    else:
        print({name: value for name, value in summary.items() if name != "settings"})


if __name__ == "__main__":
    main()
