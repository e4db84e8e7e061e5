"""Captioned pictures of coloured shapes: the world that the demo checkpoint is trained on.

Shapes are signed distance functions, evaluated for a whole batch of pictures at once.
Coordinates: (0, 0) is the middle of the picture, 1 is half its shorter side, y points down.
"""

import dataclasses
import math
import random

import torch

COLORS = {
    "red": (0.86, 0.12, 0.14),
    "green": (0.13, 0.62, 0.24),
    "blue": (0.12, 0.30, 0.82),
    "yellow": (0.97, 0.83, 0.12),
    "orange": (0.96, 0.52, 0.10),
    "purple": (0.52, 0.18, 0.66),
    "pink": (0.97, 0.55, 0.72),
    "cyan": (0.15, 0.78, 0.82),
    "white": (0.96, 0.96, 0.96),
    "black": (0.06, 0.06, 0.07),
    "gray": (0.50, 0.50, 0.52),
    "brown": (0.47, 0.28, 0.14),
}
PLACES = {
    "in the center": (0.0, 0.0),
    "on the left": (-0.45, 0.0),
    "on the right": (0.45, 0.0),
    "at the top": (0.0, -0.45),
    "at the bottom": (0.0, 0.45),
}
# Places of the first and the second object, in parts of half a side.
RELATIONS = {
    "left of": ((-0.48, 0.0), (0.48, 0.0)),
    "right of": ((0.48, 0.0), (-0.48, 0.0)),
    "above": ((0.0, -0.48), (0.0, 0.48)),
    "below": ((0.0, 0.48), (0.0, -0.48)),
}
RADII = {"small": 0.20, "": 0.32, "large": 0.46}
PAIR_RADIUS = 0.30
SHADOW_OFFSET = (0.03, 0.05)


def circle(x, y, r):
    return torch.hypot(x, y) - r


def square(x, y, r):
    return torch.maximum(x.abs(), y.abs()) - 0.86 * r


def triangle(x, y, r):
    sides = 0.866 * x.abs() - 0.5 * y - 0.55 * r
    return torch.maximum(sides, y - 0.62 * r)


def star(x, y, r):
    """Five points; each fifth is folded onto one half of a point, whose edge is a straight line from tip to valley."""
    fifth = 2 * math.pi / 5
    angle = torch.remainder(torch.atan2(x, -y) + fifth / 2, fifth) - fifth / 2
    distance = torch.hypot(x, y)
    along, across = distance * torch.cos(angle), (distance * torch.sin(angle)).abs()
    tip, valley = 1.1 * r, 0.46 * r
    edge_x, edge_y = valley * math.cos(fifth / 2) - tip, valley * math.sin(fifth / 2)
    return ((along - tip) * edge_y - across * edge_x) / torch.hypot(edge_x, edge_y)


def heart(x, y, r):
    """The curve (x² + y² - a)³ = b x² y³; its cube root grows about as a distance does."""
    u, v = x.abs() / r, 0.12 - 0.95 * y / r
    value = (u * u + v * v - 0.62) ** 3 - 1.6 * u * u * v**3
    return torch.sign(value) * value.abs().clamp_min(1e-9) ** (1 / 3) * 0.22 * r


def ring(x, y, r):
    return (torch.hypot(x, y) - 0.78 * r).abs() - 0.24 * r


def diamond(x, y, r):
    return (x.abs() + y.abs() - 1.15 * r) * math.sqrt(0.5)


def cross(x, y, r):
    beam = torch.maximum(x.abs() - r, y.abs() - 0.32 * r)
    post = torch.maximum(x.abs() - 0.32 * r, y.abs() - r)
    return torch.minimum(beam, post)


# name: signed distance of the points (x, y) from the shape of radius r, negative inside. r is [B, 1, 1].
SHAPES = {shape.__name__: shape for shape in (circle, square, triangle, star, heart, ring, diamond, cross)}


@dataclasses.dataclass(frozen=True)
class Placed:
    """A shape in a picture. The centre is in parts of half a side each way; the shift is in the same unit both ways."""

    color: str
    shape: str
    radius: float
    center: tuple
    shift: tuple = (0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Scene:
    """A caption, and what to draw for it."""

    caption: str
    background: str
    objects: tuple


def caption_words():
    """Every word that a caption may hold, and a few that a user may type beside them."""
    phrases = [*COLORS, *SHAPES, *PLACES, *RELATIONS, *RADII, "a an on background of"]
    return {word for phrase in phrases for word in phrase.split()}


def with_article(words):
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def jittered(rng, color, shape, radius, center):
    """The shape a little off its place and size, so that the model sees more than a grid."""
    shift = rng.uniform(-0.04, 0.04), rng.uniform(-0.04, 0.04)
    return Placed(color, shape, radius * rng.uniform(0.92, 1.08), center, shift)


def single_scene(rng, background, colors):
    color, shape, size = rng.choice(colors), rng.choice(list(SHAPES)), rng.choice(list(RADII))
    place = rng.choice(list(PLACES)) if rng.random() < 0.5 else ""
    center = PLACES[place] if place else (rng.uniform(-0.25, 0.25), rng.uniform(-0.25, 0.25))
    words = [with_article(f"{size} {color} {shape}".strip()), place, "on", with_article(background), "background"]
    return Scene(" ".join(filter(None, words)), background, (jittered(rng, color, shape, RADII[size], center),))


def pair_scene(rng, background, colors):
    relation = rng.choice(list(RELATIONS))
    names = zip((rng.choice(colors), rng.choice(colors)), (rng.choice(list(SHAPES)), rng.choice(list(SHAPES))))
    (color, shape), (other_color, other_shape) = names
    first, second = with_article(f"{color} {shape}"), with_article(f"{other_color} {other_shape}")
    centers = RELATIONS[relation]
    objects = (
        jittered(rng, color, shape, PAIR_RADIUS, centers[0]),
        jittered(rng, other_color, other_shape, PAIR_RADIUS, centers[1]),
    )
    return Scene(f"{first} {relation} {second} on {with_article(background)} background", background, objects)


def sample(count, seed):
    """`count` scenes, the same ones for the same seed: three in five have one object, the others two."""
    rng = random.Random(seed)
    scenes = []
    for _ in range(count):
        background = rng.choice(list(COLORS))
        colors = [color for color in COLORS if color != background]
        make = single_scene if rng.random() < 0.6 else pair_scene
        scenes.append(make(rng, background, colors))
    return scenes


def turned(x, y, angle):
    """The points as a shape sees them that is turned clockwise by `angle`, [B, 1, 1]; None is not at all."""
    if angle is None:
        return x, y
    cos, sin = torch.cos(angle), torch.sin(angle)
    return x * cos + y * sin, y * cos - x * sin


class Canvas:
    """The coordinates of every pixel of a picture, and what paints on a batch of them."""

    def __init__(self, height, width, device):
        shorter = min(height, width)
        self.device = device
        self.aspect = (width / shorter, height / shorter)
        self.pixel = 2.0 / shorter
        self.across = (torch.arange(width, device=device) + 0.5) / width * 2 - 1
        self.down = (torch.arange(height, device=device) + 0.5) / height * 2 - 1
        self.y, self.x = torch.meshgrid(self.down * self.aspect[1], self.across * self.aspect[0], indexing="ij")

    def colors(self, names):
        """[B, 3, 1, 1]"""
        return torch.tensor([COLORS[name] for name in names], device=self.device).view(-1, 3, 1, 1)

    def backgrounds(self, names):
        """Each colour, a little darker towards the bottom."""
        shade = 1.06 - 0.16 * (self.down + 1) / 2
        return (self.colors(names) * shade.view(1, 1, -1, 1)).expand(-1, -1, -1, len(self.across)).clamp(0, 1)

    def paint(self, pictures, shape, objects):
        """`pictures` with one object of the same shape on each."""
        geometry = torch.tensor([self.geometry(placed) for placed in objects], device=self.device)
        radius, x, y = (column.view(-1, 1, 1) for column in geometry.unbind(1))
        return self.paint_at(pictures, shape, self.colors([placed.color for placed in objects]), radius, x, y)

    def paint_at(self, pictures, shape, colors, radius, x, y, angle=None):
        """`pictures` with `shape` on each, its shadow below it and a light from above. The numbers are [B, 1, 1]."""
        across, down = self.x - x, self.y - y
        distance = SHAPES[shape](*turned(across, down, angle), radius)
        shadow = SHAPES[shape](*turned(across - SHADOW_OFFSET[0], down - SHADOW_OFFSET[1], angle), radius)
        shaded = pictures * (1 - 0.35 * torch.sigmoid(-shadow / (3.5 * self.pixel)).unsqueeze(1))
        cover = torch.sigmoid(-distance / (0.45 * self.pixel)).unsqueeze(1)
        light = (1.10 - 0.28 * ((down + radius) / (2 * radius)).clamp(0, 1)).unsqueeze(1)
        return shaded * (1 - cover) + (colors * light).clamp(0, 1) * cover

    def geometry(self, placed):
        """(radius, x, y) in the canvas's coordinates."""
        x, y = (c * aspect + s for c, aspect, s in zip(placed.center, self.aspect, placed.shift))
        return placed.radius, x, y


def draw(scenes, height, width, device="cuda"):
    """Pictures of `scenes`: float [B, 3, height, width] in [-1, 1]."""
    canvas = Canvas(height, width, device)
    pictures = canvas.backgrounds([scene.background for scene in scenes])
    for layer in range(max(len(scene.objects) for scene in scenes)):
        for shape in SHAPES:
            rows = [i for i, s in enumerate(scenes) if len(s.objects) > layer and s.objects[layer].shape == shape]
            if rows:
                pictures[rows] = canvas.paint(pictures[rows], shape, [scenes[i].objects[layer] for i in rows])
    return pictures * 2 - 1
