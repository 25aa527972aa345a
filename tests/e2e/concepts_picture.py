"""Prints the second picture of docs/concepts.md, docs/images/concepts.svg, from answers about two models.

    PYTHONPATH=build/python /usr/bin/python3 tests/e2e/concepts_picture.py >docs/images/concepts.svg

It needs a running server without the models concepts-a and concepts-b. readme_test.py fails if the picture
differs from the one that this script prints.
"""
import math
import random

import calibd

# Rows after which the server is asked.
LOOKS = (100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200, 4800, 6400, 8000)
# How much too large the stated probability is, and the color and place of the words.
MODELS = {"concepts-a": (0.0, "#08519c", "says what happens"),
          "concepts-b": (0.05, "#d95f0e", "5 points over-confident")}
WIDTH, HEIGHT = 680, 300
PLOT_WIDTH, PLOT_HEIGHT, TOP = 270, 200, 40
LIMIT = 2


def rows(name, shift):
    """Rows of three classes, of which the first one is the most probable, and the class that came true."""
    generator = random.Random(name)
    for _ in range(LOOKS[-1]):
        confidence = 0.9 + 0.1 * generator.random()
        rest = (1 - confidence) / 2
        yield [confidence, rest, rest], 0 if generator.random() < confidence - shift else generator.choice((1, 2))


def ask(client, name, shift):
    """After each number of rows: the interval of the error in points, and log10 of the highest e-value."""
    answers = []
    observed = list(rows(name, shift))
    client.create_model(name, classes=3, bandwidth=0.5)
    with client.stream(name) as stream:
        sent = 0
        for look in LOOKS:
            probabilities, labels = zip(*observed[sent:look])
            stream.send(list(probabilities), list(labels))
            stream.flush()
            sent = look
            answer = client.calibration(name)
            interval = answer.error.since_start.top_label
            answers.append((look, 100 * interval.lower, 100 * interval.upper,
                            answer.watch.evidence.max_log10_e_value))
    return answers


def text(x, y, words, size=11, anchor="middle", color="#333", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}" '
            f'font-weight="{weight}">{words}</text>')


class Plot:
    """left: of its frame. most: the value at its top, where a band is cut and a line ends."""

    def __init__(self, left, title, axis, most, ticks):
        self.left, self.most = left, most
        bottom = TOP + PLOT_HEIGHT
        self.out = [f'<rect x="{left}" y="{TOP}" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" fill="none" '
                    'stroke="#999"/>',
                    text(left + PLOT_WIDTH / 2, TOP - 14, title, 13, color="#000", weight="bold"),
                    text(left + PLOT_WIDTH / 2, bottom + 36, "labelled rows")]
        self.out += [text(left - 6, self.y(tick) + 4, f"{tick:g}", anchor="end") for tick in ticks]
        self.out += [text(self.x(look), bottom + 16, f"{look}") for look in (100, 400, 1600, 6400)]
        middle = TOP + PLOT_HEIGHT / 2
        self.out.append(f'<text transform="translate({left - 36} {middle}) rotate(-90)" font-size="11" '
                        f'text-anchor="middle" fill="#333">{axis}</text>')

    def x(self, look):
        return self.left + PLOT_WIDTH * math.log(look / LOOKS[0]) / math.log(LOOKS[-1] / LOOKS[0])

    def y(self, value):
        return TOP + PLOT_HEIGHT * (1 - min(max(value, 0), self.most) / self.most)

    def points(self, values):
        return " ".join(f"{self.x(look):.1f},{self.y(value):.1f}" for look, value in values)

    def band(self, lower, upper, color):
        self.out.append(f'<polygon points="{self.points(lower)} {self.points(upper[::-1])}" fill="{color}" '
                        'fill-opacity="0.3"/>')

    def line(self, values, color):
        end = next((number + 1 for number, (_, value) in enumerate(values) if value > self.most), len(values))
        self.out.append(f'<polyline points="{self.points(values[:end])}" fill="none" '
                        f'stroke="{color}" stroke-width="2"/>')

    def level(self, value, words):
        y = self.y(value)
        self.out += [f'<path d="M{self.left} {y:.1f}h{PLOT_WIDTH}" stroke="#000" stroke-dasharray="5 3"/>',
                     text(self.left + PLOT_WIDTH - 4, y - 4, words, anchor="end", color="#000")]


def picture():
    client = calibd.Client()
    error = Plot(52, "How far off", "points off", 12, (0, 2, 4, 8, 12))
    evidence = Plot(396, "Is it wrong at all", "highest e-value", 8, ())
    evidence.out += [text(390, evidence.y(power) + 4, words, anchor="end")
                     for power, words in ((0, "1"), (3, "10³"), (6, "10⁶"))]
    for number, (name, (shift, color, words)) in enumerate(MODELS.items()):
        answers = ask(client, name, shift)
        error.band([(look, low) for look, low, *_ in answers],
                   [(look, high) for look, _, high, _ in answers], color)
        evidence.line([(look, value) for look, *_, value in answers], color)
        for plot, anchor_x in ((error, 130), (evidence, 10)):
            plot.out.append(text(plot.left + anchor_x, TOP + 16 + 15 * number, words, anchor="start", color=color))
    error.level(LIMIT, "limit")
    evidence.level(math.log10(20), "20")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">',
        "<title>The interval of the error narrows with more rows, until it lies below or above the limit; the "
        "e-value of the over-confident model grows, and that of the other one does not</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *error.out, *evidence.out, "</svg>"])


if __name__ == "__main__":
    print(picture())
