"""Time of a study's complete figure set in four formats, and of the frames and statistics in it.

`python benchmarks/bench_analysis.py [--json FILE]` fills a store with 2,048 made trials, reads,
computes, draws and exports, with one browser session. Target: under 40 s on two cores, of which
frames and statistics (everything before the browser) under 15 s.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from made_store import fill

from analysis.export import export
from analysis.figures import draw_all
from analysis.material import read_material
from analysis.report import render
from analysis.stamp import source
from tests.analysis.browser import look

FORMATS = ("pdf", "svg", "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--study", default="made-grid", help="of benchmarks/made_store.py")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/made.db"
        trials = fill(url, chosen.study)
        wall, processor = time.perf_counter(), time.process_time()
        material = read_material(url, chosen.study, data_folder=Path(folder))
        read = time.perf_counter()
        drawn = draw_all(material)
        computed = time.perf_counter()
        computed_processor = time.process_time() - processor
        # One figure of each kind is the set of a paper; a study has one for each data set, too.
        kinds = {figure.kind: figure for figure in reversed(drawn.figures)}
        first = list(reversed(kinds.values()))[:12]
        exported = export(
            first, Path(folder, "figures"), source=source(chosen.study, url), formats=FORMATS
        )
        done = time.perf_counter()
        page = Path(folder, "report.html")
        page.write_text(render(material))
        (seen,) = look(page, widths=(1280,))
        numbers = {
            "trials": trials,
            "figures computed": len(drawn.figures),
            "figures exported": len(first),
            "files": len(exported.files),
            "missing": exported.missing,
            "read, s": round(read - wall, 2),
            "statistics and drawing, s": round(computed - read, 2),
            "read, statistics and drawing, processor s": round(computed_processor, 2),
            "export, s": round(done - computed, 2),
            "export per static file, s": round((done - computed) / (3 * len(first)), 3),
            "all, s": round(done - wall, 2),
            "report, MB": round(page.stat().st_size / 1e6, 2),
            "report opens, s": round(seen.seconds, 2),
        }
    for name, value in numbers.items():
        print(f"{name:45} {value}")
    if chosen.json:
        chosen.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
