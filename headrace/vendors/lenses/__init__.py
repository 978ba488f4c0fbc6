"""Lenses' S3 sink and source: names, rows, options and KCQL.

names         keys of objects and index files
rows          what is read; written_values: what is written
translation   the sink's options in ours; translated_statements: its KCQL; source_translation:
              the source's
options       what becomes of each option
kcql          the language
"""
