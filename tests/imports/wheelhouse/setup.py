from setuptools import setup

setup(name="mypkg", version="1.0", packages=["mypkg"])
