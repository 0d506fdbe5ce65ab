"""Discarded and refused records: listed, resumed, sent again."""
