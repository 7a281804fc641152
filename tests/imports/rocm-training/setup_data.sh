#!/bin/sh
mkdir -p /opt/data
