"""Clips of the shapes of scenes.py in motion: the world that the demo's video checkpoint is trained on.

How a shape moves is its own: a circle hops, a star spins. At 7 frames per second and a motion bucket of 127 it has gone
through its motion once after 8 frames, and the clip begins anew. Its first frame is the picture of the scene.
"""

import math
import random

import torch

import scenes

FRAMES = 8
SIDE = 128
FPS, MOTION = 7, 127  # the pipeline's defaults
FPS_RANGE, MOTION_RANGE = (5, 12), (0, 255)


def wave(phase):
    """0 at a whole phase, 1 halfway."""
    return torch.sin(math.pi * phase) ** 2


def circulate(phase):
    """(x, y) on a circle of radius 1 that begins at its top, clockwise, seen from there."""
    return torch.sin(2 * math.pi * phase), 1 - torch.cos(2 * math.pi * phase)


def still(phase):
    return torch.zeros_like(phase)


# shape: what is added to x and y, the factor of the radius, and the angle, by the phase and the way (1 or -1).
MOTIONS = {
    "circle": lambda p, way: (still(p), -0.45 * torch.sin(math.pi * p).abs(), 1 + still(p), still(p)),
    "square": lambda p, way: (way * 0.35 * torch.sin(2 * math.pi * p), still(p), 1 + still(p), still(p)),
    "triangle": lambda p, way: (still(p), still(p), 1 + still(p), 0.5 * torch.sin(2 * math.pi * p)),
    "star": lambda p, way: (still(p), still(p), 1 + still(p), 2 * math.pi / 5 * p),
    "heart": lambda p, way: (still(p), still(p), 1 + 0.35 * wave(p), still(p)),
    "ring": lambda p, way: (still(p), still(p), 1 - 0.4 * wave(p), still(p)),
    "diamond": lambda p, way: (*(0.22 * part for part in circulate(p)), 1 + still(p), still(p)),
    "cross": lambda p, way: (still(p), still(p), 1 + still(p), -math.pi / 2 * p),
}


class Clips:
    """`count` clips, the same ones for the same seed; frames are drawn when they are asked for.

    Half of them move as the pipeline's defaults have it, the others at another speed. What an image does not say, the
    way in which a square goes first, is left to chance.
    """

    def __init__(self, count, seed):
        self.scenes = scenes.sample(count, seed)
        rng = random.Random(seed + 1)
        self.fps, self.motion, self.ways = [], [], []
        for _ in range(count):
            usual = rng.random() < 0.5
            self.fps.append(FPS if usual else rng.randint(*FPS_RANGE))
            self.motion.append(MOTION if usual else rng.randint(*MOTION_RANGE))
            self.ways.append([rng.choice((-1.0, 1.0)) for _ in range(2)])

    def __len__(self):
        return len(self.scenes)

    def phases(self, first, count):
        """[count, FRAMES]"""
        pairs = zip(self.motion[first : first + count], self.fps[first : first + count])
        speeds = torch.tensor([motion / MOTION * FPS / fps / FRAMES for motion, fps in pairs])
        return speeds.unsqueeze(1) * torch.arange(FRAMES)

    def draw(self, first, count, device):
        """Clips `first` to `first + count`: float [count, FRAMES, 3, SIDE, SIDE] in [-1, 1]."""
        chosen = self.scenes[first : first + count]
        phases, ways = self.phases(first, count).to(device), self.ways[first : first + count]
        canvas = scenes.Canvas(SIDE, SIDE, device)
        pictures = canvas.backgrounds([scene.background for scene in chosen]).unsqueeze(1).repeat(1, FRAMES, 1, 1, 1)
        for layer in range(max(len(scene.objects) for scene in chosen)):
            for shape in scenes.SHAPES:
                rows = [i for i, s in enumerate(chosen) if len(s.objects) > layer and s.objects[layer].shape == shape]
                if rows:
                    objects = [chosen[row].objects[layer] for row in rows]
                    going = torch.tensor([ways[row][layer] for row in rows], device=device).unsqueeze(1)
                    pictures[rows] = paint(canvas, pictures[rows], shape, objects, phases[rows], going)
        return pictures * 2 - 1


def paint(canvas, pictures, shape, objects, phases, ways):
    """`pictures` with one object of the same shape on each, moved by its phase. phases [B, FRAMES], ways [B, 1]"""
    geometry = torch.tensor([canvas.geometry(placed) for placed in objects], device=canvas.device)
    radius, x, y = (column.unsqueeze(1) for column in geometry.unbind(1))
    across, down, growth, angle = MOTIONS[shape](phases, ways)
    colors = canvas.colors([placed.color for placed in objects]).repeat_interleave(FRAMES, 0)
    moved = (values.reshape(-1, 1, 1) for values in (radius * growth, x + across, y + down, angle))
    return canvas.paint_at(pictures.flatten(0, 1), shape, colors, *moved).view_as(pictures)
