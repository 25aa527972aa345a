"""Prints the first picture of docs/concepts.md, docs/images/calibd.svg, from the answers about two models.

    PYTHONPATH=build/python /usr/bin/python3 tests/e2e/readme_picture.py >docs/images/calibd.svg

It needs the server of deploy/run, which simulates the models m1 and m2. The diagrams are those that a
notebook shows. readme_test.py fails if the picture differs from the one that this script prints.
"""
import re

import calibd

MODELS = ("m1", "m2")
WIDTH, HEIGHT = 680, 540
TOP_OF_DIAGRAMS = 130
BOX_WIDTH, BOX_HEIGHT = 150, 62
# The title and the second line of each box, and the words above and below the arrow that leaves it.
BOXES = (("your model", "Python, C++, files, HTTP", ("predictions", "and labels")),
         ("calibd", "measures and tests", ("how far off,", "since when")),
         ("verdict, alarms", "calibctl, Python, metrics", ()))


def text(x, y, words, size=12, anchor="middle", weight="normal"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{words}</text>')


def flow():
    """The boxes in a row, each with an arrow to the next one."""
    gap = (WIDTH - 2 * 10 - len(BOXES) * BOX_WIDTH) / (len(BOXES) - 1)
    out = []
    for number, (title, line, arrow) in enumerate(BOXES):
        x = 10 + number * (BOX_WIDTH + gap)
        middle = x + BOX_WIDTH / 2
        out += [f'<rect x="{x}" y="20" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#deebf7" '
                'stroke="#08519c"/>',
                text(middle, 46, title, 14, weight="bold"), text(middle, 66, line, 11)]
        if arrow:
            begin, end, y = x + BOX_WIDTH + 4, x + BOX_WIDTH + gap - 4, 51
            out += [f'<path d="M{begin} {y}H{end - 6}m-2 -5l8 5l-8 5" fill="none" stroke="#08519c"/>',
                    text((begin + end) / 2 - 3, y - 8, arrow[0], 11),
                    text((begin + end) / 2 - 3, y + 16, arrow[1], 11)]
    return out


def diagram(model, x):
    """The diagram of a model, below what its confidence says and how often it is right."""
    answer = calibd.Client().calibration(model)
    svg = re.search(r"<svg .*</svg>", answer._repr_html_(), re.S)[0]
    error = answer.error.since_start
    heading = f"says {100 * error.mean_confidence:.1f} % on average, right {100 * error.accuracy:.1f} %"
    width = int(re.search(r'width="(\d+)"', svg)[1])
    return [text(x + width / 2, TOP_OF_DIAGRAMS - 8, heading, 13, weight="bold"),
            svg.replace("<svg ", f'<svg x="{x}" y="{TOP_OF_DIAGRAMS}" ', 1)]


def picture():
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">',
        "<title>A model sends predictions and labels to calibd, which answers whether the "
        "probabilities can be trusted; the reliability diagrams of a calibrated model and of one that "
        "is over-confident</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *flow(), *diagram(MODELS[0], 10), *diagram(MODELS[1], 350), "</svg>"])


if __name__ == "__main__":
    print(picture())
