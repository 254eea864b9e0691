"""Studies that train in a second or two, for tests of everything around the training."""

from pathlib import Path
from textwrap import dedent

from study.definition import load_studies, study_named
from study.plan import Plan, plan

STUDIES = dedent(
    """\
    datasets:
      tiny:
        synthetic: {recipe: planted-order, users: 40, items: 20, events: 10}
    defaults: {hidden: 8, layers: 1, max_len: 10, batch: 32, epochs: 2, heads: 2}
    studies:
      four:
        question: Does it work?
        datasets: [tiny]
        embeddings: [none, [pos], [day], [pos, log]]
        seeds: [0]
      one-fails:
        question: Does a failing trial leave the others alone?
        datasets: [tiny]
        embeddings: [[pos]]
        grid: {lr: [0.004, 1.0e+30, 0.002]}
        seeds: [0]
      long:
        question: Can it be interrupted?
        datasets: [tiny]
        embeddings: [[pos], [day], [sin], none]
        grid: {epochs: 180, patience: 180}
        seeds: [0]
      shares:
        question: Does the twentieth still see its GPU?
        datasets: [tiny]
        embeddings: [[pos]]
        grid: {epochs: 1}
        seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
          22, 23]
      race:
        question: Is a slow one stopped?
        datasets: [tiny]
        embeddings: [[pos]]
        grid: {epochs: 4}
        seeds: [0, 1, 2, 3]
    """
)


def written(folder: Path) -> Path:
    """Write the file of small studies into a folder and return its path."""
    path = folder / "studies.yaml"
    path.write_text(STUDIES, encoding="utf-8")
    return path


def planned(name: str, folder: Path) -> Plan:
    """Plan one of the small studies."""
    declared = load_studies(written(folder))
    return plan(study_named(declared, name), declared)
