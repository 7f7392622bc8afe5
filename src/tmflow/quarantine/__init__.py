"""Bundles of runs that wait for a maintainer: kept apart from the study's database, and every action written down."""
