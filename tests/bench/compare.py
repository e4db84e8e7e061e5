"""Prints the largest difference of two pictures, in steps of 1/255: python compare.py A.png B.png (needs Pillow)"""
import sys

from PIL import Image, ImageChops

first, second = (Image.open(name).convert("RGB") for name in sys.argv[1:3])
if first.size != second.size:
    sys.exit(f"the pictures are {first.size} and {second.size}")
print(max(high for _, high in ImageChops.difference(first, second).getextrema()))
