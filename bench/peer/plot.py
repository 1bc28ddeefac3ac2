"""One picture: how far each figure is from its goal. Right of the line is better than the goal."""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def main(source: str, target: str) -> None:
    told = json.loads(Path(source).read_text("utf-8"))
    rows = [row for row in told["figures"] if row["of_goal"]][::-1]
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.36 * len(rows)), layout="constrained")
    colours = ["#2b8a5f" if row["met"] else "#c0492f" for row in rows]
    axes.barh([row["name"] for row in rows], [row["of_goal"] for row in rows], color=colours, height=0.62)
    axes.set_xscale("log")
    axes.axvline(1, color="#333333", linewidth=1)
    for place, row in enumerate(rows):
        axes.text(
            row["of_goal"],
            place,
            f" {row['value']:,.{0 if row['value'] >= 100 else 2}f} {row['unit']}",
            va="center",
            fontsize=8,
        )
    axes.margins(x=0.25)
    axes.set_xlabel("times better than the goal (1 = the goal; red misses it)")
    axes.set_title(told["machine"], fontsize=8, loc="left")
    axes.tick_params(axis="y", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(target, dpi=130)
    print(json.dumps({"written": target}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
