from setuptools import setup

setup(name="mine")
